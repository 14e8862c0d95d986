"""Whether what was computed is of the data set that is there now."""

from pathlib import Path

from pipeline.core.errors import IntegrityError
from pipeline.core.files import require as existing
from pipeline.core.files import sha256


def require(folder: Path, meta: dict, what: str, prepared: Path, again: str) -> None:
    """Raises IntegrityError when ``folder`` was made from another file of ``prepared`` than lies there now.

    what: ``images`` or ``captions``, of which ``meta`` keeps the digest; nothing is compared where it keeps none. again: the
    command that makes the folder.
    """
    path = existing(prepared / f"{what}.parquet", f"vse-pipe prepare --dataset {prepared.name}")
    told = meta.get(f"{what}_sha256")
    if told is not None and told != sha256(path):
        raise IntegrityError(f"{folder}: made from other {what} than {path} now holds; run `{again}` again")
