"""dvc.yaml against the code: every file a stage runs is a dependency of it, and outputs lie where paths.py says."""

import hashlib
from pathlib import Path

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from pipeline import paths
from pipeline.params.load import load
from pipeline.registry import (
    BACKBONES,
    FORMATS,
    IMAGE_ENCODERS,
    INFERENCES,
    PROTOCOLS,
    RUN_FAMILIES,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
    Family,
)
from tests.rules.sources import PACKAGE, ROOT, closure

# These decide messages, where files lie, how options are checked or on which device work runs, never what an artefact
# holds; an edit there must not retrain every model. Values of parameters are tracked by `params:`.
WITHOUT_EFFECT = {
    PACKAGE / name
    for name in ("errors.py", "console.py", "registry.py", "paths.py", "locks.py", "timing.py", "device.py")
} | set((PACKAGE / "params").glob("*.py"))

# The page finds its sections by name, as a family's members are found.
SECTIONS = Family("section", "pipeline.report.sections")


@pytest.fixture(scope="module")
def stages() -> dict:
    repo = Repo(str(ROOT))
    try:
        return {stage.addressing: stage for stage in repo.index.stages}
    finally:
        repo.close()


@pytest.fixture(scope="module")
def params():
    return load(ROOT / "params.yaml")


def _members(params, name: str) -> list[Path]:
    """Modules the stage finds through a registry: no import statement leads to them."""
    stage, _, node = name.partition("@")
    if stage == "prepare":
        return [FORMATS.folder / f"{params.datasets[node].format.name}.py"]
    if stage == "extract":
        return [BACKBONES.folder / f"{params.features[node].backbone.name}.py"]
    if stage == "extract_texts":
        return [TEXT_FEATURES.folder / f"{params.texts[node].method.name}.py"]
    if stage == "inject":
        return [PROTOCOLS.folder / f"{params.noises[node].protocol.name}.py"]
    if stage in ("train", "embed"):
        run = params.runs[node]
        keys = RUN_FAMILIES if stage == "train" else ("similarity", "text", "image")
        return [RUN_FAMILIES[key].folder / f"{getattr(run, key).name}.py" for key in keys]
    if stage == "evaluate":
        parts = [
            INFERENCES.folder / f"{part}.py" for name in params.grid.inferences for part in name.split("+")
        ]
        return [*parts, SIMILARITIES.folder / f"{params.runs[node].similarity.name}.py"]
    if stage == "report":
        return [SECTIONS.folder / f"{name}.py" for name in SECTIONS.names()]
    return []


def _entry(stage: str) -> Path:
    """The module a stage starts in."""
    return PACKAGE / "extract" / "text_stage.py" if stage == "extract_texts" else PACKAGE / stage / "stage.py"


def _covered(file: Path, deps: list[Path]) -> bool:
    return any(file == dep or dep in file.parents for dep in deps)


def test_every_imported_file_is_a_dependency(stages, params):
    gaps = []
    for name, stage in stages.items():
        deps = [Path(dep.fs_path) for dep in stage.deps]
        start = [_entry(name.partition("@")[0]), *_members(params, name)]
        missing = [file for file in closure(start, WITHOUT_EFFECT) if not _covered(file, deps)]
        gaps += [f"{name}: {file.relative_to(ROOT)}" for file in sorted(missing)]
    assert not gaps, "\n".join(gaps)


def test_no_dependency_on_code_that_no_member_runs(stages):
    """The entries of one stage share their list, so a file counts as used when any member of its families needs it."""
    families = {
        "prepare": [FORMATS],
        "extract": [BACKBONES],
        "extract_texts": [TEXT_FEATURES],
        "inject": [PROTOCOLS],
        "train": list(RUN_FAMILIES.values()),
        "embed": [SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS],
        "evaluate": [INFERENCES, SIMILARITIES],
        "report": [SECTIONS],
    }
    surplus = set()
    for name, stage in stages.items():
        group = name.partition("@")[0]
        members = [family.folder / f"{member}.py" for family in families[group] for member in family.names()]
        used = closure([_entry(group), *members])
        deps = [Path(dep.fs_path) for dep in stage.deps]
        surplus |= {
            f"{group}: {dep.name}"
            for dep in deps
            if PACKAGE in dep.parents and not any(_covered(f, [dep]) for f in used)
        }
    assert not surplus, sorted(surplus)


def test_outputs_lie_where_the_code_writes_them(stages, params):
    expected = {f"prepare@{name}": paths.prepared(name) for name in params.datasets}
    expected |= {
        f"extract@{name}": paths.extracted(node.dataset, name) for name, node in params.features.items()
    }
    expected |= {
        f"extract_texts@{name}": paths.extracted(node.dataset, name) for name, node in params.texts.items()
    }
    expected |= {f"inject@{name}": paths.injected(node.dataset, name) for name, node in params.noises.items()}
    for run in params.runs:
        expected |= {f"train@{run}": paths.trained(run), f"embed@{run}": paths.embedded(run)}
        expected[f"evaluate@{run}"] = paths.evaluations(run)
    found = {name: {out.def_path for out in stage.outs} for name, stage in stages.items()}
    assert found.pop("report") >= {"reports/index.html", "reports/metrics.json"}
    assert found == {name: {str(path)} for name, path in expected.items()}


def test_only_the_report_has_outputs_outside_the_cache(stages):
    """``cache: false`` on any output disables the run cache of its stage."""
    uncached = {name for name, stage in stages.items() if any(not out.use_cache for out in stage.outs)}
    assert uncached == {"report"}


def test_long_stages_keep_what_they_have(stages):
    kept = {
        name.partition("@")[0] for name, stage in stages.items() if all(out.persist for out in stage.outs)
    }
    assert kept == {"extract", "train"}


def test_the_lock_file_belongs_to_this_code():
    """A stale dvc.lock would change in everybody's work tree: run `make demo` and commit it with the change."""
    lock = YAML(typ="safe").load((ROOT / "dvc.lock").read_text())
    stale = set()
    for stage in lock["stages"].values():
        for dep in stage["deps"]:
            path = ROOT / dep["path"]
            if dep["path"].startswith("pipeline/") and path.is_file():
                digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
                stale |= {dep["path"]} if digest != dep["md5"] else set()
    assert not stale, sorted(stale)
