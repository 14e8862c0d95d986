"""What a checkpoint belongs to covers the code that trains and validates."""

import pytest

from pipeline.project.registry import RUN_FAMILIES
from pipeline.train.engine import fingerprint
from tests.project import PARAMS, load_params
from tests.rules.sources import PACKAGE, closure

RUN = PARAMS["runs"]["sum"]
FRAGMENTS = {**RUN, "similarity": "sgr", "image": "regions"}


@pytest.mark.parametrize(
    "run", [RUN, {**RUN, "scheme": "l2rm", "loss": "max"}, FRAGMENTS], ids=["plain", "l2rm", "sgr"]
)
def test_everything_that_training_and_validation_import_is_covered(tmp_path, run):
    node = load_params(tmp_path, runs={"sum": run}).runs["sum"]
    members = [family.folder / f"{getattr(node, key).name}.py" for key, family in RUN_FAMILIES.items()]
    used = closure([PACKAGE / "train/stage.py", *members])
    decides = {path for path in used if path.parts[len(PACKAGE.parts)] in ("train", "evaluate")}
    assert PACKAGE / "evaluate/kept.py" in decides
    assert decides <= fingerprint.code(node)
