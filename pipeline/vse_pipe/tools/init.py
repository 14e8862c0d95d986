"""init: make a project that runs the installed package, and renew its files after an upgrade."""

import json
import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib.metadata import distribution, version
from pathlib import Path
from urllib.parse import urlsplit

from vse_pipe.core.errors import MissingResource, PipelineError, UsageError
from vse_pipe.core.files import whole_folder, write_text
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.project import paths
from vse_pipe.project.code import PACKAGE
from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.load import Check
from vse_pipe.report import vega

NAME = "vse-pipe"
TEMPLATE = Path(__file__).parent / "template"
DVC_YAML = "dvc.yaml"
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
# Further copies, which another version of the package has otherwise.
_RENEWED = {"stages.yaml": DVC_YAML, "experiments.yml": ".github/workflows/experiments.yml"}
# Endings that .gitignore excludes, in lower and upper case. Tables of captions and other texts stay
# in git.
_ARRAYS = ("npy", "npz", "mat", "h5", "hdf5", "lmdb", "parquet", "arrow", "tsv", "vec")
_WEIGHTS = ("pth", "pt", "bin", "safetensors", "ckpt", "onnx", "gguf")
_ARCHIVES = ("tar", "tgz", "gz", "bz2", "xz", "zip", "7z")


def create(folder: Path, overlay: str | None, overrides: list[str], further: Sequence[Check] = ()) -> str:
    """Create ``folder``, a git repository with one commit, whole or not at all.

    Returns the reason of git if it did not commit: mostly that it knows no name of the user.
    overlay: a packaged overlay or a file, applied to params.yaml before ``overrides``; further:
    checks as in ``load``. Raises UsageError if no project can lie there or the overlay is wrong,
    MissingResource without git."""
    target = Path(os.path.abspath(folder))  # noqa: PTH100 (resolve() would follow a link in the folder's place)
    _require_room(target)
    with whole_folder(target) as building:
        for name, place in _COPIED.items():
            (building / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TEMPLATE / name, building / place)
        write_text(building / ".gitignore", (building / ".gitignore").read_text(encoding="utf-8") + _raw_data())
        (building / paths.REPORTS).mkdir()
        _write_packaged(building)
        params = building / paths.PARAMS
        overlays.apply(params, str(TEMPLATE / "begin.yaml"), [] if overlay else overrides, further)
        if overlay:
            overlays.apply(params, overlay, overrides, further)
        _git("init", "--quiet", str(building))
        return _first_commit(building)


def _require_room(target: Path) -> None:
    """Raises UsageError unless ``target`` is a new or empty folder outside of any repository."""
    if target.is_symlink() or (target.exists() and (not target.is_dir() or any(target.iterdir()))):
        raise UsageError(f"init: {target} is there already; name a new folder")
    if not target.parent.is_dir():
        raise UsageError(f"init: {target.parent} is no folder; make it first, or choose another place")
    if Path.cwd().is_relative_to(target):
        raise UsageError(f"init: you are in {target}; name a folder that does not exist yet")
    if shutil.which("git") is None:
        raise MissingResource("init: git is not on the PATH, and DVC keeps experiments in a git repository; install it")
    if repository := next((path for path in target.parents if (path / ".git").exists()), None):
        raise UsageError(f"init: {target} would lie in the git repository {repository}; choose a place outside")


def _raw_data() -> str:
    """Lines of .gitignore."""
    kinds = (*(ending.removeprefix(".") for ending in ENDINGS), *_ARRAYS, *_WEIGHTS, *_ARCHIVES)
    lines = [f"*.{kind}" for name in dict.fromkeys(kinds) for kind in (name, name.upper())]
    head = "# pictures, arrays, word vectors, weights and archives; `git add --force` takes one all the same"
    return "\n".join([head, *lines, "glove*.txt", "!*_caps.tsv"]) + "\n"


def upgrade() -> list[str]:
    """Write the files of the working directory anew that depend on the installed package alone;
    returns their names.

    Raises UsageError in a clone, and if one of them has changes that are not committed."""
    if Path("pipeline", PACKAGE.name, "cli.py").is_file():
        raise UsageError(f"init --upgrade: this is a clone, whose {DVC_YAML} comes with its code")
    names = [*_RENEWED.values(), str(paths.REQUIREMENTS)]
    if _git("status", "--porcelain", *names):
        raise UsageError(f"init --upgrade: commit {', '.join(names)} first; `git diff` then shows what has changed")
    _write_packaged(Path())
    return names


def _write_packaged(root: Path) -> None:
    for template in sorted((PACKAGE / "report" / "plots").glob("*.json")):
        write_text(root / ".dvc" / "plots" / template.name, template.read_text(encoding="utf-8"))
    write_plots_page(root)
    for name, place in _RENEWED.items():
        write_text(root / place, (TEMPLATE / name).read_text(encoding="utf-8"))
    write_text(root / paths.REQUIREMENTS, requirement())


def requirement() -> str:
    """The line of a requirements file that installs this package, with a comment above it if other
    machines cannot use it.

    The line depends on how the package was installed. From an index: the version. From a
    repository: the commit. From a wheel: its address and sha256. From a folder: the folder."""
    origin = distribution(NAME).read_text("direct_url.json")
    if origin is None:
        return f"{NAME}=={version(NAME)}\n"
    about = json.loads(origin)
    url = _without_password(about["url"])
    if vcs := about.get("vcs_info"):
        return f"{NAME} @ {vcs['vcs']}+{url}@{vcs['commit_id']}\n"
    digest = about.get("archive_info", {}).get("hashes", {}).get("sha256")
    line = f"{NAME} @ {url}{f'#sha256={digest}' if digest else ''}\n"
    if not url.startswith("file:"):
        return line
    return (
        "# Other machines and CI do not have what is named below: name a commit of a repository there\n"
        f"# ({NAME} @ git+https://HOST/REPOSITORY@COMMIT), a wheel in this project (./NAME.whl), or a version.\n{line}"
    )


def _without_password(url: str) -> str:
    """``git@`` of ssh is no secret and stays."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https"):
        return url
    return address._replace(netloc=address.netloc.rpartition("@")[2]).geturl()


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


def _git(*arguments: str) -> str:
    """The output of git; its message as PipelineError if it fails."""
    process = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)  # noqa: S603, S607 (our own words)
    if process.returncode:
        raise PipelineError(f"git {arguments[0]}: {process.stderr.strip() or f'status {process.returncode}'}")
    return process.stdout.strip()


# The page that `dvc plots` fills. It contains Vega, so unlike DVC's own page it needs no network.
#
# `plots.html_template` in .dvc/config names it; git ignores it, since it is one megabyte of
# third-party code. DVC replaces ``{plot_divs}`` by the plots and ``{refresh_tag}`` by a reload tag.
# The page has no ``{scripts}``, so DVC's three links to a server are left out.
PLOTS_PAGE = Path(".dvc") / "plots.html"


def plots_page() -> str:
    """The page with Vega, Vega-Lite and vega-embed of the installed vl_convert; DVC's placeholders
    stay.

    Plots name Vega-Lite 5, as DVC's own templates do. vl_convert has no Vega older than 6, which
    warns about the output of Vega-Lite 5. So the page has the newest version of both, which draw
    the same, and the wrapper removes the name.
    """
    import vl_convert

    page, wrapper = ((TEMPLATE / f"plots_page.{kind}").read_text(encoding="utf-8") for kind in ("html", "js"))
    # The library last, whose text may hold the wrapper's placeholder.
    page = page.replace("{wrapper}", wrapper)
    return page.replace("{library}", vega.bundle(vl_convert.get_vegalite_versions()[-1]))


def write_plots_page(root: Path) -> Path:
    """Write ``PLOTS_PAGE`` below ``root``, whole or not at all, and return its path."""
    page = root / PLOTS_PAGE
    write_text(page, plots_page())
    return page
