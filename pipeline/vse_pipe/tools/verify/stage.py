"""verify: the bytes of every artefact against the digests that were kept of them."""

from collections.abc import Iterator
from pathlib import Path

from vse_pipe.core.console import track
from vse_pipe.core.errors import UsageError
from vse_pipe.project import paths
from vse_pipe.project.lock import Lock, folder_digest, md5
from vse_pipe.project.nodes import of_folder, on_disk
from vse_pipe.project.params.document import read_document
from vse_pipe.tools.verify.claims import claims, files, whole_folder
from vse_pipe.tools.verify.compare import compared, remedy
from vse_pipe.tools.verify.finding import DAMAGED, IN_LOCK, OK, UNKNOWN, Claim, Finding, Verified


def verify(chosen: list[Path]) -> list[Verified]:
    """Everything below data/ and reports/, or ``chosen``: files and folders, relative to the working directory.

    Reads every byte. Neither params.yaml nor dvc.lock need to be there; without dvc.lock files that carry no digest are
    ``no digest kept``. Raises UsageError for a path that does not exist, ParamsError for a dvc.lock that is no YAML.
    """
    lock = Lock(read_document(paths.PARAMS)) if paths.PARAMS.is_file() else None
    wanted = _wanted(chosen, lock)
    work = [(folder, claim) for folder, only in wanted.items() for claim in _chosen(claims(folder, lock), only)]
    found: dict[Path, list[Finding]] = {folder: [] for folder in wanted}
    for folder, claim in track(work, len(work), "verify, files"):
        one = compared(claim)
        advice = remedy(claim.path, folder, of_folder(folder), lock) if one.bad else ""
        found[folder].append(Finding(one.path, one.state, one.by, one.detail, advice))
    return [
        Verified(folder, [*found[folder], *_rest(folder, only, found[folder], lock)]) for folder, only in wanted.items()
    ]


def _wanted(chosen: list[Path], lock: Lock | None) -> dict[Path, list[Path]]:
    """The artefacts to look at, each with the files or folders to keep to; an empty list for all of it."""
    there = on_disk()
    if not chosen:
        # Of the report nothing keeps a digest but dvc.lock.
        reports = [Path(name) for name in (lock.outs if lock else {}) if Path(name).parts[0] == str(paths.REPORTS)]
        return {path: [] for path in [*there, *(path for path in reports if path.exists())]}
    found: dict[Path, list[Path]] = {}
    for path in chosen:
        if not path.exists():
            raise UsageError(f"{path}: no such file or folder")
        inside = [folder for folder in there if path == folder or path in folder.parents]
        if inside:
            found |= {folder: [] for folder in inside}
            continue
        owner = next((folder for folder in there if folder in path.parents), None)
        if owner is None and path.is_file() and not (lock and str(path) in lock.outs):
            owner = path.parent
        if owner is None:
            found[path] = []
        elif found.get(owner) != []:
            found.setdefault(owner, []).append(path)
    return found


def _chosen(every: list[Claim], only: list[Path]) -> list[Claim]:
    return [claim for claim in every if not only or _below(claim.path, only)]


def _below(path: Path, only: list[Path]) -> bool:
    return any(path == one or one in path.parents for one in only)


def _rest(folder: Path, only: list[Path], found: list[Finding], lock: Lock | None) -> Iterator[Finding]:
    """Files nobody kept a digest of. Where the cache has no listing of the folder, one digest may stand for all of it."""
    known = {finding.path for finding in found}
    everything = [folder] if folder.is_file() else files(folder)
    rest = [path for path in everything if path not in known and (not only or _below(path, only))]
    recorded = whole_folder(folder, lock) if lock and rest and folder.is_dir() else None
    if recorded is None:
        yield from (Finding(path, UNKNOWN) for path in rest)
        return
    now = folder_digest({path.relative_to(folder).as_posix(): md5(path) for path in files(folder)})
    if now == recorded.digest:
        yield from (Finding(path, OK, IN_LOCK) for path in rest)
    elif any(finding.bad for finding in found):
        yield from (Finding(path, UNKNOWN) for path in rest)
    else:
        detail = f"a file in it is not what dvc.lock has, and the cache has no listing to say which ({len(rest)} have no other digest)"
        yield Finding(folder, DAMAGED, IN_LOCK, detail, f"run `dvc repro --force {recorded.stage}`")
