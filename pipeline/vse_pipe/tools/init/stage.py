"""init: a project of one's own, which runs the installed package: no code in it, and no demo."""

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from vse_pipe.core.errors import MissingResource, PipelineError, UsageError
from vse_pipe.core.files import partial, whole_folder, write_text
from vse_pipe.prepare.formats.options import ENDINGS
from vse_pipe.project import paths
from vse_pipe.project.code import PACKAGE
from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.load import Check
from vse_pipe.tools.init import requirement, stages_yaml
from vse_pipe.tools.init.stages_yaml import TEMPLATE
from vse_pipe.tools.plots import plots_page

DVC_YAML = Path("dvc.yaml")
# As this repository has them.
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
_SET_UP = f"""\
        run: |
          python -m venv .venv
          .venv/bin/pip install --requirement {paths.REQUIREMENTS}
          .venv/bin/vse-pipe plots
"""
# What `git add --all` leaves out, in either case; tables of captions and other texts stay in git.
_ARRAYS = ("npy", "npz", "mat", "h5", "hdf5", "lmdb", "parquet", "arrow", "tsv", "vec")
_WEIGHTS = ("pth", "pt", "bin", "safetensors", "ckpt", "onnx", "gguf")
_ARCHIVES = ("tar", "tgz", "gz", "bz2", "xz", "zip", "7z")


def create(folder: Path, overlay: str | None, overrides: list[str], further: Sequence[Check] = ()) -> None:
    """Make ``folder``, a git repository without a commit, whole or not at all.

    overlay: packaged or a file, applied to params.yaml, then ``overrides``; further: as of ``load``. Raises UsageError where
    no project can be made there or the overlay is wrong, MissingResource without git.
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


def upgrade() -> tuple[list[str], list[str]]:
    """Write anew, in the working directory, what follows from the installed package alone. Returns what is now as this version
    has it, and what is not because it has changes of the user's, or was written by a version that did not mark its files.

    Raises UsageError in a clone, and where dvc.yaml has changes that git does not have.
    """
    if Path("pipeline", PACKAGE.name, "cli.py").is_file():
        raise UsageError(f"init --upgrade: this is a clone, whose {DVC_YAML} comes with its code")
    if _git("status", "--porcelain", str(DVC_YAML)):
        raise UsageError(f"init --upgrade: commit {DVC_YAML} first; `git diff` then shows what has changed")
    wanted = _from_version()
    fresh = {name: content for name, content in wanted.items() if _is_ours(Path(name), content)}
    _write_packaged(Path())
    for name, content in fresh.items():
        write_text(Path(name), content)
    return [str(DVC_YAML), *fresh], [name for name in wanted if name not in fresh]


def _from_version() -> dict[str, str]:
    """Files that are the user's to change, by name."""
    wanted = {str(paths.REQUIREMENTS): requirement.text(), _WORKFLOW: _workflow()}
    return {name: f"{_mark(text)}{text}" for name, text in wanted.items()}


def _raw_data() -> str:
    """Lines of .gitignore."""
    kinds = (*(ending.removeprefix(".") for ending in ENDINGS), *_ARRAYS, *_WEIGHTS, *_ARCHIVES)
    lines = [f"*.{kind}" for name in dict.fromkeys(kinds) for kind in (name, name.upper())]
    head = "# pictures, arrays, word vectors, weights and archives; `git add --force` takes one all the same"
    return "\n".join([head, *lines, "glove*.txt", "!*_caps.tsv"]) + "\n"


def _mark(text: str) -> str:
    return f"# Written by `vse-pipe init`; of what follows sha256 {hashlib.sha256(text.encode()).hexdigest()}\n"


def _is_ours(path: Path, content: str) -> bool:
    """Whether the file is there as whatever version wrote it; one that is not UTF-8 is none of ours."""
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
    """dvc.yaml, and the templates and the page of its plots."""
    for template in sorted((PACKAGE / "report" / "plots").glob("*.json")):
        write_text(root / ".dvc" / "plots" / template.name, template.read_text(encoding="utf-8"))
    plots_page.write(root)
    write_text(root / DVC_YAML, stages_yaml.text())


def _workflow() -> str:
    """That of this repository, which installs the package and knows no make."""
    text = (TEMPLATE / "experiments.yml").read_text(encoding="utf-8")
    text = re.sub(r"; tests/\S+ runs every command below", "", text)
    return text.replace("        run: make setup\n", _SET_UP).replace("make demo", "dvc repro")


def _require_room(target: Path) -> None:
    """Raises UsageError unless ``target`` is a name for a new folder, or an empty one, outside of any repository."""
    if not target.name.isprintable():
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
        if path.is_dir() and (there := sorted(one.name for one in path.iterdir())):
            raise UsageError(f"init: {path} is not empty ({', '.join(there[:3])}); choose another name, {cure}")
    if shutil.which("git") is None:
        raise MissingResource(
            "init: git is not on the PATH, and DVC keeps experiments in a git repository; install git"
        )
    if around := _git("-C", str(target.parent), "rev-parse", "--show-toplevel", check=False):
        told = "a project is a repository of its own, so choose a place outside"
        raise UsageError(f"init: {target} would lie in the git repository {around}; {told}")


def _git(*arguments: str, check: bool = True) -> str:
    """What git prints. Raises PipelineError with its message; without ``check`` there is nothing then."""
    settings = requirement.of_git()
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, env=settings, check=False)  # noqa: S603, S607 (our own words)
    if check and done.returncode:
        raise PipelineError(f"git {arguments[0]}: {done.stderr.strip() or f'status {done.returncode}'}")
    return done.stdout.strip()
