"""Weight files: their place, their digest, and their download."""

import http.client
import os
import re
import socket
from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.console import say, warn, watched
from vse_pipe.core.errors import IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import sha256


@dataclass(frozen=True)
class WeightsFile:
    """A published weights file. digest: sha256, its first 8 or more digits, or empty."""

    url: str
    file: str
    digest: str


@dataclass(frozen=True)
class Weights:
    """path: None for random weights; about: origin, file, sha256 and whether pinned."""

    path: Path | None
    about: dict


def source_of(url: str) -> WeightsFile:
    """A URL whose file name has its digest, such as ``resnet152-f82ba261.pth``."""
    name = url.rsplit("/", 1)[1]
    match = re.search(r"-([0-9a-f]{8,64})\.\w+$", name)
    return WeightsFile(url, name, match[1] if match else "")


def cache() -> Path:
    """$VSE_PIPE_WEIGHTS, else the folder of torchvision itself."""
    from torch import hub

    return Path(os.environ.get("VSE_PIPE_WEIGHTS") or Path(hub.get_dir()) / "checkpoints")


def locate(name: str, required: str | None, published: WeightsFile | None, seed: int) -> Weights:
    """The weights, downloaded if necessary. Their digest is compared on every call.

    name: imagenet, another published name, random or a path; required: sha256 of the file; seed: of
    random weights, which never replace others. Raises MissingResource (no file and no download),
    IntegrityError (wrong digest), UsageError (no digest for a download)."""
    if name == "random":
        if required:
            raise UsageError("sha256 is given, but random weights have no file to compare it with")
        return Weights(None, {"origin": "random", "seed": seed})
    digest = required or ""
    if published is None:
        path, about = Path(name).expanduser(), {"origin": "file"}
    else:
        digest = digest or published.digest
        path, about = _cached(published, digest), {"origin": "published", "url": published.url}
        if not path.exists():
            _download(published.url, path, digest)
    if not path.is_file():
        raise MissingResource(
            f"{path.absolute()}: no such weights file; weights is imagenet, random or a path to a file"
        )
    actual = check(path, digest)
    if not digest:
        warn(f"{path} is not pinned; to pin it, add to its entry in params.yaml: sha256: {actual}")
    return Weights(path, {**about, "file": path.name, "sha256": actual, "pinned": bool(digest)})


def _cached(published: WeightsFile, digest: str) -> Path:
    """The place of the file with this digest. Raises UsageError where its publisher says another,
    or nobody says one."""
    if not digest:
        raise UsageError(f"no digest is known for {published.url}: set sha256 to the digest its publisher gives")
    if not digest.startswith(published.digest):
        raise UsageError(f"sha256 {digest} contradicts the published digest {published.digest}... of {published.url}")
    path = cache() / published.file
    return path if published.digest else path.with_name(f"{path.stem}-{digest[:8]}{path.suffix}")


def _download(url: str, path: Path, digest: str) -> None:
    """torch writes to another name, and renames or removes that file after checking the digest."""
    from torch.hub import download_url_to_file

    say(f"downloading {url} to {path}")
    path.parent.mkdir(parents=True, exist_ok=True)
    socket.setdefaulttimeout(30.0)  # torch would wait forever for a silent server
    try:
        download_url_to_file(url, str(path), digest, progress=watched())
    except RuntimeError as error:
        raise IntegrityError(f"{url}: {error}; what came was not kept") from error
    except (OSError, http.client.HTTPException) as error:
        raise MissingResource(
            f"cannot download {url} ({getattr(error, 'reason', None) or error}); "
            f"fetch it by hand (its sha256 begins with {digest}) and put it at {path.absolute()}"
        ) from error
    finally:
        socket.setdefaulttimeout(None)


def check(path: Path, expected: str) -> str:
    """The full digest of ``path``. Raises IntegrityError unless it begins with ``expected``."""
    digest = sha256(path)
    if not digest.startswith(expected):
        raise IntegrityError(f"{path}: sha256 is {digest}, expected {expected}; put the right file there")
    return digest
