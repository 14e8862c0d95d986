"""Overlays of the package, of users, and those of docs/regimes.md."""

import re
import shutil
from dataclasses import replace

import pytest

from tests.rules.sources import ROOT
from tests.toy_project import write_params
from vse_pipe.core.errors import MissingResource, ParamsError, UsageError
from vse_pipe.project.params import checks, overlay
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import load
from vse_pipe.project.params.overlay import apply
from vse_pipe.project.paths import run_entry
from vse_pipe.project.registry import INFERENCES


@pytest.fixture
def params(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text())
    return path


def test_all_criteria_are_one_overlay_that_leaves_the_rest_as_it_is(params):
    before = load(params)
    overlay.apply(params, "all_criteria", [])
    loaded = load(params)
    assert replace(loaded, grid=before.grid, inference=before.inference) == before
    assert before.grid.inferences == ["nns", "is", "csls", "rgm"]
    parts = {part for name in loaded.grid.inferences for part in name.split("+")}
    assert parts == set(INFERENCES.names()) - {"hungarian"}, "which is for some thousand items at most"


@pytest.mark.parametrize("name", [name for name in overlay.names() if name != "all_criteria"])
def test_every_packaged_overlay_validates_and_replaces_the_nodes(params, name):
    overlay.apply(params, name, [])
    loaded, content = load(params), read_document(overlay.find(name))
    for section in ("datasets", "features", "texts", "noises"):
        assert list(getattr(loaded, section)) == list(content[section]), section
    assert list(dict.fromkeys(map(run_entry, loaded.runs))) == list(content["runs"])
    assert not re.search("[&*]id", params.read_text()), "what runs share is written out"


SWEPT = [
    ("sweep_k", "k", [1, 2, 3, 5, 10, 20]),
    ("sweep_batch", "batch", [32, 64, 128, 256, 512]),
    ("sweep_bank", "bank", [0.01, 0.02, 0.05, 0.1, 0.2]),
    ("sweep_mass", "mass", [0.025, 0.1, 0.3, 0.5, 0.7, 0.9]),
    ("figures_hal_emnlp", "k", [1, 2, 3, 5, 7, 10]),
    ("figures_hal_aaai", "batch", [32, 64, 128, 256, 512]),
    ("figures_hal_aaai", "bank", [0.01, 0.02, 0.05, 0.1, 0.2]),
]


@pytest.mark.parametrize(("name", "sweep", "expected"), SWEPT)
def test_a_packaged_sweep_takes_the_values_of_its_paper(params, name, sweep, expected):
    overlay.apply(params, name, [])
    loaded = load(params)
    node = loaded.report.sweeps[sweep]
    assert [checks.value(loaded, run, node.x) for run in node.runs] == expected
    drawn = (run for one in loaded.report.sweeps.values() for run in (*one.runs, *one.baselines))
    assert set(loaded.runs) == set(drawn)


@pytest.mark.parametrize("later", ["flickr8k", "sweep_batch"])
def test_sweeps_leave_with_the_runs_they_name(params, later):
    overlay.apply(params, "sweep_epoch", [])
    assert "convergence" in load(params).report.sweeps
    overlay.apply(params, later, [])
    assert "convergence" not in load(params).report.sweeps


def test_audits_leave_with_the_runs_they_name(params):
    overlay.apply(params, "sweep_epoch", ["report.audits=[sum, hal]"])
    assert load(params).report.audits == ["sum", "hal"]
    overlay.apply(params, "sweep_k", [])
    assert load(params).report.audits == []
    assert "audits: []" in params.read_text()


def test_ensembles_leave_with_the_runs_they_name(params):
    overlay.apply(params, "sweep_epoch", ["ensembles={both: {first: sum, second: hal}}"])
    assert list(load(params).ensembles) == ["both"]
    overlay.apply(params, "sweep_k", [])
    assert load(params).ensembles == {}
    assert "ensembles: {}" in params.read_text()


def test_ensembles_of_an_overlay_join_those_before_and_stay_above_the_next_heading(params, tmp_path):
    (tmp_path / "own.yaml").write_text("ensembles: {both: {first: sum, second: hal}}\n")
    overlay.apply(params, str(tmp_path / "own.yaml"), ["ensembles.other={first: max, second: hal}"])
    overlay.apply(params, str(tmp_path / "own.yaml"), [])
    assert list(load(params).ensembles) == ["both", "other"]
    assert "ensembles: {both: {first: sum, second: hal}, other: {first: max, second: hal}}" in params.read_text()


def test_an_overlay_without_runs_keeps_the_sweeps(params, tmp_path):
    overlay.apply(params, "sweep_epoch", [])
    (tmp_path / "own.yaml").write_text("report: {title: mine}\n")
    overlay.apply(params, str(tmp_path / "own.yaml"), [])
    assert list(load(params).report.sweeps) == ["convergence"]


def test_values_of_set_are_written_and_comments_stay(params):
    overlay.apply(params, "flickr8k_precomp", ["datasets.flickr8k_precomp.source=/some/where", "train.embed_size=64"])
    loaded = load(params)
    assert loaded.datasets["flickr8k_precomp"].source == "/some/where"
    assert loaded.runs["hal/1"].train.embed_size == 64
    assert "# --- families" in params.read_text()


def test_a_users_own_file(params, tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text("loss: {hal: {gamma: 7.0}}\n")
    overlay.apply(params, str(own), [])
    assert load(params).runs["hal"].loss.params.gamma == 7.0
    assert load(params).runs["sum"].loss.params.margin > 0


@pytest.mark.parametrize(
    ("content", "error", "message"),
    [("train: {epochs: no}", ParamsError, r"params\.yaml train\.epochs"), ("- 1", ParamsError, "expected a mapping")],
)
def test_a_bad_overlay_changes_nothing(tmp_path, content, error, message):
    path = write_params(tmp_path)
    before = path.read_bytes()
    (tmp_path / "bad.yaml").write_text(content)
    with pytest.raises(error, match=message):
        overlay.apply(path, str(tmp_path / "bad.yaml"), [])
    assert path.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["bad.yaml", "params.yaml"]


RUN = "{dataset: shapes, features: filters, texts: words, noise: clean, loss: max, scheme: plain, similarity: cosine, text: gru, image: linear}"


@pytest.mark.parametrize(
    ("replace", "runs"),
    [
        ("", ["sum", "max", "hal", "own"]),
        ("replace: [runs]", ["own", "max"]),
        ("replace: runs", ["own", "max"]),
        ("replace: [texts, ensembles]\ntexts: {words: {dataset: shapes, method: words}}", ["sum", "max", "hal", "own"]),
    ],
)
def test_entries_join_those_before_or_replace_them(params, tmp_path, replace, runs):
    overlay.apply(params, "sweep_epoch", ["report.audits=[sum]"])
    own = tmp_path / "own.yaml"
    own.write_text(f"{replace}\nruns:\n  own: {RUN}\n  max: {RUN}\n")
    overlay.apply(params, str(own), ["runs.max.options={loss: {margin: 0.3}}"])
    loaded = load(params)
    assert list(loaded.runs) == runs
    assert loaded.runs["max"].loss.params.margin == 0.3
    assert loaded.report.audits == (["sum"] if "sum" in runs else [])
    overlay.apply(params, str(own), [])
    assert load(params).runs["max"].loss.params.margin == 0.2, "an entry of the same name is replaced whole"


def test_an_overlay_that_does_not_fit_what_stays_is_told_how_to_replace_it(params, tmp_path):
    own, before = tmp_path / "own.yaml", params.read_text()
    own.write_text("datasets: {mine: {format: csv, source: x}}\ntexts: {words: {dataset: mine, method: words}}\n")
    with pytest.raises(ParamsError, match="'words' belongs to data set 'mine'") as caught:
        overlay.apply(params, str(own), [])
    assert caught.value.problems[-1].endswith(
        "what own.yaml does not name stays; `replace: nodes` in it takes all other nodes out"
    )
    assert params.read_text() == before


@pytest.mark.parametrize("replace", ["rnus", "[runs, loss]", "true", "{runs: 1}"])
def test_only_nodes_can_be_replaced(params, tmp_path, replace):
    own, before = tmp_path / "own.yaml", params.read_text()
    own.write_text(f"replace: {replace}\n")
    with pytest.raises(ParamsError, match=r"own\.yaml replace: unknown section '.*'.* known: datasets, "):
        overlay.apply(params, str(own), [])
    assert params.read_text() == before


@pytest.mark.parametrize("name", ["my-overlay.yaml", "overlays/mine"])
def test_a_file_that_is_not_there_is_no_unknown_overlay(params, name):
    with pytest.raises(MissingResource, match=f"{name}: no such file; packaged overlays are all_criteria, clip, "):
        overlay.apply(params, name, [])


def test_an_unknown_overlay(params):
    with pytest.raises(UsageError, match="did you mean 'flickr8k'"):
        overlay.apply(params, "flickr8", [])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"seed: [1", "not valid YAML"),
        (b"seed: \xff\n", "not UTF-8"),
        (b"- 1\n", "expected a mapping"),
        (b"", "expected a mapping"),
    ],
)
def test_a_broken_params_file_is_said_and_stays(tmp_path, content, message):
    path = tmp_path / "params.yaml"
    path.write_bytes(content)
    with pytest.raises(ParamsError, match=rf"params\.yaml: .*{message}"):
        overlay.apply(path, "flickr8k", [])
    assert path.read_bytes() == content


def test_entries_that_nothing_is_added_to_keep_their_comments_and_lines(params, tmp_path):
    text = params.read_text()
    own = "ensembles:\n  # why these two\n  both: {first: sum, second: hal}  # a pair\n"
    params.write_text(re.sub(r"^ensembles: \{\}.*\n", own, text, flags=re.MULTILINE))
    assert own in params.read_text()
    overlay.add(params, {"loss": {"hal": {"gamma": 7.0}}})
    assert own in params.read_text()
    assert load(params).runs["hal"].loss.params.gamma == 7.0


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
