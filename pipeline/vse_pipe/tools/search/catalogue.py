"""Images and captions of the data set: files, texts, and conditions on the columns of images.parquet."""

import ast
import re
import warnings
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Int64

from vse_pipe.artifacts import captions, images, joins
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import tables, text
from vse_pipe.core.errors import InputError, MissingResource, UsageError, missing
from vse_pipe.core.files import inside
from vse_pipe.pictures.address import path_of
from vse_pipe.project import paths
from vse_pipe.tools.search.gallery import numbers

_IMAGES = ["image_id", "file", "width"]
_PRECOMPUTED = "_ims.npy#"
_CAPTIONS = ["caption_id", "image_id", "text"]
# Characters of a condition.
_LONGEST = 1000
# Text in quotes, or a token that SQL and Python write differently.
_TOKENS = re.compile(r"'[^']*'|\"[^\"]*\"|<>|(?<![<>=!])=(?!=)|\b(?:AND|OR|NOT|IN)\b")
_QUOTED = re.compile(r"'[^']*'|\"[^\"]*\"")
_COMPARISONS: dict[type, str] = {
    ast.Eq: "equal",
    ast.NotEq: "not_equal",
    ast.Lt: "less",
    ast.LtE: "less_equal",
    ast.Gt: "greater",
    ast.GtE: "greater_equal",
}
_MIRRORED = {"less": "greater", "less_equal": "greater_equal", "greater": "less", "greater_equal": "less_equal"}
Value = str | int | float


@dataclass(frozen=True)
class Catalogue:
    """dataset: its name; images, captions: the tables of data/prepare/<dataset>/; origins: as in ``read``."""

    dataset: str
    images: pa.Table
    captions: pa.Table
    origins: tuple[joins.Origin, ...] = ()

    @classmethod
    def read(cls, dataset: str, *origins: joins.Origin) -> "Catalogue":
        """origins: of the vectors that use these ids. Raises MissingResource if the data set is not prepared,
        IntegrityError as ``joins.compared``, and as the readers of the artefacts."""
        folder = paths.prepared(dataset)
        for name in (images.NAME, captions.NAME):
            if not (folder / name).is_file():
                command = f"vse-pipe prepare --dataset {dataset}"
                raise MissingResource(f"{folder / name} does not exist; make it with `{command}`")
        with joins.compared(folder, *origins):
            of_images, of_captions = (
                tables.read(folder / table.NAME, pa.schema([table.SCHEMA.field(name) for name in names]), columns=names)
                for table, names in ((images, _IMAGES), (captions, _CAPTIONS))
            )
        return cls(dataset, of_images, of_captions, origins)

    @cached_property
    def columns(self) -> pa.Table:
        """All columns of images.parquet. Raises IntegrityError if the data set has changed."""
        folder = paths.prepared(self.dataset)
        with joins.compared(folder, *self.origins):
            return tables.read(folder / images.NAME, images.SCHEMA)

    def fitting(self, condition: str, names: TextIds | None) -> Int64[np.ndarray, " images"]:
        """Ids of the images that fit the condition, which sees the data set's own image_id. Raises as
        ``rows_where``."""
        table, ids = self.columns, numbers(self.columns["image_id"])
        texts = None if names is None else names.texts("image_id", ids)
        if texts is not None:
            table = table.set_column(table.column_names.index("image_id"), "image_id", texts)
        return ids[rows_where(condition, table)]

    def file(self, image_id: int) -> str:
        """The file name in images.parquet, or for precomputed features the name in ``<split>_ids.txt`` if there is
        one."""
        file = self._cell("file", image_id)
        return self._names.get(file, file) if _PRECOMPUTED in file else file

    def first_caption(self, image_id: int) -> str:
        """The first caption of the image, empty if it has none."""
        place = _place(self._first_captions, image_id)
        return "" if place is None else self.captions["text"][place].as_py()

    def text(self, caption_id: int) -> str:
        place = _place(self._caption_order, caption_id)
        if place is None:
            raise InputError(self._absent("caption_id", caption_id, captions.NAME))
        return self.captions["text"][place].as_py()

    def path(self, image_id: int) -> Path | None:
        """The path of the image for ``pictures.images.shown``: a file, or a member of a shard. None if the file is missing or
        only features exist. Raises InputError for a name outside the data set's root."""
        if not self._cell("width", image_id):
            return None
        where = f"{paths.prepared(self.dataset) / images.NAME}: image_id {image_id}"
        root, file = images.root(self.images), self._cell("file", image_id)
        return root / file if inside(root, path_of(file), where).is_file() else None

    def _cell(self, column: str, image_id: int):
        place = _place(self._image_order, image_id)
        if place is None:
            raise InputError(self._absent("image_id", image_id, images.NAME))
        return self.images[column][place].as_py()

    def _absent(self, key: str, value: int, name: str) -> str:
        return f"{paths.prepared(self.dataset) / name}: no {key} {value}; prepare and embed the data set again"

    @cached_property
    def _names(self) -> dict[str, str]:
        by_prefix: dict[str, list[str]] = {}
        for file in self.images["file"].to_pylist():
            by_prefix.setdefault(file.rpartition(_PRECOMPUTED)[0], []).append(file)
        root = images.root(self.images)
        names: dict[str, str] = {}
        for prefix, files in by_prefix.items():
            names.update(zip(files, _lines(root / f"{prefix}_ids.txt", len(files)), strict=False))
        return names

    @cached_property
    def _image_order(self) -> tuple[np.ndarray, np.ndarray]:
        return _order(numbers(self.images["image_id"]))

    @cached_property
    def _caption_order(self) -> tuple[np.ndarray, np.ndarray]:
        return _order(numbers(self.captions["caption_id"]))

    @cached_property
    def _first_captions(self) -> tuple[np.ndarray, np.ndarray]:
        return np.unique(numbers(self.captions["image_id"]), return_index=True)


def _lines(path: Path, count: int) -> list[str]:
    """A line of ``path`` for each of ``count`` images; a file with a line for each caption must repeat it for each
    image. Empty if there is no such file or its lines do not fit."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines() if path.is_file() else []
    size = len(lines) // count
    blocks = [{line.strip() for line in lines[start : start + size]} for start in range(0, size * count, size or 1)]
    fits = size * count == len(lines) and all(len(block) == 1 for block in blocks)
    return [block.pop() for block in blocks] if fits else []


def _order(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    order = np.argsort(ids, kind="stable")
    return ids[order], order


def _place(order: tuple[np.ndarray, np.ndarray], number: int) -> int | None:
    ids, places = order
    first = int(np.searchsorted(ids, number))
    return int(places[first]) if first < len(ids) and ids[first] == number else None


def rows_where(condition: str, table: pa.Table) -> Bool[np.ndarray, " rows"]:
    """Rows that fit a condition such as ``split = 'test' and width > 500``.

    A condition compares a column with a value (= == != <> < <= > >=, also in chains), looks for a column in a list of
    values, or for text in a column (``in``, ``not in``), and joins comparisons by and, or, not and parentheses. Python
    parses it and never evaluates it. Raises UsageError for a condition that cannot be read, an unknown column, and text
    compared with numbers."""
    if len(condition) > _LONGEST:
        raise UsageError(f"--where: {len(condition):,} characters; {_LONGEST:,} are the most")
    quoted = list(_QUOTED.finditer(condition))
    if any(not condition[left.end() : right.start()].strip() for left, right in pairwise(quoted)):
        raise UsageError(
            "--where: two texts stand side by side; text that holds a ' belongs in double quotes: \"it's.jpg\""
        )
    try:
        with text.ALONE, warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(_TOKENS.sub(_as_python, condition).strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError, Warning) as error:
        raise _unreadable(condition) from error
    try:
        return np.asarray(_Reader(condition, table).mask(tree))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"--where: a value cannot be compared with its column: {reason}") from error


class _Reader:
    def __init__(self, condition: str, table: pa.Table) -> None:
        self._condition, self._table = condition, table

    def mask(self, node: ast.expr) -> np.ndarray:
        if isinstance(node, ast.BoolOp):
            join = np.logical_and if isinstance(node.op, ast.And) else np.logical_or
            return reduce(join, map(self.mask, node.values))
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return ~self.mask(node.operand)
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            masks = map(self._compared, sides[:-1], node.ops, sides[1:])
            return reduce(np.logical_and, masks)
        raise _unreadable(self._condition)

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> np.ndarray:
        if isinstance(op, ast.In | ast.NotIn):
            mask = self._contained(left, right)
            return mask if isinstance(op, ast.In) else ~mask
        if type(op) not in _COMPARISONS:
            raise _unreadable(self._condition)
        name = _COMPARISONS[type(op)]
        if not isinstance(left, ast.Name):
            left, right, name = right, left, _MIRRORED.get(name, name)
        column = self._column(left)
        return _mask(getattr(pc, name)(column, self._value(right, column)))

    def _contained(self, left: ast.expr, right: ast.expr) -> np.ndarray:
        if isinstance(right, ast.Name):
            column = self._column(right)
            value = self._value(left, column)
            if not isinstance(value, str):
                raise UsageError(f"--where: column '{right.id}' holds numbers; a value in it is a piece of text")
            return _mask(pc.match_substring(column, value))
        column = self._column(left)
        listed = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
        masks = [_mask(pc.equal(column, self._value(value, column))) for value in listed]
        return reduce(np.logical_or, masks, np.zeros(len(column), bool))

    def _column(self, node: ast.expr) -> pa.ChunkedArray:
        if not isinstance(node, ast.Name):
            raise _unreadable(self._condition)
        names = self._table.column_names
        if node.id not in names:
            raise UsageError(missing(f"--where: images have no column '{node.id}'", node.id, names))
        return self._table[node.id]

    def _value(self, node: ast.expr, column: pa.ChunkedArray) -> Value:
        sign = 1
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            sign, node = -1, node.operand
        if isinstance(node, ast.Name):
            raise UsageError(f"--where: a column is compared with a value; put text in quotes: '{node.id}'")
        value = node.value if isinstance(node, ast.Constant) else None
        if isinstance(value, bool) or not isinstance(value, str | int | float) or (sign < 0 and isinstance(value, str)):
            raise _unreadable(self._condition)
        if isinstance(value, str) != pa.types.is_string(column.type):
            raise UsageError(f"--where: {value!r} is compared with a column of {column.type}")
        if isinstance(value, str):
            return value
        return sign * float(str(value)) if abs(value) >= 2**63 else sign * value  # too long numbers become infinity


def _mask(values: pa.ChunkedArray) -> np.ndarray:
    return values.combine_chunks().to_numpy(zero_copy_only=False)


def _as_python(token: re.Match) -> str:
    text = token[0]
    if text[0] in "'\"":
        return repr(text[1:-1])
    return {"<>": "!=", "=": "=="}.get(text, text.lower())


def _unreadable(condition: str) -> UsageError:
    excerpt = condition if len(condition) <= 80 else f"{condition[:80]}..."
    return UsageError(
        f"--where: cannot read {excerpt!r}; expected comparisons such as split = 'test' and (width > 500 or file != 'a.jpg')"
    )
