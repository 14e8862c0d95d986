"""docs/regimes.md against the code: every example is a valid overlay and says what its heading promises."""

import re
import shutil

from tests.rules.sources import ROOT
from vse_pipe.project.params.load import load
from vse_pipe.project.params.overlay import apply

TEXT = (ROOT / "docs/regimes.md").read_text(encoding="utf-8")
EXAMPLES = dict(re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```yaml\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL))


def _applied(heading: str, folder):
    shutil.copy(ROOT / "params.yaml", folder / "params.yaml")
    (folder / "example.yaml").write_text(EXAMPLES[heading])
    apply(folder / "params.yaml", str(folder / "example.yaml"), [])
    return load(folder / "params.yaml")


def test_every_example_is_found():
    assert list(EXAMPLES) == ["1C and 10C", "RC and rV", "FT"]
    assert TEXT.count("```yaml") == len(EXAMPLES)


def test_one_and_ten_crops(tmp_path):
    params = _applied("1C and 10C", tmp_path)
    crops = {name: params.features[run.features].backbone.params.crops for name, run in params.runs.items()}
    assert crops == {"one_crop": "center", "ten_crops": "ten"}


def test_random_crops_with_and_without_restval(tmp_path):
    params = _applied("RC and rV", tmp_path)
    for name, restval in [("rc_rv", True), ("rc", False)]:
        run = params.runs[name]
        assert params.datasets[run.dataset].format.params.include_restval is restval
        assert run.image.name == "finetune"
        assert run.image.params.crop == "random"
        assert run.image.params.trainable is False


def test_fine_tuning(tmp_path):
    run = _applied("FT", tmp_path).runs["ft"]
    assert run.image.params.trainable
    assert (run.image.params.after, run.train.epochs, run.image.params.lr) == (30, 45, 2e-5)
    assert run.train.lr == 10 * run.image.params.lr
