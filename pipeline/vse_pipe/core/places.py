"""What the place of an output says: its stage, its run, and the command that makes it."""

from itertools import pairwise
from pathlib import Path

DATA = Path("data")
_ROOMS = ("prepare", "extract", "inject", "train", "embed", "evaluate", "audit", "localize")


def run_of_folder(folder: Path) -> str:
    """The run of a folder in data/<stage>/: its name, or ``max/1`` for a seed."""
    parts = folder.parts
    return "/".join(parts[-2:]) if parts[-4:-3] == (DATA.name,) and parts[-1].isdecimal() else folder.name


def command_of(place: Path) -> str | None:
    """The command that makes the output that ``place`` is or lies in; None elsewhere."""
    parts = place.parts
    starts = [start for start, pair in enumerate(pairwise(parts)) if pair[0] == DATA.name and pair[1] in _ROOMS]
    if not starts or len(parts) < starts[-1] + 3:
        return None
    room, name, *more = (part.removesuffix(".partial") for part in parts[starts[-1] + 1 :])
    if room == "prepare":
        return f"vse-pipe prepare --dataset {name}"
    if room == "extract":
        folder = Path(*parts[: starts[-1] + 4])
        if not folder.is_dir():
            return "vse-pipe extract"
        kind = "texts" if (folder / "vocabulary.json").is_file() else "features"
        return f"vse-pipe extract --{kind} {more[0]}"
    if room == "inject":
        is_taught = Path(*parts[: starts[-1] + 4], "teachers.json").is_file()
        return f"vse-pipe inject --{'teacher' if is_taught else 'noise'} {more[0]}"
    if (room, name) == ("audit", "datasets"):
        return f"vse-pipe audit --dataset {more[0]}" + ("" if more[1] == "prepared" else f" --noise {more[1]}")
    return f"vse-pipe {room} --run {f'{name}/{more[0]}' if more and more[0].isdecimal() else name}"
