"""Names of what lies on object storage: ``s3://bucket/shards`` is handled as a path whose first part is ``s3:``, so that whatever
joins names to a folder need not know where the folder lies. ``core.remote`` reads it."""

import re
from pathlib import Path

from vse_pipe.core.errors import UsageError

_PROTOCOL = re.compile(r"[a-z][a-z0-9+.-]+:")


def is_remote(path: Path) -> bool:
    return bool(path.parts) and _PROTOCOL.fullmatch(path.parts[0]) is not None


def url(path: Path) -> str:
    """As a user writes it; of a local path the path. ``Path`` of it is ``path`` again."""
    if not is_remote(path):
        return str(path)
    return f"{path.parts[0]}//{'/'.join(path.parts[1:])}"


def place(source: str) -> Path:
    """Where params.yaml says that a source is: ``file:///folder`` is that folder. Raises as ``refuse_secrets``."""
    refuse_secrets(source)
    return Path(re.sub("^file://(?=/)", "", source))


def refuse_secrets(source: str) -> None:
    """Raises UsageError, without repeating it, for a URL with a user, a password or a query in it: all of it would be written to
    images.parquet and printed."""
    if re.match(rf"{_PROTOCOL.pattern}/", source, re.IGNORECASE) and re.search(r"[@?#]", source):
        raise UsageError(
            "source: a URL of object storage names a bucket and a folder, with no user, password or query in it; credentials "
            "belong in environment variables such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
        )
