"""Conditions on the columns of images.parquet: ``split = 'test' and width > 500``.

Comparisons of a column with a value (= == != <> < <= > >=), chains of them, ``in`` and ``not in`` a list of values or,
of text, a value in a column, joined by and, or, not and parentheses. Python reads it, nothing is ever evaluated.
"""

import ast
import re
import warnings
from functools import reduce
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.core import parsing
from vse_pipe.core.errors import UsageError
from vse_pipe.core.unknown import missing

_LONGEST = 1000
# Text in quotes as it stands, else what SQL writes otherwise than Python.
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


def rows(condition: str, table: pa.Table) -> np.ndarray:
    """bool (rows,): where the condition holds. Raises UsageError for one that cannot be read, names the columns where one of
    it does not exist, and where text is compared with numbers."""
    if len(condition) > _LONGEST:
        raise UsageError(f"--where: {len(condition):,} characters; {_LONGEST:,} are the most")
    quoted = list(_QUOTED.finditer(condition))
    if any(not condition[one.end() : other.start()].strip() for one, other in pairwise(quoted)):
        raise UsageError(
            "--where: two texts stand side by side; text that holds a ' belongs in double quotes: \"it's.jpg\""
        )
    try:
        with parsing.ALONE, warnings.catch_warnings():
            warnings.simplefilter("error")
            tree = ast.parse(_TOKENS.sub(_as_python, condition).strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError, Warning) as error:
        raise _unreadable(condition) from error
    try:
        return np.asarray(_Reader(condition, table).mask(tree))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise UsageError(
            f"--where: a value cannot be compared with its column: {' '.join(str(error).split())}"
        ) from error


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
            each = [self._compared(*one) for one in zip(sides[:-1], node.ops, sides[1:], strict=True)]
            return reduce(np.logical_and, each)
        raise _unreadable(self._condition)

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> np.ndarray:
        if isinstance(op, ast.In | ast.NotIn):
            found = self._among(left, right)
            return found if isinstance(op, ast.In) else ~found
        if type(op) not in _COMPARISONS:
            raise _unreadable(self._condition)
        name = _COMPARISONS[type(op)]
        if not isinstance(left, ast.Name):
            left, right, name = right, left, _MIRRORED.get(name, name)
        column = self._column(left)
        return _mask(getattr(pc, name)(column, self._value(right, column)))

    def _among(self, left: ast.expr, right: ast.expr) -> np.ndarray:
        if isinstance(right, ast.Name):
            column = self._column(right)
            value = self._value(left, column)
            if not isinstance(value, str):
                raise UsageError(f"--where: column '{right.id}' holds numbers; a value in it is a piece of text")
            return _mask(pc.match_substring(column, value))
        column = self._column(left)
        listed = right.elts if isinstance(right, ast.Tuple | ast.List) else [right]
        each = [_mask(pc.equal(column, self._value(one, column))) for one in listed]
        return reduce(np.logical_or, each, np.zeros(len(column), bool))

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
        return sign * float(str(value)) if abs(value) >= 2**63 else sign * value  # of the longest numbers: infinity


def _mask(found: pa.ChunkedArray) -> np.ndarray:
    return found.combine_chunks().to_numpy(zero_copy_only=False)


def _as_python(token: re.Match) -> str:
    text = token[0]
    if text[0] in "'\"":
        return repr(text[1:-1])
    return {"<>": "!=", "=": "=="}.get(text, text.lower())


def _unreadable(condition: str) -> UsageError:
    shown = condition if len(condition) <= 80 else f"{condition[:80]}..."
    return UsageError(
        f"--where: cannot read {shown!r}; expected comparisons such as split = 'test' and (width > 500 or file != 'a.jpg')"
    )
