"""dvc.yaml against the code: every file a stage runs is a dependency of it, and outputs lie where paths.py says."""

import hashlib
from pathlib import Path

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from pipeline.project import paths
from pipeline.project.code import FAMILIES, covered, entry, gaps, member_files, needed
from pipeline.project.params.document import read_document
from pipeline.project.params.load import load
from pipeline.project.registry import BACKBONES, FORMATS, PROTOCOLS, RUN_FAMILIES, TEXT_FEATURES
from pipeline.tools.check import dvc_stages as resolved
from tests.rules.sources import PACKAGE, ROOT, closure


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


def test_every_imported_file_is_a_dependency(stages):
    """Whichever members params.yaml names today: the entries of one stage share their list."""
    missing = set()
    for name, stage in stages.items():
        group = name.partition("@")[0]
        deps = [Path(dep.fs_path) for dep in stage.deps]
        missing |= {f"{group}: {file.relative_to(ROOT)}" for file in gaps(group, deps)}
    assert not missing, "\n".join(sorted(missing))


def test_dvc_yaml_is_resolved_as_dvc_does(stages):
    """`vse-pipe check` reads dvc.yaml without DVC; commands, dependencies, parameters and outputs must be the same."""
    found, problems = resolved.read(ROOT / "dvc.yaml", read_document(ROOT / "params.yaml"))
    assert not problems
    assert {stage.name for stage in found} == set(stages)
    for stage in found:
        theirs = stages[stage.name]
        assert stage.cmd == theirs.cmd
        assert set(stage.outs) == {out.def_path for out in theirs.outs}
        files = {dep.def_path for dep in theirs.deps if not getattr(dep, "params", None)}
        assert set(stage.deps) == files - {"params.yaml"}
        named = {address for dep in theirs.deps for address in getattr(dep, "params", None) or []}
        assert set(stage.params) == named


def test_a_run_depends_on_the_members_it_names(stages, params):
    for name, run in params.runs.items():
        for group in ("train", "embed"):
            deps = [Path(dep.fs_path) for dep in stages[f"{group}@{name}"].deps]
            for key, family in RUN_FAMILIES.items():
                if family in FAMILIES[group]:
                    own = family.folder / f"{getattr(run, key).name}.py"
                    assert covered(own, deps), f"{group}@{name}: {own.relative_to(ROOT)}"
    for group, family, nodes in [
        ("prepare", FORMATS, {name: node.format for name, node in params.datasets.items()}),
        ("extract", BACKBONES, {name: node.backbone for name, node in params.features.items()}),
        ("extract_texts", TEXT_FEATURES, {name: node.method for name, node in params.texts.items()}),
        ("inject", PROTOCOLS, {name: node.protocol for name, node in params.noises.items()}),
    ]:
        for name, member in nodes.items():
            deps = [Path(dep.fs_path) for dep in stages[f"{group}@{name}"].deps]
            assert covered(family.folder / f"{member.name}.py", deps), f"{group}@{name}"


def test_an_audit_depends_on_what_it_runs():
    """Whether or not params.yaml asks for one today."""
    node = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"]["audit"]["do"]
    deps = [ROOT / dep for dep in node["deps"] if dep.startswith("pipeline/")]
    used = needed("audit")
    assert not sorted(str(file) for file in used if not covered(file, deps))
    assert not sorted(str(dep) for dep in deps if not any(covered(file, [dep]) for file in used))
    assert node["outs"] == [str(paths.audited("${item}"))]


def test_no_dependency_on_code_that_no_member_runs(stages):
    """The entries of one stage share their list, so a file counts as used when any member of its families needs it."""
    surplus = set()
    for name, stage in stages.items():
        group = name.partition("@")[0]
        used = closure([entry(group), *member_files(group)])
        deps = [Path(dep.fs_path) for dep in stage.deps]
        surplus |= {
            f"{group}: {dep.name}"
            for dep in deps
            if PACKAGE in dep.parents and not any(covered(f, [dep]) for f in used)
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
