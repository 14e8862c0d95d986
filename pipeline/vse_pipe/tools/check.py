"""check: params.yaml, dvc.yaml, the digests of artefacts, and what is missing to make the others; without a GPU and
DVC.

``read_dvc_yaml`` understands the part of DVC's language that this project uses: ``foreach`` over a section of
params.yaml, and ``${...}`` with ``key``, ``item``, ``vars`` and values of params.yaml. tests/rules compares the result
with DVC's own.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.console import document, line, say
from vse_pipe.core.errors import ParamsError
from vse_pipe.papers import overlay
from vse_pipe.project import code, paths
from vse_pipe.project import stages as project_stages
from vse_pipe.project.code import Lock
from vse_pipe.project.params.document import lookup, read_document, with_overrides
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import Family
from vse_pipe.project.sources import SourceFiles, listing, places
from vse_pipe.project.stages import ARTEFACT, DIGEST, NOTE, PARAMS, Declaration, Node, Problem, declarations, nodes
from vse_pipe.tools.missing import missing

_WORDS = {NOTE: "note", PARAMS: "params", ARTEFACT: "artefact", DIGEST: "digest"}
_NAMED = 3


@dataclass(frozen=True)
class Checked:
    """named: number of artefacts in params.yaml; artefacts: number of them that exist and were compared."""

    problems: list[Problem]
    artefacts: int
    named: int


def check(overrides: list[str]) -> Checked:
    """Problems of the project in the working directory that digests and parameters show. Nothing is written.

    Large files are opened but not read completely; `dvc status` compares their bytes.
    """
    try:
        params = load(paths.PARAMS, overrides, further=[overlay.row_problems])
    except ParamsError as error:
        texts = [text.partition(": ") for text in error.problems]  # params.yaml train.epoch: unknown key; ...
        return Checked([Problem(PARAMS, address, problem) for address, _, problem in texts], 0, 0)
    content = with_overrides(read_document(paths.PARAMS), overrides, paths.PARAMS.name)
    problems = dvc_yaml_problems(params, content)
    declared = nodes(params)
    for node in declared:
        if not node.out.exists():
            address = f"{paths.PARAMS} {node.declaration.section}.{node.name}"
            problems += [Problem(NOTE, address, text) for text in missing(params, node)]
    present = [node for node in declared if node.out.exists()]
    mismatched = set()
    for node in present:
        differences = node.problems(params)
        problems += differences
        mismatched |= {node.stage for problem in differences if problem.status != NOTE}
    try:
        problems += _stale(params, Lock(content), [node for node in present if node.stage not in mismatched])
    except ParamsError as error:
        problems += [Problem(ARTEFACT, "dvc.lock", text, "`git checkout dvc.lock`") for text in error.problems]
    # Several artefacts can report the same damaged table.
    return Checked(list(dict.fromkeys(problems)), len(present), len(declared))


def _stale(params: Params, lock: Lock, present: list[Node]) -> list[Problem]:
    """Problems of artefacts that DVC made from other parameters, code or inputs than the present ones."""
    problems, outside = [], project_stages.sources(params)
    for node in present:
        if node.stage in lock.stages:
            list_of_files = str(paths.sources(node.stage))
            changed = [name for name in lock.changed(node.stage) if name != list_of_files]
            changed += _changed_sources(lock.text(node.stage, list_of_files), outside.get(node.stage, []))
            if changed:
                more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
                text = f"stale: {', '.join(changed[:_NAMED])}{more} changed since"
                problems.append(Problem(DIGEST, str(node.out), text, node.advice))
    return problems


def _changed_sources(recorded: str | None, groups: list[SourceFiles]) -> list[str]:
    """Places of outside files that have changed since DVC ran the stage. recorded: their list at that time, None if
    lost."""
    if recorded is None:
        return []
    now, before = places(listing(groups, recorded, write=False)), places(recorded)
    return [place for place in now.keys() | before.keys() if now.get(place) != before.get(place)]


def show(checked: Checked, as_json: bool) -> int:
    """Print a line for each problem on stdout; returns the exit status."""
    status = project_stages.exit_status(checked.problems)
    wrong = [problem for problem in checked.problems if problem.status != NOTE]
    notes = [problem for problem in checked.problems if problem.status == NOTE]
    if as_json:
        content = {"ok": status == 0, "status": status, "artefacts": checked.artefacts, "named": checked.named}
        rows = {name: [problem.as_json() for problem in part] for name, part in (("problems", wrong), ("notes", notes))}
        document(content | rows)
        return status
    for problem in checked.problems:
        line(f"{_WORDS[problem.status]:9}{problem.line}")
    counts = f"{len(wrong) or 'no'} problem{'' if len(wrong) == 1 else 's'}"
    counts += f", {len(notes)} note{'' if len(notes) == 1 else 's'}" if notes else ""
    say(f"check: {checked.artefacts} of {checked.named} artefacts are there; {counts}")
    return status


DVC_YAML = Path("dvc.yaml")
_EXPRESSION = re.compile(r"\$\{([^}]*)\}")
_APPLY = "`vse-pipe apply` writes those of an overlay into it"
_MEND = "correct the stage, or `git checkout dvc.yaml`"
_ADD = "correct the stage, or add it to params.yaml, `{}` where there is none"
_REPORT = {str(paths.REPORTS / "index.html"), str(paths.REPORTS / "metrics.json")}
# The folder of features is a dependency of these stages, and its meta.json has the digest of the code that reads
# pictures.
_EXTRACTION = ("vse_pipe.extract.compute", "vse_pipe.extract.job")
_READS_FEATURES = dict.fromkeys(("train", "embed", "embed_transfers", "audit"), _EXTRACTION)


@dataclass(frozen=True)
class Stage:
    """group: the key in dvc.yaml; name: group with entry, ``train@hal``; params: addresses in params.yaml."""

    group: str
    name: str
    cmd: str
    deps: tuple[str, ...]
    params: tuple[str, ...]
    outs: tuple[str, ...]


def dvc_yaml_problems(params: Params, document: dict) -> list[Problem]:
    """Problems of dvc.yaml in the working directory. params: checked; document: content of params.yaml."""
    if not DVC_YAML.is_file():
        return [Problem(PARAMS, str(DVC_YAML), "does not exist", "`git checkout dvc.yaml` brings it back")]
    try:
        stages, errors = read_dvc_yaml(DVC_YAML, document)
    except ParamsError as failure:
        return [Problem(PARAMS, str(DVC_YAML), text.removeprefix(f"{DVC_YAML}: ")) for text in failure.problems]
    listed = []
    for error in errors:
        address, text = error.split(": ", 1)
        listed.append(_problem(address, text, _ADD if text.endswith("no such value") else _MEND))
    for node in nodes(params):
        listed += _entry(node, stages)
    report = next((stage for stage in stages if stage.name == "report"), None)
    if report is None:
        listed.append(_problem("report", "the stage is missing"))
    elif absent := sorted(_REPORT - set(report.outs)):
        listed.append(_problem("report", f"does not name {absent[0]} among its outputs"))
    if not params.runs:
        listed.append(Problem(NOTE, "params.yaml runs", "there are none, and nothing to report on", _APPLY))
    for stage in stages:
        for address in stage.params:
            if lookup(document, address) is None:
                advice = f"add {address}: {{}} to params.yaml"
                listed.append(_problem(stage.name, f"params.yaml has no {address}", advice))
    packaged = any(stage.name == "code" for stage in stages)  # `vse-pipe init` wrote it
    listed += _lists(stages, packaged)
    if not packaged and Path("pipeline/vse_pipe/cli.py").is_file():
        # Every file that a stage runs must be a dependency, or DVC misses an edit.
        entries = {node.stage: node.name for node in nodes(params)}
        for stage in stages:
            declared, name = declarations().get(stage.group), entries.get(stage.name, "")
            if declared is not None and (name or "@" not in stage.name):
                for file in uncovered(declared, declared.members(params, name), [Path(dep) for dep in stage.deps]):
                    text = f"runs {file}, which is no dependency"
                    listed.append(_problem(stage.group, text, f"add `- {file}` to its deps"))
    return list(dict.fromkeys(listed))


def uncovered(declared: Declaration, members: dict[Family, str], deps: list[Path]) -> list[Path]:
    """Files, relative to the project, that the stage depends on for an entry with these members and that ``deps`` do
    not cover.

    Code that reads pictures does not count for stages that read features: the features' meta.json has its digest.
    """
    needed = code.needed(declared, members)
    if not declared.group.startswith("embed"):  # the model's config.json holds its options
        needed |= set(code.option_pages(declared))  # params.yaml need not show defaults
    if declared.group in _READS_FEATURES:
        needed -= code.closure(_READS_FEATURES[declared.group])
    files = [code.file(module).relative_to(code.PACKAGE.parents[1]) for module in sorted(needed)]
    return [file for file in files if not any(file == dep or dep in file.parents for dep in deps)]


def read_dvc_yaml(path: Path, params: dict) -> tuple[list[Stage], list[str]]:
    """(stages, errors) of dvc.yaml for these parameters; an error is a line that begins with the stage.

    params: content of params.yaml. Raises ParamsError if ``path`` is no mapping of stages.
    """
    content = read_document(path)
    groups = content.get("stages")
    if not isinstance(groups, dict):
        raise ParamsError([f"{path.name}: has no section stages"])
    scope = dict(params)
    for variables in content.get("vars") or []:
        scope |= variables if isinstance(variables, dict) else {}
    stages: list[Stage] = []
    errors: list[str] = []
    for group, node in groups.items():
        try:
            stages += _stages(group, node, scope)
        except _StageError as error:
            errors.append(f"{group}: {error}")
    return stages, errors


def _problem(stage: str, text: str, advice: str = _MEND) -> Problem:
    return Problem(PARAMS, f"{DVC_YAML} {stage}", text, advice)


def _entry(node: Node, stages: list[Stage]) -> list[Problem]:
    stage = next((stage for stage in stages if stage.name == node.stage), None)
    if stage is None:
        in_group = any(stage.group == node.group for stage in stages)
        text = f"has no entry '{node.entry}'" if in_group else "the stage is missing or names no entry"
        return [_problem(node.group, text, f"its foreach must go over the section that names '{node.entry}'")]
    listed = []
    out = node.out if node.entry == node.name else node.out.parent
    if stage.outs != (str(out),):
        listed.append(_problem(stage.name, f"writes {', '.join(stage.outs) or 'nothing'}, the code {out}"))
    command = node.declaration.command(node.entry)
    if not stage.cmd.endswith(command):
        listed.append(_problem(stage.name, f"runs `{stage.cmd}`, expected `{command}`"))
    return listed


def _lists(stages: list[Stage], packaged: bool) -> Iterator[Problem]:
    """Problems of stages that do not depend on the list of their outside files or, in a project without code, of their
    modules."""
    for stage in stages:
        declared = declarations().get(stage.group)
        lists = {}
        if declared is not None and declared.reads is not None:
            lists[str(paths.sources(stage.name))] = "the files from outside that it reads"
        if declared is not None and packaged:
            lists[str(paths.code(stage.name))] = "the code that it runs"
        for path, content in lists.items():
            if path not in stage.deps:
                upgrade = f"`vse-pipe init --upgrade` writes {DVC_YAML} anew"
                advice = upgrade if packaged else f"add `- {path}` to its deps"
                yield _problem(stage.name, f"{path}, which lists {content}, is no dependency", advice)


class _StageError(Exception):
    """The problems of a stage of dvc.yaml."""


def _stages(group: str, node: object, scope: dict) -> Iterator[Stage]:
    if not isinstance(node, dict):
        raise _StageError("expected a mapping")
    if "foreach" not in node:
        yield _stage(group, group, node, scope)
        return
    over = node["foreach"]
    items = _value(over[2:-1], scope) if isinstance(over, str) and _EXPRESSION.fullmatch(over) else over
    if not isinstance(items, dict | list) or not isinstance(node.get("do"), dict):
        raise _StageError(f"foreach {over!r}: expected a section of params.yaml, and `do` beside it")
    pairs = items.items() if isinstance(items, dict) else ((str(item), item) for item in items)
    for key, item in pairs:
        yield _stage(group, f"{group}@{key}", node["do"], {**scope, "key": key, "item": item})


def _stage(group: str, name: str, node: dict, scope: dict) -> Stage:
    def filled(*keys: str) -> tuple[str, ...]:
        entries = [entry for key in keys for entry in node.get(key) or []]
        texts = [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]
        return tuple(_filled(str(text), scope, name) for text in texts)

    cmd = _filled(str(node.get("cmd", "")), scope, name)
    return Stage(group, name, cmd, filled("deps"), filled("params"), filled("outs", "metrics"))


def _filled(text: str, scope: dict, name: str) -> str:
    def value(match: re.Match) -> str:
        content = _value(match[1], scope)
        if isinstance(content, dict | list):
            raise _StageError(f"{name}: {match[0]} is no single value")
        return str(content)

    return _EXPRESSION.sub(value, text)


def _value(address: str, scope: dict) -> object:
    values = lookup(scope, address)
    if values is None:
        raise _StageError(f"${{{address}}}: params.yaml has no such value")
    return values[0]
