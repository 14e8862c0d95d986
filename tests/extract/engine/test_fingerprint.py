"""What a feature file depends on."""

import pytest

from pipeline.extract.engine import fingerprint
from pipeline.project.registry import BACKBONES
from tests.rules.sources import PACKAGE, closure


@pytest.mark.parametrize("name", BACKBONES.names())
def test_the_code_of_a_member_is_all_it_imports_from_the_family(name: str) -> None:
    member = BACKBONES.folder / f"{name}.py"
    expected = {path for path in closure([member]) if path.parent == BACKBONES.folder}
    assert set(fingerprint._with_helpers(member)) == expected


# What the code below these uses and does not decide a number: storage that keeps every bit, words, names, and what
# ``fingerprint.describe`` records itself (parameters, weights by their digests).
DECIDES_NOTHING = (
    *(f"artifacts/{name}.py" for name in ("_files", "_table", "features", "images")),
    *(f"extract/{name}.py" for name in ("download", "fingerprint", "params", "shards", "weights")),
    *(f"params/{name}.py" for name in ("schema", "strict", "typed")),
    *("console.py", "errors.py", "paths.py", "registry.py"),
)


def test_all_code_that_an_extraction_runs_counts_or_is_known_to_decide_nothing() -> None:
    """A new module must be named here or there."""
    members = [BACKBONES.folder / f"{name}.py" for name in BACKBONES.names()]
    used = closure([PACKAGE / "extract/compute.py", *members])
    outside = {str(path.relative_to(PACKAGE)) for path in used if path.parent != BACKBONES.folder}
    assert outside == {*fingerprint._CODE, *DECIDES_NOTHING}
    assert not {*fingerprint._CODE} & {*DECIDES_NOTHING}


def test_members_do_not_share_what_they_do_not_use() -> None:
    helpers = {path.name for path in fingerprint._with_helpers(BACKBONES.folder / "vgg19.py")}
    assert helpers == {"_backbone.py", "_classifier.py", "_torchvision.py", "vgg19.py"}
    codes = {fingerprint._code(name) for name in BACKBONES.names()}
    assert len(codes) == len(BACKBONES.names())


def test_the_digest_does_not_depend_on_the_order_of_keys() -> None:
    assert fingerprint.digest({"a": 1, "b": [2]}) == fingerprint.digest({"b": [2], "a": 1})
    assert fingerprint.digest({"a": 1}) != fingerprint.digest({"a": 2})
