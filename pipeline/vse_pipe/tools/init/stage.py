"""init: make a project that runs the installed package, and renew its files after an upgrade."""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from importlib.metadata import distribution, version
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from vse_pipe.core.console import plain
from vse_pipe.core.errors import MissingResource, PipelineError, UsageError
from vse_pipe.core.files import partial, whole_folder, write_text
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.project import paths
from vse_pipe.project.code import PACKAGE
from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.load import Check
from vse_pipe.report import vega


def remaining_options(params: Path, overlay: str, overrides: list[str]) -> list[str]:
    """Options, such as ``train.lr: 0.002``, that differ from a new project and that neither ``overlay`` nor
    ``overrides`` sets.

    An overlay that was applied earlier set them. Options of nodes do not count.
    """
    new, current, named = (
        dict(_options(read_document(path))) for path in (TEMPLATE / "params.yaml", params, overlays.find(overlay))
    )
    prefixes = tuple(f"{text.partition('=')[0]}." for text in overrides)
    return [
        f"{address}: {value}"
        for address, value in current.items()
        if address not in named and new.get(address, ...) != value and not f"{address}.".startswith(prefixes)
    ]


def _options(section: dict, above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in section.items():
        if isinstance(value, dict) and value:
            yield from _options(value, f"{above}{key}.")
        elif above.partition(".")[0] not in overlays.NODES and key not in overlays.NODES:
            yield f"{above}{key}", value


NAME = "vse-pipe"
# git sets these variables for its hooks; they would name another repository.
_HOOK_VARIABLES = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")


def requirement() -> str:
    """The line of a requirements file that installs this package, with comments above it if other machines cannot use
    the line.

    The line depends on how the package was installed. From an index: the version. From a repository, or a clone whose
    commit a remote has: the commit. From a wheel: its address and sha256. From any other folder: the folder.
    """
    origin = distribution(NAME).read_text("direct_url.json")
    if origin is None:
        return f"{NAME}=={version(NAME)}\n"
    about = json.loads(origin)
    url = _without_password(about["url"])
    if vcs := about.get("vcs_info"):
        return f"{NAME} @ {vcs['vcs']}+{url}@{vcs['commit_id']}\n"
    if (archive := about.get("archive_info")) is not None:
        digest = archive.get("hashes", {}).get("sha256") or archive.get("hash", "").removeprefix("sha256=")
        line = f"{NAME} @ {url}{f'#sha256={digest}' if digest else ''}\n"
        return _local_source_note("the wheel") + line if url.startswith("file:") else line
    folder = Path(url2pathname(urlsplit(url).path))
    if commit := _published(folder):
        return f"{NAME} @ {commit}\n"
    editable = about.get("dir_info", {}).get("editable", False)
    return _local_source_note("the clone") + (f"--editable {folder}\n" if editable else f"{NAME} @ {url}\n")


def _local_source_note(source: str) -> str:
    return (
        f"# {NAME} {version(NAME)} was installed from {source} below, which other machines and CI do not have: name a commit of a\n"
        f"# repository there ({NAME} @ git+https://HOST/REPOSITORY@COMMIT), a wheel in this project (./NAME.whl), or a version.\n"
    )


def _published(folder: Path) -> str | None:
    """``git+URL@COMMIT`` of a clone, or None.

    The clone must have no changes, a remote must have its commit, as far as the clone knows, and its code must be the
    installed one.
    """

    def output(*arguments: str) -> str:
        return _git("-C", str(folder), *arguments, check=False)

    commit, changes = output("rev-parse", "HEAD"), output("status", "--porcelain")
    branches = output("branch", "--remotes", "--contains", "HEAD", "--format", "%(refname:lstrip=2)")
    if not commit or changes or not branches or not _same_code(folder / "pipeline" / PACKAGE.name):
        return None
    url = output("remote", "get-url", branches.splitlines()[0].partition("/")[0])
    if "://" not in url:
        # The ssh form git@host:path. A plain path is no address for other machines.
        host = re.fullmatch(r"([\w.-]+@[\w.-]+):(?!/)(.+)", url)
        url = f"ssh://{host[1]}/{host[2]}" if host else ""
    return f"git+{_without_password(url)}@{commit}" if url and not url.startswith("file:") else None


def _same_code(package: Path) -> bool:
    files = {path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py")}
    return files == {path.relative_to(package) for path in package.rglob("*.py")} and all(
        (PACKAGE / path).read_bytes() == (package / path).read_bytes() for path in files
    )


def _without_password(url: str) -> str:
    """``url`` without user and password. ``git@`` of ssh is no secret and stays."""
    return re.sub(r"^(https?://)[^/@]*@", r"\1", url)


TEMPLATE = Path(__file__).parent / "template"
DVC_YAML = Path("dvc.yaml")
# Copies of this repository's files.
_COPIED: dict[str, str | Path] = {
    "params.yaml": paths.PARAMS,
    "gitignore": ".gitignore",
    "dvcignore": ".dvcignore",
    "dvc_config": ".dvc/config",
    "dvc_gitignore": ".dvc/.gitignore",
    "data.md": "data/README.md",
    "audit.md": "data/audit/README.md",
    "localize.md": "data/localize/README.md",
}
_WORKFLOW = ".github/workflows/experiments.yml"
# Endings that .gitignore excludes, in lower and upper case. Tables of captions and other texts stay in git.
_ARRAYS = ("npy", "npz", "mat", "h5", "hdf5", "lmdb", "parquet", "arrow", "tsv", "vec")
_WEIGHTS = ("pth", "pt", "bin", "safetensors", "ckpt", "onnx", "gguf")
_ARCHIVES = ("tar", "tgz", "gz", "bz2", "xz", "zip", "7z")


def create(folder: Path, overlay: str | None, overrides: list[str], further: Sequence[Check] = ()) -> str:
    """Create ``folder``, a git repository with one commit, whole or not at all.

    Returns the reason of git if it did not commit: mostly that it knows no name of the user. overlay: a packaged overlay or a file, applied to params.yaml before ``overrides``; further: checks as in ``load``.
    Raises UsageError if no project can lie there or the overlay is wrong, MissingResource without git.
    """
    target = Path(os.path.abspath(folder))  # noqa: PTH100 (resolve() would follow a link in the folder's place)
    _require_room(target)
    with whole_folder(target) as building:
        for name, place in _COPIED.items():
            (building / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TEMPLATE / name, building / place)
        write_text(building / ".gitignore", (building / ".gitignore").read_text(encoding="utf-8") + _raw_data())
        (building / paths.REPORTS).mkdir()
        for name, content in _from_version().items():
            write_text(building / name, content)
        params = building / paths.PARAMS
        overlays.apply(params, str(TEMPLATE / "begin.yaml"), [] if overlay else overrides, further)
        if overlay:
            overlays.apply(params, overlay, overrides, further)
        _write_packaged(building)
        _git("init", "--quiet", str(building))
        return _first_commit(building)


# No name made up by git, no key to ask for, no hook of the user.
_COMMIT_SETTINGS = ("user.useConfigOnly=true", "commit.gpgSign=false", f"core.hooksPath={os.devnull}")


def _first_commit(root: Path) -> str:
    """Commit all files, since `dvc exp run` needs a commit. Returns the reason if git refuses."""
    settings = [word for setting in _COMMIT_SETTINGS for word in ("-c", setting)]
    try:
        _git("-C", str(root), "add", "--all")
        _git("-C", str(root), *settings, "commit", "--quiet", "--message", "vse-pipe init")
    except PipelineError as error:
        return str(error).splitlines()[-1].removeprefix("git -C: ")
    return ""


def upgrade() -> tuple[list[str], list[str]]:
    """Renew the files of the working directory that depend on the installed package alone.

    Returns (renewed, unchanged). A file stays unchanged if the user edited it, or if a version that did not mark its
    files wrote it. Raises UsageError in a clone, and if dvc.yaml has changes that are not committed.
    """
    if Path("pipeline", PACKAGE.name, "cli.py").is_file():
        raise UsageError(f"init --upgrade: this is a clone, whose {DVC_YAML} comes with its code")
    if _git("status", "--porcelain", str(DVC_YAML)):
        raise UsageError(f"init --upgrade: commit {DVC_YAML} first; `git diff` then shows what has changed")
    files = _from_version()
    renewed = {name: content for name, content in files.items() if _is_ours(Path(name), content)}
    _write_packaged(Path())
    for name, content in renewed.items():
        write_text(Path(name), content)
    return [str(DVC_YAML), *renewed], [name for name in files if name not in renewed]


def _from_version() -> dict[str, str]:
    texts = {
        str(paths.REQUIREMENTS): requirement(),
        _WORKFLOW: (TEMPLATE / "experiments.yml").read_text(encoding="utf-8"),
    }
    return {name: f"{_mark(text)}{text}" for name, text in texts.items()}


def _raw_data() -> str:
    kinds = (*(ending.removeprefix(".") for ending in ENDINGS), *_ARRAYS, *_WEIGHTS, *_ARCHIVES)
    lines = [f"*.{kind}" for name in dict.fromkeys(kinds) for kind in (name, name.upper())]
    head = "# pictures, arrays, word vectors, weights and archives; `git add --force` takes one all the same"
    return "\n".join([head, *lines, "glove*.txt", "!*_caps.tsv"]) + "\n"


def _mark(text: str) -> str:
    return f"# Written by `vse-pipe init`; of what follows sha256 {hashlib.sha256(text.encode()).hexdigest()}\n"


def _is_ours(path: Path, content: str) -> bool:
    """Does the file exist as a version of this package wrote it?"""
    if not path.is_file():
        return False
    text = path.read_text(encoding="utf-8", errors="replace")
    first, _, rest = text.partition("\n")
    return (
        text == content
        or f"{first}\n" == _mark(rest)
        or re.fullmatch(r"vse-pipe==[\w.!+-]+\n", text, re.ASCII) is not None
    )


def _write_packaged(root: Path) -> None:
    for template in sorted((PACKAGE / "report" / "plots").glob("*.json")):
        write_text(root / ".dvc" / "plots" / template.name, template.read_text(encoding="utf-8"))
    write_plots_page(root)
    write_text(root / DVC_YAML, (TEMPLATE / "stages.yaml").read_text(encoding="utf-8"))


def _require_room(target: Path) -> None:
    """Raises UsageError unless ``target`` is new or an empty folder, outside of any repository."""
    if plain(target.name) != target.name:
        raise UsageError(f"init: {target.name!r} has characters that cannot be shown; choose another name")
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        raise UsageError(f"init: {target} is there and no folder; choose another name")
    if not target.parent.is_dir():
        raise UsageError(f"init: {target.parent} is no folder; make it first, or choose another place")
    if Path.cwd().is_relative_to(target):
        raise UsageError(f"init: you are in {target}; name a folder that does not exist yet")
    for path, cure in (
        (target, "or move it away"),
        (partial(target), "or move it away; an init that was killed leaves such a folder"),
    ):
        if path.is_dir() and (names := sorted(child.name for child in path.iterdir())):
            raise UsageError(f"init: {path} is not empty ({', '.join(names[:3])}); choose another name, {cure}")
    if shutil.which("git") is None:
        raise MissingResource(
            "init: git is not on the PATH, and DVC keeps experiments in a git repository; install git"
        )
    if repository := _git("-C", str(target.parent), "rev-parse", "--show-toplevel", check=False):
        advice = "a project is a repository of its own, so choose a place outside"
        raise UsageError(f"init: {target} would lie in the git repository {repository}; {advice}")


def _git(*arguments: str, check: bool = True) -> str:
    """The output of git. If git fails: PipelineError with its message, or an empty text without ``check``."""
    settings = {key: value for key, value in os.environ.items() if key not in _HOOK_VARIABLES}
    try:
        process = subprocess.run(["git", *arguments], capture_output=True, text=True, env=settings, check=False)  # noqa: S603, S607 (our own words)
    except OSError:
        if check:
            raise
        return ""
    if check and process.returncode:
        raise PipelineError(f"git {arguments[0]}: {process.stderr.strip() or f'status {process.returncode}'}")
    return process.stdout.strip() if process.returncode == 0 else ""


# The page that `dvc plots` fills. It contains Vega, so unlike DVC's own page it needs no network.
#
# `plots.html_template` in .dvc/config names the page. DVC replaces ``{plot_divs}`` by the plots and ``{refresh_tag}`` by a reload
# tag. The page has no ``{scripts}``, so DVC's three links to a server are left out.

# .dvc/config names it. git ignores it, since it is one megabyte of third-party code.
PLOTS_PAGE = Path(".dvc") / "plots.html"
_FOLDER = Path(__file__).parent


def plots_page() -> str:
    """The page with Vega, Vega-Lite and vega-embed of the installed vl_convert; DVC's placeholders stay.

    Plots name Vega-Lite 5, as DVC's own templates do. vl_convert has no Vega older than 6, which warns about the output
    of Vega-Lite 5. So the page has the newest version of both, which draw the same, and the wrapper removes the name.
    """
    import vl_convert

    page = (_FOLDER / "plots_page.html").read_text(encoding="utf-8")
    scripts = {
        "library": vega.bundle(vl_convert.get_vegalite_versions()[-1]),
        "wrapper": (_FOLDER / "plots_page.js").read_text(encoding="utf-8"),
    }
    # One pass, so that text in a script is no placeholder.
    return re.sub(r"\{(library|wrapper)\}", lambda match: scripts[match[1]], page)


def write_plots_page(root: Path) -> Path:
    """Write ``PAGE`` below ``root``, whole or not at all, and return its path."""
    page = root / PLOTS_PAGE
    write_text(page, plots_page())
    return page
