"""What a project's requirements.txt says of this package, by where pip installed it from."""

import json
import os
import re
import subprocess
from importlib.metadata import distribution, version
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from vse_pipe.project.code import PACKAGE

NAME = "vse-pipe"
# Of a hook, which git runs with its own repository in them.
_OTHERS = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


def text() -> str:
    """One requirement, and comments above it where another machine needs more than the line says.

    From an index: the version. From a repository, or a clone whose commit a remote has: the commit. From a wheel: its address and
    sha256. From any other folder: the folder, since no index and no remote is known to have this code.
    """
    said = distribution(NAME).read_text("direct_url.json")
    if said is None:
        return f"{NAME}=={version(NAME)}\n"
    about = json.loads(said)
    url = _without_password(about["url"])
    if vcs := about.get("vcs_info"):
        return f"{NAME} @ {vcs['vcs']}+{url}@{vcs['commit_id']}\n"
    if (archive := about.get("archive_info")) is not None:
        digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
        line = f"{NAME} @ {url}{f'#sha256={digest}' if digest else ''}\n"
        return _here_alone("the wheel") + line if url.startswith("file:") else line
    folder = Path(url2pathname(urlsplit(url).path))
    if commit := _published(folder):
        return f"{NAME} @ {commit}\n"
    editable = about.get("dir_info", {}).get("editable", False)
    return _here_alone("the clone") + (f"--editable {folder}\n" if editable else f"{NAME} @ {url}\n")


def _here_alone(what: str) -> str:
    return (
        f"# {NAME} {version(NAME)} was installed from {what} below, which other machines and CI do not have: name a commit of a\n"
        f"# repository there ({NAME} @ git+https://HOST/REPOSITORY@COMMIT), a wheel in this project (./NAME.whl), or a version.\n"
    )


def _published(folder: Path) -> str | None:
    """``git+URL@COMMIT`` of a clone without changes whose commit a remote has, as far as the clone knows, and whose code is what is
    installed; else None."""
    commit, changed = _git(folder, "rev-parse", "HEAD"), _git(folder, "status", "--porcelain")
    branches = _git(folder, "branch", "--remotes", "--contains", "HEAD", "--format", "%(refname:lstrip=2)")
    if not commit or changed or not branches or not _same_code(folder):
        return None
    url = _git(folder, "remote", "get-url", branches.splitlines()[0].partition("/")[0])
    if not url or "://" not in url:
        # As ssh has it: git@host:path. A plain path is no address for others.
        host = re.fullmatch(r"([\w.-]+@[\w.-]+):(?!/)(.+)", url or "")
        url = f"ssh://{host[1]}/{host[2]}" if host else None
    return f"git+{_without_password(url)}@{commit}" if url and not url.startswith("file:") else None


def _same_code(folder: Path) -> bool:
    own = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    there = folder / "pipeline" / PACKAGE.name
    return own == {path.relative_to(there) for path in there.rglob("*.py")} and all(
        (PACKAGE / path).read_bytes() == (there / path).read_bytes() for path in own
    )


def _without_password(url: str) -> str:
    """Who may read it is nobody's business but the reader's; ``git@`` of ssh is no secret."""
    return re.sub(r"^(https?://)[^/@]*@", r"\1", url)


def of_git() -> dict[str, str]:
    """The environment in which git speaks of the folder that it is asked about."""
    return {key: value for key, value in os.environ.items() if key not in _OTHERS}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints; None where it fails or is not there."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=of_git(), check=False)  # noqa: S603 (our own words)
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None
