"""Numbers for ids that are text, in whatever file they stand."""

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts.names import KEYS, TextIds
from vse_pipe.core import text as core_text
from vse_pipe.core.errors import InputError

_SHOWN = 3


class Book:
    """The same text is the same number in all files of one call: running numbers in the order in which they are first met.

    The first file decides whether the ids of images, or of captions, are numbers or text: text of which every value is a
    number (``text_ids.are_numbers``) counts as numbers, whatever the kind of file. The other files must agree.
    """

    def __init__(self) -> None:
        self._texts = {key: pa.array([], pa.string()) for key in KEYS}
        self._said: dict[str, tuple[bool, str]] = {}

    def numbers(self, key: str, where: str, ids: np.ndarray | pa.Array) -> np.ndarray:
        """int64, of int64 ids themselves. Raises InputError for text beside numbers, and for a text that can be no id."""
        if isinstance(ids, pa.Array) and not self.texts(key) and core_text.are_numbers(ids):
            ids = ids.cast(pa.int64()).to_numpy()
        given = isinstance(ids, pa.Array)
        told, first = self._said.setdefault(key, (given, where))
        if told != given:
            kinds = {True: "text", False: "numbers"}
            raise InputError(
                f"{where}: the {key}s are {kinds[given]}, those of {first} are {kinds[told]}; write them alike"
            )
        if not isinstance(ids, pa.Array):
            return ids
        new = pc.unique(ids.filter(pc.is_null(pc.index_in(ids, self._texts[key]))))
        if len(new):
            joined = pa.concat_arrays([self._texts[key], new])
            if wrong := core_text.objection(joined):
                raise InputError(f"{where}: {key} {wrong[1]}")
            self._texts[key] = joined
        return pc.index_in(ids, self._texts[key]).cast(pa.int64()).to_numpy()

    def texts(self, key: str) -> bool:
        """Are the ids of this key text, as far as is known?"""
        return self._said.get(key, (False, ""))[0]

    def first(self, key: str, ids: np.ndarray) -> str:
        """The first three, for a message, as the files have them."""
        if self.texts(key):
            shown: Iterable[str] = (
                core_text.shown_id(text) for text in self._texts[key].take(pa.array(ids[:_SHOWN])).to_pylist()
            )
        else:
            shown = map(str, ids[:_SHOWN])
        return ", ".join(shown) + (", ..." if len(ids) > _SHOWN else "")

    def names(self) -> TextIds | None:
        """None where all ids are numbers."""
        texts = {key: found for key, found in self._texts.items() if len(found)}
        return TextIds.of(**{key: (np.arange(len(found)), found) for key, found in texts.items()}) if texts else None
