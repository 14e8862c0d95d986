"""check: params.yaml, dvc.yaml by DVC's status, digests of artefacts, and what is missing."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from vse_pipe.artifacts import identity
from vse_pipe.core.console import document, line, say
from vse_pipe.core.errors import IntegrityError, ParamsError, PipelineError
from vse_pipe.core.files import is_remote
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.papers import overlay
from vse_pipe.project import code, paths, sources
from vse_pipe.project import stages as project_stages
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import TEXT_FEATURES
from vse_pipe.project.stages import Node, nodes

# Status of params.yaml or dvc.yaml, of an unusable artefact, and of one made from others; a note
# has 0.
PARAMS, ARTEFACT, DIGEST, NOTE = 2, 3, 5, 0
_WORDS = {NOTE: "note", PARAMS: "params", ARTEFACT: "artefact", DIGEST: "digest"}
_NAMED = 3


@dataclass(frozen=True)
class Problem:
    """address: file, folder or key; advice: a remedy."""

    status: int
    address: str
    problem: str
    advice: str = ""

    @property
    def line(self) -> str:
        return f"{self.address}: {self.problem}" + (f"; {self.advice}" if self.advice else "")


@dataclass(frozen=True)
class Checked:
    """artefacts: those of params.yaml that exist and were compared; absent: the folders of the
    others."""

    problems: list[Problem]
    artefacts: int = 0
    absent: tuple[str, ...] = ()


def check(overrides: list[str]) -> Checked:
    """Problems of the project in the working directory. overrides: of params.yaml, for the load
    alone; DVC reads the file."""
    try:
        params = load(paths.PARAMS, overrides, further=[overlay.row_problems])
    except ParamsError as error:
        texts = [text.partition(": ") for text in error.args]  # params.yaml train.epoch: unknown key; ...
        return Checked([Problem(PARAMS, address, problem) for address, _, problem in texts])
    declared = nodes(params)
    present = [node for node in declared if node.out.exists()]
    problems = [
        Problem(NOTE, f"{paths.PARAMS} {node.declaration.section}.{node.name}", text)
        for node in declared
        if node not in present
        for text in _missing(params, node)
    ]
    if not params.runs:
        advice = "`vse-pipe apply` writes those of an overlay into it"
        problems.append(Problem(NOTE, "params.yaml runs", "there are none, and nothing to report on", advice))
    stale = {node.stage: problem for node in present if (problem := stale_problem(node))}
    problems += stale.values()
    problems += _of_dvc(params, declared, [node for node in present if node.stage not in stale], overrides)
    # Several artefacts can name the same file.
    absent = tuple(str(node.out) for node in declared if node not in present)
    return Checked(list(dict.fromkeys(problems)), len(present), absent)


def _missing(params: Params, node: Node) -> Iterator[str]:
    """A line for each thing that the stage needs and this machine does not have: packages, weights
    and other files. Nothing is fetched; ``extract`` downloads published weights of image
    networks."""
    if node.group == "extract_texts":
        method = params.texts[node.name].method
        for member in (method, *method.params.further()):
            yield from _missing_for_texts(member)
    elif node.group == "extract":
        reads = params.features[node.name].backbone.params.reads()
        yield from (f"{group.path} is not there" for group in reads if not group.path.exists())
    elif node.declaration.reads is not None:
        files = [group.path for group in node.declaration.reads(params, node.name)]
        absent = [path for path in files if not is_remote(path) and not path.exists()]
        yield from (f"{path} is not there" for path in absent if not set(path.parents) & set(absent))
    if node.group == "prepare":
        dataset = params.datasets[node.name]
        if dataset.source.startswith("s3://"):
            yield from _packages("s3fs")


def _missing_for_texts(method: Member) -> Iterator[str]:
    traits, options = TEXT_FEATURES.traits(method.name), method.params
    yield from _packages(*traits.libraries)
    yield from (f"{path} is not there" for path in options.files() if not path.exists())
    if isinstance(options, EncoderParams) and not options.files() and not _is_cached(options):
        yield f"{options.model} is not in the model hub's cache; extract fetches revision {options.revision or 'main'}"


def _is_cached(encoder: EncoderParams) -> bool:
    from huggingface_hub import try_to_load_from_cache

    try:
        return isinstance(try_to_load_from_cache(encoder.model, "modules.json", revision=encoder.revision), str)
    except ValueError:  # the path of a folder that is not there is no name on the hub
        return False


def _packages(*names: str) -> Iterator[str]:
    if absent := [name for name in names if not _is_installed(name)]:
        yield f"not installed: {', '.join(absent)}; pip install {absent[0]}"


def _is_installed(package: str) -> bool:
    try:
        return bool(version(package))
    except PackageNotFoundError:
        return False


def stale_problem(node: Node) -> Problem | None:
    """An artefact that was made from other inputs than there are now."""
    try:
        identity.require_current(node.out)
    except PipelineError as error:
        address, _, text = str(error).partition(": ")
        return Problem(DIGEST if isinstance(error, IntegrityError) else ARTEFACT, address, text)
    return None


def _of_dvc(params: Params, declared: list[Node], present: list[Node], overrides: list[str]) -> list[Problem]:
    """Problems of dvc.yaml, and artefacts of other parameters, code or inputs than now."""
    from dvc.exceptions import DvcException, NotDvcRepoError
    from dvc.lock import LockError

    sources.write_sources(project_stages.sources(params))
    if paths.CODE.is_dir():
        sources.write_code(code.listings(params))
    try:
        with _repository() as repository:
            by_name = {stage.addressing: stage for stage in repository.index.stages}
            wrong = [problem for node in declared for problem in _entry(node, by_name.get(node.stage))]
            return wrong or _stale(present, by_name, repository.status())
    except NotDvcRepoError:
        return [
            Problem(
                NOTE, "dvc.yaml", "no DVC repository is here, so nothing is compared with it", "`dvc init` makes one"
            )
        ]
    except LockError:
        return [Problem(NOTE, "dvc.lock", "DVC is at work in this project, so nothing is compared with it")]
    except DvcException as error:
        return [Problem(PARAMS, "dvc.yaml", " ".join(str(error).split()))]


@contextmanager
def _repository() -> Iterator[Any]:
    from dvc.repo import Repo

    with Repo() as repository:
        yield repository


def _entry(node: Node, stage: Any) -> list[Problem]:
    """What dvc.yaml says otherwise than the code."""
    if stage is None:
        return [Problem(PARAMS, f"dvc.yaml {node.group}", f"names no entry '{node.entry}'")]
    out = node.out if node.entry == node.name else node.out.parent
    texts = []
    if str(out) not in {output.def_path for output in stage.outs}:
        texts.append(f"does not write {out}")
    if not stage.cmd.endswith(command := node.declaration.command(node.entry)):
        texts.append(f"runs `{stage.cmd}`, expected `{command}`")
    return [Problem(PARAMS, f"dvc.yaml {node.stage}", text) for text in texts]


def _stale(present: list[Node], by_name: dict[str, Any], status: dict[str, list]) -> list[Problem]:
    problems = []
    for node in present:
        changed = list(_changes(status.get(node.stage, [])))
        is_recorded = any(dependency.hash_info for dependency in by_name[node.stage].deps)
        if is_recorded and changed:
            more = f" and {len(changed) - _NAMED} more" if len(changed) > _NAMED else ""
            text = f"stale: {', '.join(changed[:_NAMED])}{more} changed since"
            problems.append(Problem(DIGEST, str(node.out), text, f"run `dvc repro {node.stage}`"))
    return problems


def _changes(entries: list) -> Iterator[str]:
    """The changed dependencies of an entry of ``dvc status``; parameters by their addresses."""
    for entry in entries:
        for path, change in entry.get("changed deps", {}).items() if isinstance(entry, dict) else ():
            if isinstance(change, dict):
                yield from (f"{path} {address}" for address in change)
            else:
                yield path


def show(checked: Checked, as_json: bool) -> int:
    """Print a line for each problem on stdout; returns the exit status."""
    wrong = [problem for problem in checked.problems if problem.status != NOTE]
    notes = [problem for problem in checked.problems if problem.status == NOTE]
    # A wrong params.yaml matters most, and an unreadable file has no digest.
    status = min((problem.status for problem in wrong), default=0)
    if as_json:
        content = {"ok": status == 0, "status": status, "artefacts": checked.artefacts, "absent": checked.absent}
        rows = {name: [asdict(problem) for problem in part] for name, part in (("problems", wrong), ("notes", notes))}
        document(content | rows)
        return status
    for problem in checked.problems:
        line(f"{_WORDS[problem.status]:9}{problem.line}")
    counts = f"{len(wrong) or 'no'} problem{'' if len(wrong) == 1 else 's'}"
    counts += f", {len(notes)} note{'' if len(notes) == 1 else 's'}" if notes else ""
    more = f" and {len(checked.absent) - _NAMED} more" if len(checked.absent) > _NAMED else ""
    absent = f", not {', '.join(checked.absent[:_NAMED])}{more}" if checked.absent else ""
    say(
        f"check: {checked.artefacts} of {checked.artefacts + len(checked.absent)} artefacts are there{absent}; {counts}"
    )
    return status
