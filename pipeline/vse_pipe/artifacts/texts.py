"""data/extract/<dataset>/<texts>/: the input of text encoders, an entry a caption, in the order of
captions.parquet.

``kind`` in meta.json is

- ``tokens``: tokens.npy (int32, all captions end to end), index.parquet, vocabulary.json;
- ``vectors``: features.npy (rows, D), float16 or float32, index.parquet, vocabulary.json, and
  state.safetensors (what the method learnt);
- ``fragments``: features.npy (tokens, D), all captions end to end, index.parquet, and an empty
  vocabulary.json.

meta.json is written last and has the digest of every other file.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int64

from vse_pipe.artifacts import digests, identity
from vse_pipe.artifacts.features import append_rows, open_array
from vse_pipe.artifacts.images import places
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, require_digests, save_tensors, sha256, whole_folder, write_json
from vse_pipe.core.tables import field
from vse_pipe.core.text import Tokens
from vse_pipe.project import paths

TOKENS, ARRAY, INDEX = "tokens.npy", "features.npy", "index.parquet"
VOCABULARY, STATE, META = "vocabulary.json", "state.safetensors", "meta.json"
SCHEMA = tables.schema(
    "texts 2",
    field("caption_id", pa.int64(), "unique; in the order of captions.parquet"),
    field("start", pa.int64(), "row of the array with its first token, or with its vector"),
    field("length", pa.int32(), "number of its tokens, <start> and <end> included; 1 for a vector"),
)
_INDEX = tables.Artefact(INDEX, SCHEMA, "caption_id")
_ARRAYS = {"tokens": TOKENS, "vectors": ARRAY, "fragments": ARRAY}
# Consecutive rows of the array, numbers of rows of the captions in them, and a part of the count:
# shortened captions, zero vectors or tokens.
Block = tuple[np.ndarray, np.ndarray, int]


@dataclass(frozen=True)
class Texts:
    """kind: ``tokens``, ``vectors`` or ``fragments``; caption_ids: int64, in the order of
    captions.parquet.

    tokens: of kind tokens, with words[id] for each id. array: memory map (rows, D); for vectors row
    ``rows[i]`` belongs to ``caption_ids[i]``, for fragments the rows are those of ``tokens``. words
    of kind vectors: the method's vocabulary or empty.
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
        """The input size of a text encoder: words, or dimensions of the vectors."""
        return len(self.words) if self.array is None else self.array.shape[1]

    @property
    def digest(self) -> str:
        """A digest of all files in the folder that meta.json covers."""
        return digest(self.meta)

    def places_of(self, caption_ids: np.ndarray) -> Int64[np.ndarray, " wanted"]:
        """The place of each caption in ``caption_ids``. Raises InputError without one."""
        rows = places(self.caption_ids, caption_ids)
        if (wrong := caption_ids[rows < 0]).size:
            raise InputError(
                f"{len(wrong)} captions have no text features, the first is caption_id {wrong[0]}; extract the texts again"
            )
        return rows


def digest(meta: dict) -> str:
    """A digest of all files that this meta.json covers."""
    return digests.of_values(meta["sha256"])


def of_vectors(rows: Float[np.ndarray, "rows dim"]) -> Block:
    """A block of vectors with its number of zero ones."""
    return rows, np.ones(len(rows), np.int32), int((~rows.any(axis=1)).sum())


def write(
    folder: Path,
    kind: str,
    caption_ids: np.ndarray,
    blocks: Iterable[Block],
    meta: dict,
    words: Sequence[str] = (),
    state: dict[str, np.ndarray] | None = None,
) -> int:
    """Replace ``folder`` from blocks of captions in the order of ``caption_ids``; one block is in
    memory at a time.

    words and state: for transforming further captions. Returns the sum of the blocks' counts.
    Raises InputError for NaN and infinite values; then ``folder`` stays."""
    lengths: list[np.ndarray] = []
    counts: list[int] = []

    def arrays() -> Iterator[np.ndarray]:
        for array, sizes, count in blocks:
            lengths.append(sizes)
            counts.append(count)
            yield array

    with whole_folder(folder) as building:
        with (building / _ARRAYS[kind]).open("wb") as file:
            shape = append_rows(file, arrays())
        rows = np.concatenate(lengths)
        index = pa.table({"caption_id": caption_ids, "start": rows.cumsum() - rows, "length": rows})
        tables.write(building / INDEX, index, SCHEMA, {})
        write_json(building / VOCABULARY, list(words))
        if state is not None:
            save_tensors(building / STATE, {name: np.ascontiguousarray(array) for name, array in state.items()})
        _seal(building, {**meta, "kind": kind, "shape": shape})
    return sum(counts)


def _seal(building: Path, meta: dict) -> None:
    """Writes meta.json and made_from.json; captions that belong to no data set have no input."""
    digests = {path.name: sha256(path) for path in sorted(building.iterdir())}
    write_json(building / META, {**meta, "sha256": digests})
    captions = {"captions": meta["captions_sha256"]} if "captions_sha256" in meta else {}
    inputs = {str(paths.prepared(meta["dataset"])): captions} if captions else {}
    identity.write(building, inputs, {"texts": digest({"sha256": digests})})


def read(folder: Path, verify: bool = True) -> Texts:
    """Open; vectors stay on disk. ``verify`` compares every file with its digest in meta.json.

    Raises InputError when a file is missing, IntegrityError on another digest.
    """
    meta = read_json(folder / META)
    kind = meta.get("kind")
    if kind not in _ARRAYS:
        raise InputError(f"{folder / META}: no text features of kind {', '.join(_ARRAYS)}; extract them again")
    if verify:
        names = [_ARRAYS[kind], INDEX, VOCABULARY, *([STATE] if kind == "vectors" else [])]
        require_digests(folder, META, meta.get("sha256"), names)
    words, index = read_json(folder / VOCABULARY, list), _INDEX.read(folder)
    ids, starts, lengths = (index[name].to_numpy().astype(np.int64) for name in SCHEMA.names)
    array = open_array(folder / _ARRAYS[kind])
    tokens = Tokens(array, starts, lengths)
    if kind == "tokens":
        return Texts(kind, ids, meta, tokens, words, None, None)
    if kind == "fragments":
        return Texts(kind, ids, meta, tokens, [], array, None)
    return Texts(kind, ids, meta, None, words, array, starts)
