"""One file against the digest that was kept of it, and what to do when they differ."""

import hashlib
from pathlib import Path

from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import sha256
from vse_pipe.core.parquet import opened
from vse_pipe.pictures.read import at, file_of
from vse_pipe.project.lock import Lock, cached, md5
from vse_pipe.project.nodes import Node
from vse_pipe.tools.verify.claims import locked, unreadable
from vse_pipe.tools.verify.finding import DAMAGED, IN_LOCK, MISSING, OK, OWN, PAGES, READABLE, Claim, Finding


def compared(claim: Claim) -> Finding:
    """Reads the whole file; of a shard the member."""
    if not file_of(claim.path).is_file():
        return Finding(claim.path, MISSING, claim.by, "its digest was kept, and it is not there")
    if claim.by == PAGES:
        problem = _pages(claim.path)
    elif claim.by == OWN:
        problem = _own(claim.path)
    elif claim.by == READABLE:
        problem = unreadable(claim.path)
    else:
        problem = _digest(claim)
    return Finding(claim.path, DAMAGED if problem else OK, claim.by, problem)


def _digest(claim: Claim) -> str:
    if file_of(claim.path) != claim.path:
        try:
            found = hashlib.sha256(at(claim.path)).hexdigest()
        except (InputError, IntegrityError) as error:
            return str(error)
    else:
        found = md5(claim.path) if claim.by == IN_LOCK else sha256(claim.path)
    same = found.startswith(claim.digest)
    return "" if same else f"{claim.by} is {claim.digest[:12]}..., its content has {found[:12]}..."


def _pages(path: Path) -> str:
    """Every page of a Parquet file, row group by row group; what is wrong, or nothing."""
    try:
        with opened(path) as file:
            for _ in file.batches(rows=None):
                pass
    except (InputError, IntegrityError) as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


def _own(path: Path) -> str:
    """The state a killed training goes on from has its digest in its header."""
    from vse_pipe.train.engine import checkpoint

    if checkpoint.fingerprint(path.parent.parent) is None:
        return "its content does not match the digest in its header"
    return ""


def remedy(path: Path, folder: Path, node: Node | None, lock: Lock | None) -> str:
    """What brings ``path`` of the artefact ``folder`` back: from the cache where its object there is whole, else by
    running the stage, and a damaged object has to go first or DVC would put it back.

    A file that no stage wrote, such as a picture of the user's, is never to be removed.
    """
    if not path.is_relative_to(folder):
        return _outside(path, node)
    digest = locked(folder, lock).get(path) if lock else None
    stage = lock.outs[str(folder)].stage if lock and str(folder) in lock.outs else None
    if lock and digest is not None:
        kept = cached(digest)
        if kept.is_file() and md5(kept) == digest:
            return (
                f"remove it and run `dvc checkout {folder}`, DVC's cache has it whole; "
                f"`dvc commit {stage}` if it was made anew by hand"
            )
        if advice := lock.damaged(path):
            return advice
    if stage is not None:
        return f"remove it and run `dvc repro {stage}`"
    return f"remove it and run `{node.command}`" if node else "no stage of this project wrote it; put it back as it was"


def _outside(path: Path, node: Node | None) -> str:
    """Of raw data, which an artefact only names."""
    again = f"run `dvc repro {node.stage}` or `{node.command}`" if node else "prepare the data set again"
    what = "picture" if file_of(path) == path else "shard"
    return f"if it was changed on purpose, {again} to take it as it is now; else put the {what} back as it was"
