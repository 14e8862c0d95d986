"""dvc.yaml against the code: every file a stage runs is a dependency of it, and it says what the declarations of the rooms say."""

import hashlib
from pathlib import Path

import pytest
from dvc.repo import Repo
from ruamel.yaml import YAML

from tests.resolved import resolved
from tests.rules.sources import ROOT
from vse_pipe.project import code, paths
from vse_pipe.project.params.document import read_document, with_overrides
from vse_pipe.project.params.load import load
from vse_pipe.project.registry import Family
from vse_pipe.project.stages import Declaration, declarations, nodes

LINES, CODE_DEPENDENCIES = 186, 77
# An entry in each section of params.yaml, and a run with seeds.
EVERY_SECTION = [
    "datasets.other={format: shapes, source: elsewhere}",
    "features.of_other={dataset: other, backbone: random_filters}",
    "teachers={guide: {dataset: shapes, noise: clean, run: sum}}",
    "runs.hal.seeds=[1, 2]",
    "ensembles={both: {runs: [sum, max]}}",
    "transfers={moved: {run: sum, dataset: other, features: of_other}}",
    "report.audits=[sum]",
    "report.cleaning={clean: shapes}",
    "report.localized=[sum]",
]


@pytest.fixture(scope="module")
def stages() -> dict:
    repo = Repo(str(ROOT))
    try:
        return {stage.addressing: stage for stage in repo.index.stages}
    finally:
        repo.close()


@pytest.fixture(scope="module")
def written() -> dict:
    return YAML(typ="safe").load((ROOT / "dvc.yaml").read_text(encoding="utf-8"))["stages"]


def _code_dependencies(stage: dict) -> list[str]:
    return [dep for dep in stage.get("do", stage).get("deps", ()) if dep.startswith("pipeline/")]


def test_what_is_kept_or_cached_how_long_the_file_is_and_that_the_lock_file_belongs_to_it(written, stages):
    assert (ROOT / "dvc.yaml").read_text(encoding="utf-8").count("\n") < LINES
    assert sum(len(_code_dependencies(stage)) for stage in written.values()) <= CODE_DEPENDENCIES
    # ``cache: false`` on any output disables the run cache of its stage.
    uncached = {name for name, stage in stages.items() if any(not out.use_cache for out in stage.outs)}
    assert uncached == {"report"}
    kept = {name.partition("@")[0] for name, stage in stages.items() if all(out.persist for out in stage.outs)}
    assert kept == {"sources", "extract", "train"}
    # A stale dvc.lock would change in everybody's work tree: run `make demo` and commit it with the change.
    lock = YAML(typ="safe").load((ROOT / "dvc.lock").read_text())
    stale = set()
    for stage in lock["stages"].values():
        for dep in stage.get("deps", ()):
            path = ROOT / dep["path"]
            if dep["path"].startswith("pipeline/") and path.is_file():
                digest = hashlib.md5(path.read_bytes(), usedforsecurity=False).hexdigest()
                stale |= {dep["path"]} if digest != dep["md5"] else set()
    assert not stale, sorted(stale)


def test_every_file_that_an_entry_runs_is_a_dependency_whichever_members_it_names(written):
    """Each member of each family in turn, be it named in params.yaml today or not."""
    missing = set()
    for group, declared in declarations().items():
        text = _code_dependencies(written[group])
        for family in declared.families:
            for name in family.names():
                deps = [_resolved(dep, family.package, name) for dep in text]
                others = {one: one.names()[0] for one in declared.families if one != family}
                for other, chosen in others.items():
                    deps = [_resolved(str(dep), other.package, chosen) for dep in deps]
                lacking = _uncovered(declared, {family: name, **others}, deps)
                missing |= {f"{group} with {family.kind} {name}: {file}" for file in lacking}
    assert sorted(missing) == []


# The folder of features is a dependency of these stages, and its meta.json has the digest of the code that reads
# pictures.
EXTRACTION = ("vse_pipe.extract.compute", "vse_pipe.extract.job")
READ_FEATURES = ("train", "embed", "embed_transfers", "audit")


def _uncovered(declared: Declaration, members: dict[Family, str], deps: list[Path]) -> list[Path]:
    """Files that the stage depends on for an entry with these members and that ``deps`` do not cover."""
    needed = code.needed(declared, members)
    if not declared.group.startswith("embed"):  # the model's config.json holds its options
        needed |= set(_option_pages(declared))  # params.yaml need not show defaults
    if declared.group in READ_FEATURES:
        needed -= code.closure(EXTRACTION)
    files = [code.file(module).relative_to(ROOT) for module in sorted(needed)]
    return [file for file in files if not any(file == dep or dep in file.parents for dep in deps)]


def _option_pages(declared: Declaration) -> list[str]:
    """The modules with the options of the families that the stage finds by name."""
    return [family.page for family in declared.families if code.file(family.page).is_file()]


def _resolved(dep: str, package: str, member: str) -> Path:
    """A dependency that names the member of this family by an expression, for an entry that names ``member``."""
    folder, _, last = str(dep).rpartition("/")
    own = folder == "pipeline/" + package.replace(".", "/") and last.startswith("${")
    return Path(folder) / (member + last.partition("}")[2]) if own else Path(dep)


def test_an_entry_depends_on_the_members_it_names_and_on_nothing_else(stages, written):
    wrong = []
    params = load(ROOT / "params.yaml")
    for node in nodes(params):
        deps = {dep.def_path for dep in stages[node.stage].deps}
        for family, name in node.declaration.members(params, node.name).items():
            folder = "pipeline/" + family.package.replace(".", "/")
            members = {dep for dep in deps if dep.startswith(f"{folder}/")}
            whole = any(folder == dep or folder.startswith(f"{dep}/") for dep in deps)
            members -= {f"{folder}/options.py"}
            if not whole and members not in ({f"{folder}/{name}"}, {f"{folder}/{name}.py"}):
                wrong.append(f"{node.stage}, {family.kind} {name}: {sorted(members)}")
            assert whole or all((ROOT / dep).exists() for dep in members), members
    assert wrong == []
    # A folder counts as used when any member of the stage's families needs a file of it.
    surplus = []
    for group, declared in declarations().items():
        modules = [*code.needed(declared, {}), *_option_pages(declared)]
        used = {code.file(module).relative_to(ROOT) for module in modules}
        for dep in _code_dependencies(written[group]):
            folder = Path(dep.partition("/${")[0])
            if not any(folder == file or folder in file.parents for file in used):
                surplus.append(f"{group}: {dep}")
    assert surplus == []


def test_it_says_what_the_declarations_say(written):
    """Commands, sections, outputs, and what an entry reads of other stages, where DVC's language allows as the files themselves."""
    path = ROOT / "params.yaml"
    document, params = with_overrides(read_document(path), EVERY_SECTION, path.name), load(path, EVERY_SECTION)
    stages = {stage.name: stage for stage in resolved((ROOT / "dvc.yaml").read_text(encoding="utf-8"), document)}
    assert stages.pop("sources").outs == {str(paths.SOURCES)}
    assert {stage.group for stage in stages.values()} == set(declarations())
    for group, declared in declarations().items():
        assert written[group].get("foreach", "") == (f"${{{declared.section}}}" if declared.section else "")
        for name in declared.entries(params):
            node, stage = declared.node(params, name), stages[declared.stage(name)]
            assert stage.cmd.endswith(declared.command(node.entry).rstrip())
            assert str(node.out if name == node.entry else node.out.parent) in stage.outs
            inputs = {read for read in declared.inputs(params, name) if _is_data(read)}
            deps = {Path(dep) for dep in stage.deps if _is_data(Path(dep))}
            assert {read for read in inputs if not deps & {read, *read.parents}} == set(), stage.name
            unread = {dep for dep in deps if not any(dep in (read, *read.parents) for read in inputs)}
            assert unread == set(), stage.name


def _is_data(path: Path) -> bool:
    return paths.DATA in path.parents and paths.SOURCES not in path.parents
