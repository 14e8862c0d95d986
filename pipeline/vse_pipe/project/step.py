"""One line of a plan, and the arithmetic that several stages share."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json
from vse_pipe.project import timing
from vse_pipe.project.nodes import declarations
from vse_pipe.project.params.typed import Params

RUNS, AGAIN, GOES_ON, DONE, BLOCKED = "runs", "runs again", "goes on", "up to date", "blocked"
FLOAT32 = 4
_NAMED = 3


@dataclass(frozen=True)
class Step:
    """What one command would do for one node.

    state: one of the above; rows: of what it writes, by name; bytes, seconds: estimates, None where nothing is known to
    estimate them from; because: where the seconds come from, or what is missing.
    """

    stage: str
    name: str
    out: str
    state: str
    rows: dict[str, int] = field(default_factory=dict)
    bytes: int | None = None
    seconds: float | None = None
    because: str = ""

    def as_json(self) -> dict:
        return asdict(self)


@dataclass(frozen=True)
class Earlier:
    """A call that was timed: its output and how much work it was, in the unit of the stage."""

    out: Path
    work: float | None


def seconds(work: float | None, earlier: Iterable[Earlier]) -> tuple[float | None, str]:
    """The first timing record of ``earlier`` scaled to ``work``, and where it came from. None and why where there is none."""
    for one in earlier:
        record = timing.beside(one.out)
        if work is not None and one.work and record.is_file():
            spent = read_json(record).get("seconds")
            if isinstance(spent, int | float):
                return round(spent * work / one.work, 1), f"time from {record}"
    return None, "no timing of an earlier run to estimate the time from"


def waiting(params: Params, group: str, name: str) -> Step | None:
    """A step that cannot run, where an input that the stage declares is not there."""
    declared = declarations()[group]
    return blocked(group, name, declared.out(params, name), declared.inputs(params, name))


def blocked(stage: str, name: str, out: Path, missing: Iterable[Path]) -> Step | None:
    """A step that cannot run, where one of the files is not there; the first three of them are named."""
    absent = [str(path) for path in missing if not path.exists()]
    if not absent:
        return None
    verb = "does" if len(absent) == 1 else "do"
    more = f" and {len(absent) - _NAMED} more" if len(absent) > _NAMED else ""
    return Step(stage, name, str(out), BLOCKED, because=f"{', '.join(absent[:_NAMED])}{more} {verb} not exist yet")


def whole(stage: str, name: str, out: Path, rows: dict[str, int], table: str) -> Step:
    """A step that writes all of ``out`` anew. rows: of one name, those of ``table`` in it: bytes and seconds go by how many an earlier
    call wrote."""
    (count,), before = rows.values(), rows_in(out / table)
    spent, because = seconds(count, [Earlier(out, before)])
    written = scaled(out, count / before if before else None)
    return Step(stage, name, str(out), AGAIN if before else RUNS, rows, written, spent, because)


def size(folder: Path) -> int:
    """Bytes below a folder, or of a file."""
    paths = [folder] if folder.is_file() else folder.rglob("*")
    return sum(path.stat().st_size for path in paths if path.is_file())


def scaled(folder: Path, share: float | None) -> int | None:
    """The bytes that lie in ``folder``, times ``share``."""
    return round(size(folder) * share) if share and folder.exists() else None


def rows_in(path: Path) -> int | None:
    """Of a Parquet file, from its footer; None where it is not there or cannot be read."""
    from vse_pipe.core import parquet

    try:
        with parquet.opened(path) as file:
            return file.metadata.num_rows
    except (OSError, InputError, IntegrityError):
        return None


def by_split(path: Path) -> dict[str, int]:
    """Rows by split, from the column of that name. Raises IntegrityError when the file is damaged."""
    import pyarrow as pa

    from vse_pipe.core import tables

    schema = pa.schema([pa.field("split", pa.string(), nullable=False)])
    counts = tables.read(path, schema, columns=["split"])["split"].value_counts()
    return {one["values"]: one["counts"] for one in counts.to_pylist()}
