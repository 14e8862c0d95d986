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
    ENGINES,
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


# The families whose members a stage finds by name, with the dependency in dvc.yaml that names the member's own module.
FAMILIES = {
    "prepare": [FORMATS],
    "extract": [BACKBONES, ENGINES],
    "extract_texts": [TEXT_FEATURES],
    "inject": [PROTOCOLS],
    "train": list(RUN_FAMILIES.values()),
    "embed": [SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS],
    "evaluate": [INFERENCES, SIMILARITIES],
    "evaluate_ensembles": [INFERENCES, SIMILARITIES],
    "report": [SECTIONS],
    "audit": [SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS],
}


def _member_files(group: str) -> list[Path]:
    return [family.folder / f"{name}.py" for family in FAMILIES[group] for name in family.names()]


def _entry(stage: str) -> Path:
    """The module a stage starts in."""
    apart = {
        "extract_texts": PACKAGE / "extract" / "text_stage.py",
        "evaluate_ensembles": PACKAGE / "evaluate" / "stage.py",
    }
    return apart.get(stage, PACKAGE / stage / "stage.py")


def _covered(file: Path, deps: list[Path]) -> bool:
    return any(file == dep or dep in file.parents for dep in deps)


ALL = {family.package: family for group in FAMILIES.values() for family in group}.values()


def _chosen_by_name(file: Path) -> bool:
    """A member's own module: the entry of a run depends on those that the run names."""
    return any(file.parent == family.folder and file.stem in family.names() for family in ALL)


def test_every_imported_file_is_a_dependency(stages):
    """Whichever members params.yaml names today: the entries of one stage share their list."""
    gaps = set()
    for name, stage in stages.items():
        group = name.partition("@")[0]
        deps = [Path(dep.fs_path) for dep in stage.deps]
        needed = closure([_entry(group), *_member_files(group)], WITHOUT_EFFECT)
        gaps |= {
            f"{group}: {file.relative_to(ROOT)}"
            for file in needed
            if not _chosen_by_name(file) and not _covered(file, deps)
        }
    assert not gaps, "\n".join(sorted(gaps))


def test_a_run_depends_on_the_members_it_names(stages, params):
    for name, run in params.runs.items():
        for group in ("train", "embed"):
            deps = [Path(dep.fs_path) for dep in stages[f"{group}@{name}"].deps]
            for key, family in RUN_FAMILIES.items():
                if family in FAMILIES[group]:
                    own = family.folder / f"{getattr(run, key).name}.py"
                    assert _covered(own, deps), f"{group}@{name}: {own.relative_to(ROOT)}"
    for group, family, nodes in [
        ("prepare", FORMATS, {name: node.format for name, node in params.datasets.items()}),
        ("extract", BACKBONES, {name: node.backbone for name, node in params.features.items()}),
        ("extract_texts", TEXT_FEATURES, {name: node.method for name, node in params.texts.items()}),
        ("inject", PROTOCOLS, {name: node.protocol for name, node in params.noises.items()}),
    ]:
        for name, member in nodes.items():
            deps = [Path(dep.fs_path) for dep in stages[f"{group}@{name}"].deps]
            assert _covered(family.folder / f"{member.name}.py", deps), f"{group}@{name}"


def test_an_audit_depends_on_what_it_runs():
    """Whether or not params.yaml asks for one today."""
    node = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"]["audit"]["do"]
    deps = [ROOT / dep for dep in node["deps"] if dep.startswith("pipeline/")]
    needed = closure([_entry("audit"), *_member_files("audit")], WITHOUT_EFFECT)
    assert not sorted(str(file) for file in needed if not _covered(file, deps))
    assert not sorted(str(dep) for dep in deps if not any(_covered(file, [dep]) for file in needed))
    assert node["outs"] == [str(paths.audited("${item}"))]


def test_no_dependency_on_code_that_no_member_runs(stages):
    """The entries of one stage share their list, so a file counts as used when any member of its families needs it."""
    surplus = set()
    for name, stage in stages.items():
        group = name.partition("@")[0]
        used = closure([_entry(group), *_member_files(group)])
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
    for name in params.ensembles:
        expected[f"evaluate_ensembles@{name}"] = paths.evaluations(name)
    expected |= {f"audit@{run}": paths.audited(run) for run in params.report.audits}
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
