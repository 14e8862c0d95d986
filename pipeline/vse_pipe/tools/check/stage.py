"""check: params.yaml, dvc.yaml and the digests of artefacts, without a GPU and without torch."""

from dataclasses import dataclass

from vse_pipe.core.console import document, line, say
from vse_pipe.core.errors import ParamsError
from vse_pipe.papers import overlay
from vse_pipe.project import paths
from vse_pipe.project.code import Lock
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Params, read_document, with_overrides
from vse_pipe.project.sources import SourceFiles, listing, places
from vse_pipe.project.stages import ARTEFACT, DIGEST, NOTE, PARAMS, Node, Problem, exit_status, nodes, sources
from vse_pipe.tools.check import dvc_yaml

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
    problems = dvc_yaml.problems(params, content)
    declared = nodes(params)
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
    problems, outside = [], sources(params)
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
    """Places of outside files that have changed since DVC ran the stage. recorded: their list at that time, None if lost."""
    if recorded is None:
        return []
    now, before = places(listing(groups, recorded, write=False)), places(recorded)
    return [place for place in now.keys() | before.keys() if now.get(place) != before.get(place)]


def show(checked: Checked, as_json: bool) -> int:
    """Print a line for each problem on stdout; returns the exit status."""
    status = exit_status(checked.problems)
    wrong = [problem for problem in checked.problems if problem.status != NOTE]
    notes = [problem for problem in checked.problems if problem.status == NOTE]
    if as_json:
        document(
            {
                "ok": status == 0,
                "status": status,
                "artefacts": checked.artefacts,
                "named": checked.named,
                "problems": [problem.as_json() for problem in wrong],
                "notes": [problem.as_json() for problem in notes],
            }
        )
        return status
    for problem in checked.problems:
        line(f"{_WORDS[problem.status]:9}{problem.line}")
    counts = f"{len(wrong) or 'no'} problem{'' if len(wrong) == 1 else 's'}"
    counts += f", {len(notes)} note{'' if len(notes) == 1 else 's'}" if notes else ""
    say(f"check: {checked.artefacts} of {checked.named} artefacts are there; {counts}")
    return status
