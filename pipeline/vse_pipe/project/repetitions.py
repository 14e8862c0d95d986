"""A run with seeds: one model a seed. Each is a run of its own, ``max/1``, whose folders lie in those of ``max``."""

import contextlib
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from vse_pipe.core.console import say
from vse_pipe.core.errors import UsageError
from vse_pipe.core.files import put as put_folder
from vse_pipe.core.files import require_ours
from vse_pipe.core.locks import claim

if TYPE_CHECKING:  # which names what it holds with what is defined here
    from vse_pipe.project.params.typed import Params

_BETWEEN = "/"


def name(run: str, seed: int) -> str:
    """As on the command line: ``max/1``. No name in params.yaml has a slash."""
    return f"{run}{_BETWEEN}{seed}"


def entry(run: str) -> str:
    """The name in params.yaml: ``max`` of ``max/1`` and of ``max``."""
    return run.partition(_BETWEEN)[0]


def seed(run: str) -> int | None:
    """Of a repetition; None of a run without seeds."""
    found = run.partition(_BETWEEN)[2]
    return int(found) if found else None


def below(folder: Path) -> list[Path]:
    """The folders of repetitions that lie in a run's folder, whether or not params.yaml names them, and of killed calls."""
    found = [path for path in folder.glob("*") if path.name.removesuffix(".partial").isdecimal() and path.is_dir()]
    return sorted(found, key=lambda path: (int(path.name.removesuffix(".partial")), path.name))


def patterns(files: Iterable[str]) -> list[str]:
    """Of what the pipeline may have written in a run's folder, where ``files`` are those of one model: with those of
    repetitions, for a run may have had seeds before."""
    own = list(files)
    return [*own, *(f"[0-9]*/{file}" for file in own), "[0-9]*.timing.json", "[0-9]*.lock"]


def expanded(groups: Mapping[str, tuple[str, ...]], names: Iterable[str]) -> list[str]:
    return [one for name in names for one in groups.get(name, (name,))]


def one_model(params: "Params", run: str) -> str:
    """``run`` where it is one model. Raises UsageError that names the repetitions of a run with seeds."""
    if run in params.groups:
        raise UsageError(
            f"run '{run}' has a model for each of its seeds; name one of them: {', '.join(params.groups[run])}"
        )
    return run


def put(building: Path, out: Path, files: Iterable[str], who: str) -> None:
    """The folder ``building`` of one model takes the place of ``out``, also of the models of seeds in it, which is said.

    files: as of ``patterns``. Raises PipelineError where there is what nobody here wrote, LockedError where a process still
    writes one of those seeds.
    """
    seeds = below(out)
    with contextlib.ExitStack() as held:
        for whole in sorted({path.with_name(path.name.removesuffix(".partial")) for path in seeds}):
            held.enter_context(claim(whole))
        put_folder(building, out, patterns(files))
    if seeds:
        say(f"{who}: took the place of {', '.join(map(str, seeds))}, of seeds that the run no longer has")


def settle(folder: Path, kept: Collection[Path], files: Iterable[str]) -> None:
    """Remove from the folder of a run with seeds what other seeds, and the run without any, have left there, and say so.

    kept: the folders of its repetitions; files: as of ``patterns``. Raises PipelineError where there is what nobody here
    wrote, LockedError where a process still writes one of those seeds.
    """
    with claim(folder):
        require_ours(folder, patterns(files))
        for path in below(folder):
            whole = path.with_name(path.name.removesuffix(".partial"))
            if whole not in kept:
                with claim(whole):
                    shutil.rmtree(path)
                    whole.with_name(f"{whole.name}.timing.json").unlink(missing_ok=True)
                say(f"{path}: removed, the run no longer has that seed")
        other = [path for path in folder.iterdir() if not path.name[0].isdecimal() and not path.name.startswith(".")]
        for path in other:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        if other:
            say(f"{folder}: removed what the run without seeds had left there")
