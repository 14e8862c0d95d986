"""dvc.yaml against params.yaml and the code."""

from pathlib import Path

from vse_pipe.core.errors import ParamsError
from vse_pipe.core.urls import is_remote
from vse_pipe.project import code, paths
from vse_pipe.project.nodes import Declaration, Node, declarations, nodes
from vse_pipe.project.params.document import lookup
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import NOTE, PARAMS, Problem
from vse_pipe.project.registry import Family
from vse_pipe.tools.check import dvc_stages
from vse_pipe.tools.check.dvc_stages import DVC_YAML, Stage

_PUT_THERE = "put it there or correct its path"
_APPLY = "`vse-pipe apply` writes those of an overlay into it"
_RESTORE, _WRONG_NAME = "`git checkout pipeline` brings it back", "correct the name or remove the line"
_NO_CODE = f"this project has none; of `format: shapes` write `source: {paths.REQUIREMENTS}`, whose version draws them"
_MEND, _ADD = (
    "correct the stage, or `git checkout dvc.yaml`",
    "correct the stage, or add it to params.yaml, `{}` where there is none",
)
# Of params.yaml, by stage: whose entries may name further files.
_SECTIONS = {"prepare": "datasets", "extract_texts": "texts"}
_REPORT = {str(paths.REPORTS / "index.html"), str(paths.REPORTS / "metrics.json")}
# Features carry the digest of the code that reads pictures for them, and their folder is a dependency of these stages.
_EXTRACTION = ("vse_pipe.extract.engine.compute", "vse_pipe.extract.engine.job")
_READS_FEATURES = dict.fromkeys(("train", "embed", "embed_transfers", "audit"), _EXTRACTION)


def problems(params: Params, document: dict) -> list[Problem]:
    """params: checked; document: params.yaml as it stands in the file. In the working directory."""
    if not DVC_YAML.is_file():
        return [Problem(PARAMS, str(DVC_YAML), "does not exist", "`git checkout dvc.yaml` brings it back")]
    try:
        found, wrong = dvc_stages.read(DVC_YAML, document)
    except ParamsError as error:
        return [Problem(PARAMS, str(DVC_YAML), text.removeprefix(f"{DVC_YAML}: ")) for text in error.problems]
    listed = []
    for text in wrong:
        where, what = text.split(": ", 1)
        listed.append(_problem(where, what, _ADD if what.endswith("no such value") else _MEND))
    by_name = {stage.name: stage for stage in found}
    for node in nodes(params):
        listed += _node(node, by_name.get(node.stage), found) + _unnamed(params, node)
    listed += _report(by_name.get("report"))
    if not Path("pipeline").is_dir() and any(dep.startswith("pipeline/") for stage in found for dep in stage.deps):
        advice = _NO_CODE if "code" in by_name else _RESTORE
        listed.append(Problem(PARAMS, str(DVC_YAML), "its stages depend on pipeline/, which is not there", advice))
    if not params.runs:
        listed.append(Problem(NOTE, "params.yaml runs", "there are none, and nothing to report on", _APPLY))
    for stage in found:
        listed += _dependencies(stage, found) if params.runs or stage.group != "report" else []
        listed += _parameters(stage, document)
    listed += _sources(found, "code" in by_name)
    if "code" in by_name:
        listed += _listed(found)
    elif Path("pipeline/vse_pipe/cli.py").is_file():
        listed += _code(params, found)
    return list(dict.fromkeys(listed))


def _problem(stage: str, what: str, advice: str = _MEND) -> Problem:
    return Problem(PARAMS, f"{DVC_YAML} {stage}", what, advice)


def _node(node: Node, stage: Stage | None, found: list[Stage]) -> list[Problem]:
    if stage is None:
        groups = {one.group for one in found}
        what = f"has no entry '{node.entry}'" if node.group in groups else "the stage is missing or names no entry"
        return [_problem(node.group, what, f"its foreach must go over the section that names '{node.entry}'")]
    listed = []
    out = node.out if node.entry == node.name else node.out.parent
    if stage.outs != (str(out),):
        listed.append(_problem(stage.name, f"writes {', '.join(stage.outs) or 'nothing'}, the code {out}"))
    command = node.declaration.command(node.entry)
    if not stage.cmd.endswith(command):
        listed.append(_problem(stage.name, f"runs `{stage.cmd}`, expected `{command}`"))
    return listed


def _unnamed(params: Params, node: Node) -> list[Problem]:
    """What dvc.yaml cannot name because few entries have any: raw data beside the source; files of word vectors and of sentence
    encoders, which nothing needs once the text features are there."""
    if node.group not in _SECTIONS or (node.group == "extract_texts" and node.out.exists()):
        return []
    _, *beside = node.declaration.inputs(params, node.name)
    where = f"params.yaml {_SECTIONS[node.group]}.{node.name}"
    return [Problem(PARAMS, where, f"{path} does not exist", _PUT_THERE) for path in beside if not path.exists()]


def _report(stage: Stage | None) -> list[Problem]:
    if stage is None:
        return [_problem("report", "the stage is missing")]
    absent = sorted(_REPORT - set(stage.outs))
    return [_problem("report", f"does not name {absent[0]} among its outputs")] if absent else []


def _dependencies(stage: Stage, found: list[Stage]) -> list[Problem]:
    """A dependency exists, or another stage makes it, or something below it or above it."""
    made = [Path(out) for one in found for out in one.outs]
    listed = []
    for dep in stage.deps:
        path = Path(dep)
        if (
            path.exists()
            or is_remote(path)
            or any(path == out or path in out.parents or out in path.parents for out in made)
        ):
            continue
        if dep.startswith("pipeline/"):
            if Path("pipeline").is_dir():
                listed.append(_problem(stage.group, f"dependency {dep} does not exist", _WRONG_NAME))
            continue
        advice = _WRONG_NAME
        if stage.group == "prepare":
            advice = f"put the data set there or correct datasets.{stage.name.partition('@')[2]}.source"
        listed.append(_problem(stage.name, f"dependency {dep} does not exist", advice))
    return listed


def _parameters(stage: Stage, document: dict) -> list[Problem]:
    return [
        _problem(stage.name, f"params.yaml has no {address}", f"add {address}: {{}} to params.yaml")
        for address in stage.params
        if lookup(document, address) is None
    ]


def _code(params: Params, found: list[Stage]) -> list[Problem]:
    """The source tree is there: every file a stage runs must be a dependency of it, or an edit would go unseen."""
    listed = []
    entries = {node.stage: node.name for node in nodes(params)}
    for stage in found:
        declared, name = declarations().get(stage.group), entries.get(stage.name, "")
        if declared is None or (not name and "@" in stage.name):
            continue
        deps = [Path(dep) for dep in stage.deps]
        for file in uncovered(declared, declared.members(params, name), deps):
            listed.append(_missing(stage.group, file))
    return listed


def _sources(stages: list[Stage], packaged: bool) -> list[Problem]:
    """Every stage that may read files from outside of the pipeline depends on their list. packaged: `vse-pipe init` wrote dvc.yaml."""
    listed = []
    for stage in stages:
        declared, own = declarations().get(stage.group), str(paths.sources(stage.name))
        if declared is not None and declared.reads is not None and own not in stage.deps:
            what = f"{own}, which lists the files from outside that it reads, is no dependency"
            advice = f"`vse-pipe init --upgrade` writes {DVC_YAML} anew" if packaged else f"add `- {own}` to its deps"
            listed.append(_problem(stage.name, what, advice))
    return listed


def _listed(found: list[Stage]) -> list[Problem]:
    """A project without code: every stage depends on the list of the modules that it runs."""
    listed = []
    for stage in found:
        own = str(paths.code(stage.name))
        if stage.group in declarations() and own not in stage.deps:
            what = f"{own}, which lists the code that it runs, is no dependency"
            listed.append(_problem(stage.name, what, f"`vse-pipe init --upgrade` writes {DVC_YAML} anew"))
    return listed


def uncovered(declared: Declaration, members: dict[Family, str], deps: list[Path]) -> list[Path]:
    """Files, relative to the project, that decide what the stage writes for an entry with these members and that no
    dependency covers. What decides the features of an encoder that reads pixels has its digest in their meta.json."""
    needed = code.needed(declared, members)
    if not declared.group.startswith("embed"):  # a model's options are those of its config.json
        needed |= set(code.option_pages(declared))  # params.yaml does not show defaults
    if declared.group in _READS_FEATURES:
        needed -= code.closure(_READS_FEATURES[declared.group])
    files = [code.file(module).relative_to(code.PACKAGE.parents[1]) for module in sorted(needed)]
    return [file for file in files if not any(file == dep or dep in file.parents for dep in deps)]


def _missing(where: str, file: Path) -> Problem:
    return _problem(where, f"runs {file}, which is no dependency", f"add `- {file}` to its deps")
