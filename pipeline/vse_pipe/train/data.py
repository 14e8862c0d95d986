"""Training pairs and their batches."""

import contextlib
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import torch
from torch import Tensor

from vse_pipe.artifacts import regions
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.pairs import WEIGHT
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.devices import sent
from vse_pipe.core.errors import InputError
from vse_pipe.core.processes import Share
from vse_pipe.train.matches import Incidence, Matches

if TYPE_CHECKING:
    from vse_pipe.train.pictures import Pictures


@dataclass(frozen=True)
class Batch:
    """Inputs of one step. features: (B, ...) float32, or uint8 pixels (B, crops, S, S, 3); texts:
    arguments of the text encoder, (tokens (B, L), lengths (B,)) int64, (vectors (B, L, D) float32,
    lengths) or (vectors (B, D),) float32; owners: (B,) int64 image ids; pairs: (B,) positions.
    Lengths, owners and positions are always on the CPU.
    """

    features: Tensor
    texts: tuple[Tensor, ...]
    owners: Tensor
    pairs: np.ndarray

    def to(self, device: torch.device) -> "Batch":
        """The batch with its features and texts on the device."""
        texts = sent(self.texts[0], device), *self.texts[1:]
        return replace(self, features=sent(self.features, device), texts=texts)

    def split(self, size: int) -> list["Batch"]:
        """Consecutive parts of ``size`` pairs."""
        return [self.part(slice(start, start + size)) for start in range(0, len(self.pairs), size)]

    def part(self, pairs: slice) -> "Batch":
        """Consecutive pairs; views."""
        texts = tuple(side[pairs] for side in self.texts)
        return Batch(self.features[pairs], texts, self.owners[pairs], self.pairs[pairs])


def image_inputs(array: np.ndarray, rows: np.ndarray) -> Tensor:
    """(len(rows), ...) float32 from an array of any float type; pixels stay uint8."""
    chosen = torch.from_numpy(array[rows])
    return chosen.float() if chosen.is_floating_point() else chosen  # numpy takes ten times as long


def text_inputs(texts: Texts, places: np.ndarray) -> tuple[Tensor, ...]:
    """Arguments of the text encoder for the captions at ``places``; tokens are padded."""
    if texts.tokens is not None:
        tokens, lengths = texts.tokens.padded(places)
        return torch.from_numpy(tokens), torch.from_numpy(lengths)
    assert texts.array is not None  # of vectors
    assert texts.rows is not None
    return (image_inputs(texts.array, texts.rows[places]),)


def text_lengths(texts: Texts, places: np.ndarray) -> np.ndarray:
    """Words of each caption; 1 where texts are vectors."""
    return texts.tokens.lengths[places] if texts.tokens is not None else np.ones(len(places), np.int64)


@dataclass(frozen=True)
class Pairs:
    """Pair i is the image ``owners[i]``, feature row ``rows[i]`` of ``array``, with the caption at
    ``places[i]`` of ``texts``.

    pictures: the images, for encoders that read pixels. mismatched: the pairs that were mismatched
    on purpose, for records only; None where that is unknown or there are none. incidence: where
    texts with equal words are one text. trust: (pairs,) float32 weights above 0, None where all are
    1.
    """

    array: np.ndarray
    rows: np.ndarray
    texts: Texts
    places: np.ndarray
    owners: np.ndarray
    pictures: "Pictures | None" = None
    mismatched: np.ndarray | None = None
    incidence: Incidence | None = None
    trust: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def matches(self, pairs: np.ndarray) -> Matches | None:
        """Matches of the batch of these pairs; None where each text has one image, ``owners``."""
        return None if self.incidence is None else self.incidence.matches(pairs)

    def source(self, pixels: bool) -> "np.ndarray | Pictures":
        """The input of ``model.images``: stored features, or the images as they were extracted."""
        if not pixels:
            return self.array
        assert self.pictures is not None
        return self.pictures

    def batches(self, work: list[np.ndarray], pixels_of: int | None = None) -> Generator[Batch, None, None]:
        """One batch for each array of pairs; pixels_of: the epoch of their pixels, if any."""
        if pixels_of is None:
            yield from map(self.batch, work)
            return
        assert self.pictures is not None
        shares = [Share.even(len(pairs)) for pairs in work]  # to decode a picture takes longer than to send its pixels
        parts = [share.take(pairs) for share, pairs in zip(shares, work, strict=True)]
        with contextlib.closing(self.pictures.drawn(self.rows, parts, pixels_of)) as reading:
            for pairs, share, pixels in zip(work, shares, reading, strict=True):
                yield self.batch(pairs, share.gather(pixels))

    def batch(self, pairs: np.ndarray, pixels: Tensor | None = None) -> Batch:
        """Image i with caption i for each of these pairs. pixels: in place of the features."""
        images = image_inputs(self.array, self.rows[pairs]) if pixels is None else pixels
        texts = text_inputs(self.texts, self.places[pairs])
        return Batch(images, texts, torch.from_numpy(self.owners[pairs]), pairs)


@dataclass(frozen=True)
class TrainTable:
    """The inputs of a run, joined. train_rows: (pairs,) rows of the training pairs in
    pairs.parquet; val_pairs: the validation captions with their images; val_texts: text number of
    each. left_out: counts of training pairs and of validation captions without a readable image.
    """

    train_pairs: Pairs
    train_rows: np.ndarray
    val_pairs: Pairs
    val_texts: np.ndarray
    left_out: tuple[int, int] = (0, 0)

    @classmethod
    def join(
        cls,
        caption_table: pa.Table,
        pair_table: pa.Table,
        features: Features,
        texts: Texts,
        pictures: "Pictures | None" = None,
        mentions: pa.Table | None = None,
    ) -> "TrainTable":
        """Join captions, pairs, features and texts.

        Unreadable images are left out with their captions and pairs, and pairs of weight 0.
        mentions: phrases.parquet of a data set of regions, where captions with equal words are one
        text, which matches all their regions; train mentions without a pair are matches too. The
        text column of caption_table is needed for them only.

        Raises InputError when an image or a caption has no features, or a split is empty.
        """
        ids, split = caption_table["caption_id"].to_numpy(), caption_table["split"]
        owners, pair_owners = (table["image_id"].to_numpy() for table in (caption_table, pair_table))
        readable = features.readable(owners) & features.readable(pair_owners)
        in_train, in_val = (pc.equal(split, name).to_numpy() for name in ("train", "val"))
        all_train, val = (np.flatnonzero(chosen & readable) for chosen in (in_train, in_val))
        train, trust = _weighted(pair_table, all_train)
        if len(train) < 2 or not len(val):
            raise InputError(
                "training needs two train captions and one val caption with features; "
                f"the data set has {len(train)} and {len(val)}"
            )
        texts_of, incidence = np.arange(len(ids)), None
        if mentions is not None:
            # A dropped pair is no match.
            texts_of, further = _same_text(caption_table, all_train, mentions)
            incidence = Incidence.from_pairs(pair_owners[train], texts_of[train], *further)
        train_pairs = Pairs(
            array=features.array,
            rows=features.rows_of(pair_owners[train]),
            texts=texts,
            places=texts.places_of(ids[train]),
            owners=pair_owners[train],
            pictures=pictures,
            mismatched=_mismatched(pair_table["mismatched"], train),
            incidence=incidence,
            trust=trust,
        )
        rows, places = features.rows_of(owners[val]), texts.places_of(ids[val])
        val_pairs = Pairs(features.array, rows, texts, places, owners[val], pictures)
        left_out = int((in_train & ~readable).sum()), int((in_val & ~readable).sum())
        return cls(train_pairs, train, val_pairs, texts_of[val], left_out)


def _same_text(
    caption_table: pa.Table, train: np.ndarray, mentions: pa.Table
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """Text number of each caption, and regions and texts of the train mentions that are no pair.

    Mentions that are pairs are left out, because ``inject`` may have changed them.
    """
    mentions = mentions.filter(pc.equal(mentions["split"], "train"))
    words = pa.concat_arrays([regions.phrase_key(table) for table in (caption_table, mentions)])
    numbers = words.dictionary_encode().indices.to_numpy().astype(np.int64)
    caption_texts, texts = np.split(numbers, [len(caption_table)])
    named = mentions["region_id"].to_numpy()
    cells = numbers.max() + 1
    drawn = caption_table["image_id"].to_numpy()[train] * cells + caption_texts[train]
    is_new = ~np.isin(named * cells + texts, drawn)
    return caption_texts, (named[is_new], texts[is_new])


def _weighted(pair_table: pa.Table, train: np.ndarray) -> tuple[np.ndarray, np.ndarray | None]:
    """The pairs of ``train`` with a weight above 0, and their weights if one is below 1."""
    if WEIGHT not in pair_table.schema.names:
        return train, None
    weights = pair_table[WEIGHT].to_numpy()[train]
    train, weights = train[weights > 0], weights[weights > 0]
    return train, weights if (weights < 1).any() else None


def _mismatched(column: pa.ChunkedArray, train: np.ndarray) -> np.ndarray | None:
    """Which train pairs are mismatched; None where that is unknown or none is."""
    values = column.take(pa.array(train))
    if values.null_count:
        return None
    mismatched = values.to_numpy(zero_copy_only=False)
    return mismatched if mismatched.any() else None
