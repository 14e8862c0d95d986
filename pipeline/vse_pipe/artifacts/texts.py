"""data/extract/<dataset>/<texts>/: the input of text encoders, an entry a caption, in the order of captions.parquet.

``kind`` in meta.json is

- ``tokens``: tokens.npy (int32, all captions end to end), index.parquet, vocabulary.json;
- ``vectors``: features.npy (rows, D), float16 or float32, index.parquet, vocabulary.json, and state.safetensors (what
  the method learnt);
- ``fragments``: features.npy (tokens, D), all captions end to end, index.parquet, and an empty vocabulary.json.

meta.json is written last and has the digest of every other file.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64

from vse_pipe.artifacts import identity
from vse_pipe.artifacts.features import append_rows, open_array
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.core.files import read_json, require, save_tensors, sha256, whole_folder, write_json
from vse_pipe.core.tables import field
from vse_pipe.core.text import SPECIAL, Tokens
from vse_pipe.project import paths

TOKENS, ARRAY, INDEX = "tokens.npy", "features.npy", "index.parquet"
VOCABULARY, STATE, META = "vocabulary.json", "state.safetensors", "meta.json"
FILES = (TOKENS, ARRAY, INDEX, VOCABULARY, STATE, META)
_ID = field("caption_id", pa.int64(), "unique; in the order of captions.parquet")
TOKENS_SCHEMA = tables.schema(
    "texts 1",
    _ID,
    field("start", pa.int64(), "place of its first id in tokens.npy"),
    field("length", pa.int32(), "number of ids, <start> and <end> included"),
)
VECTORS_SCHEMA = tables.schema("texts 1", _ID, field("row", pa.int64(), "row of features.npy"))
FRAGMENTS_SCHEMA = tables.schema(
    "texts 1",
    _ID,
    field("start", pa.int64(), "row of features.npy of its first token"),
    field("length", pa.int32(), "number of its tokens"),
)
_EXPECTED = {
    "tokens": {TOKENS, INDEX, VOCABULARY},
    "vectors": {ARRAY, INDEX, VOCABULARY, STATE},
    "fragments": {ARRAY, INDEX, VOCABULARY},
}


@dataclass(frozen=True)
class Texts:
    """kind: ``tokens``, ``vectors`` or ``fragments``; caption_ids: int64, in the order of captions.parquet.

    tokens: of kind tokens, with words[id] for each id. array: memory map (rows, D); for vectors row ``rows[i]`` belongs
    to ``caption_ids[i]``, for fragments the rows are those of ``tokens``. words of kind vectors: the method's
    vocabulary or empty.
    """

    kind: str
    caption_ids: Int64[np.ndarray, " captions"]
    meta: dict
    tokens: Tokens | None
    words: list[str]
    array: np.ndarray | None
    rows: Int64[np.ndarray, " captions"] | None

    @property
    def inputs(self) -> int:
        """The input size of a text encoder: words of the vocabulary, or dimensions of the vectors."""
        return len(self.words) if self.array is None else self.array.shape[1]

    @property
    def digest(self) -> str:
        """A digest of all files in the folder that meta.json covers."""
        return digest(self.meta)

    @cached_property
    def _order(self) -> Int64[np.ndarray, " captions"]:
        """Places by rising id."""
        return np.argsort(self.caption_ids)

    def places_of(self, caption_ids: np.ndarray) -> Int64[np.ndarray, " wanted"]:
        """The place of each caption in ``caption_ids``, ``tokens`` and ``rows``. Raises InputError when one is missing."""
        order = self._order
        places = order[np.searchsorted(self.caption_ids, caption_ids, sorter=order).clip(max=len(order) - 1)]
        wrong = caption_ids[self.caption_ids[places] != caption_ids]
        if len(wrong):
            raise InputError(
                f"{len(wrong)} captions have no text features, the first is caption_id {wrong[0]}; extract the texts again"
            )
        return places


def digest(meta: dict) -> str:
    """A digest of all files that this meta.json covers."""
    return hashlib.sha256(json.dumps(meta["sha256"], sort_keys=True).encode()).hexdigest()


def write_tokens(
    folder: Path, caption_ids: np.ndarray, blocks: Iterable[tuple[Tokens, int]], words: list[str], meta: dict
) -> int:
    """Replace ``folder`` from blocks of captions in the order of ``caption_ids``, each with its number of shortened
    captions; one block is in memory at a time. Returns the number of shortened captions, which is also in meta.json."""
    lengths: list[np.ndarray] = []
    cut = 0

    def counted() -> Iterable[np.ndarray]:
        nonlocal cut
        for tokens, shortened in blocks:
            lengths.append(tokens.lengths)
            cut += shortened
            yield tokens.tokens.astype(np.int32)

    with whole_folder(folder, FILES) as building:
        _write_laid_out(building, TOKENS, counted(), caption_ids, lengths, TOKENS_SCHEMA, folder)
        write_json(building / VOCABULARY, words)
        _seal(building, {**meta, "kind": "tokens", "cut": cut})
    return cut


def _write_laid_out(
    building: Path,
    name: str,
    blocks: Iterable[np.ndarray],
    caption_ids: np.ndarray,
    lengths: list[np.ndarray],
    schema: pa.Schema,
    folder: Path,
) -> list[int]:
    """Write the array ``name`` and the place of each caption in it; returns its shape. lengths: of the captions of each
    block, added when the block is taken."""
    with (building / name).open("wb") as file:
        shape = append_rows(file, blocks, None, str(folder / name))
    counts = np.concatenate(lengths)
    index = pa.table({"caption_id": caption_ids, "start": counts.cumsum() - counts, "length": counts})
    tables.write(building / INDEX, index, schema, {})
    return shape


def write_vectors(
    folder: Path,
    caption_ids: np.ndarray,
    blocks: Iterable[Float[np.ndarray, "rows dim"]],
    words: list[str],
    state: dict[str, np.ndarray],
    meta: dict,
) -> int:
    """Replace ``folder`` from blocks of rows in the order of ``caption_ids``; one block is in memory at a time.

    words and state: for transforming further captions. Returns the number of zero vectors, which is also in meta.json.
    Raises InputError for NaN and infinite values; then ``folder`` stays.
    """
    index = pa.table({"caption_id": caption_ids, "row": np.arange(len(caption_ids))})
    zeros = 0

    def counted() -> Iterable[np.ndarray]:
        nonlocal zeros
        for block in blocks:
            zeros += int((~block.any(axis=1)).sum())
            yield block

    with whole_folder(folder, FILES) as building:
        with (building / ARRAY).open("wb") as file:
            shape = append_rows(file, counted(), len(caption_ids), str(folder / ARRAY))
        tables.write(building / INDEX, index, VECTORS_SCHEMA, {})
        write_json(building / VOCABULARY, words)
        save_tensors(building / STATE, {name: np.ascontiguousarray(array) for name, array in state.items()})
        _seal(building, {**meta, "kind": "vectors", "shape": shape, "zero_rows": zeros})
    return zeros


def write_fragments(
    folder: Path, caption_ids: np.ndarray, blocks: Iterable[tuple[np.ndarray, np.ndarray]], meta: dict
) -> int:
    """Replace ``folder`` from blocks of token vectors (tokens, D) and numbers of tokens of the captions; one block is
    in memory at a time. Returns the number of tokens. Raises InputError as ``write_vectors``."""
    counts: list[np.ndarray] = []

    def counted() -> Iterable[np.ndarray]:
        for rows, lengths in blocks:
            counts.append(lengths)
            yield rows

    with whole_folder(folder, FILES) as building:
        shape = _write_laid_out(building, ARRAY, counted(), caption_ids, counts, FRAGMENTS_SCHEMA, folder)
        write_json(building / VOCABULARY, [])
        _seal(building, {**meta, "kind": "fragments", "shape": shape})
    return shape[0]


def _seal(building: Path, meta: dict) -> None:
    """Writes meta.json and made_from.json; captions that belong to no data set have no input."""
    digests = {path.name: sha256(path) for path in sorted(building.iterdir())}
    write_json(building / META, {**meta, "sha256": digests})
    captions = {"captions": meta["captions_sha256"]} if "captions_sha256" in meta else {}
    inputs = {str(paths.prepared(meta["dataset"])): captions} if captions else {}
    identity.write(building, inputs, {"texts": digest({"sha256": digests})})


def read(folder: Path, verify: bool = True) -> Texts:
    """Open; vectors stay on disk. ``verify`` compares every file with its digest in meta.json.

    Raises InputError when a file is missing or does not fit the others, IntegrityError on another digest.
    """
    meta = read_json(require(folder / META))
    kind = meta.get("kind")
    if kind not in _EXPECTED or not isinstance(meta.get("sha256"), dict):
        raise InputError(f"{folder / META}: no text features of kind {', '.join(_EXPECTED)}; extract them again")
    if kind == "tokens" and not isinstance(meta.get("cut"), int):
        raise InputError(f"{folder / META}: does not say how many captions were cut; extract them again")
    for name in sorted(_EXPECTED[kind]):
        path = require(folder / name)
        if verify and sha256(path) != meta["sha256"].get(name):
            raise IntegrityError(f"{path}: content does not match the digest in {META}; extract it again")
    words = read_json(folder / VOCABULARY, list)
    if not all(isinstance(word, str) for word in words):
        raise InputError(f"{folder / VOCABULARY}: not a list of words; extract it again")
    if kind == "fragments":
        return _fragments(folder, meta)
    return _tokens(folder, meta, words) if kind == "tokens" else _vectors(folder, meta, words)


def _tokens(folder: Path, meta: dict, words: list[str]) -> Texts:
    ids = open_array(folder / TOKENS)
    index = _index(folder / INDEX, TOKENS_SCHEMA)
    if words[:4] != SPECIAL:
        raise InputError(f"{folder / VOCABULARY}: begins with {words[:4]}, expected {SPECIAL}")
    if len(ids) and (ids.min() < 0 or ids.max() >= len(words)):
        raise InputError(f"{folder / TOKENS}: ids {ids.min()} to {ids.max()} for {len(words)} words")
    tokens = _laid_out(folder, index, ids, f"ids of {TOKENS}")
    return Texts("tokens", index["caption_id"].to_numpy(), meta, tokens, words, None, None)


def _fragments(folder: Path, meta: dict) -> Texts:
    array, index = _floats(folder), _index(folder / INDEX, FRAGMENTS_SCHEMA)
    tokens = _laid_out(folder, index, array, f"rows of {ARRAY}")
    return Texts("fragments", index["caption_id"].to_numpy(), meta, tokens, [], array, None)


def _laid_out(folder: Path, index: pa.Table, entries: np.ndarray, unit: str) -> Tokens:
    starts, lengths = index["start"].to_numpy(), index["length"].to_numpy().astype(np.int64)
    if starts.min() < 0 or lengths.min() < 1 or (starts + lengths).max() > len(entries):
        raise InputError(f"{folder / INDEX}: captions reach beyond the {len(entries)} {unit}")
    return Tokens(entries, starts, lengths)


def _floats(folder: Path) -> np.ndarray:
    array = open_array(folder / ARRAY)
    if array.ndim != 2 or array.dtype not in (np.float16, np.float32):
        raise InputError(f"{folder / ARRAY}: {array.dtype} {array.shape}, expected float16 or float32 (rows, D)")
    return array


def _vectors(folder: Path, meta: dict, words: list[str]) -> Texts:
    array, index = _floats(folder), _index(folder / INDEX, VECTORS_SCHEMA)
    rows = index["row"].to_numpy()
    if len(rows) and (rows.min() < 0 or rows.max() >= len(array)):
        raise InputError(f"{folder / INDEX}: rows up to {rows.max()}, but {ARRAY} has {len(array)}")
    return Texts("vectors", index["caption_id"].to_numpy(), meta, None, words, array, rows)


def _index(path: Path, schema: pa.Schema) -> pa.Table:
    index = tables.read(path, schema)
    # A method that learns nothing may have no captions.
    is_valid = index.num_rows or schema is VECTORS_SCHEMA
    tables.problems_or_pass(path, tables.repeated(index, "caption_id") if is_valid else ["no captions"])
    return index
