"""Captions, pairs, features and texts of one run, joined: what training and validation gather from."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vse_pipe.artifacts import regions
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.errors import InputError
from vse_pipe.train.engine.data import Pairs
from vse_pipe.train.engine.incidence import Incidence
from vse_pipe.train.engine.pixels import PixelSource


@dataclass(frozen=True)
class TrainTable:
    """array: features; val_captions: places in ``texts`` and val_caption_images their images; val_image_rows: rows of array.

    train_rows: (pairs,) where the training pairs stand in pairs.parquet. left_out: how many training pairs and validation
    captions are not there because the image that they show, or their own, could not be read. val_texts: what each of
    val_captions reads, as a number, where texts that read alike are one text; else None.
    """

    array: np.ndarray
    texts: Texts
    train_pairs: Pairs
    val_captions: np.ndarray
    val_caption_images: np.ndarray
    val_images: np.ndarray
    val_image_rows: np.ndarray
    train_rows: np.ndarray
    left_out: tuple[int, int] = (0, 0)
    pictures: PixelSource | None = None
    val_texts: np.ndarray | None = None

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one image's features: (D,) or (R, D)."""
        return self.array.shape[1:]

    @property
    def described(self) -> str:
        """The texts in a few words, for the log."""
        texts = self.texts
        if texts.tokens is None:
            return f"text vectors of {texts.inputs} dimensions"
        if texts.array is not None:
            return f"{len(texts.array)} tokens of {texts.inputs} dimensions"
        return f"{texts.inputs} words, {texts.meta['cut']} captions cut"

    def source(self, pixels: bool) -> np.ndarray | PixelSource:
        """What ``encode.images`` reads: the stored features, or the images as they were extracted."""
        if not pixels:
            return self.array
        assert self.pictures is not None
        return self.pictures

    @classmethod
    def join(
        cls,
        caption_table: pa.Table,
        pair_table: pa.Table,
        features: Features,
        texts: Texts,
        pictures: PixelSource | None = None,
        same_text: bool = False,
        mentions: pa.Table | None = None,
    ) -> "TrainTable":
        """Raises InputError when captions and pairs differ, an image or a caption has no features, or a split is empty.

        Images that ``extract`` recorded as unreadable are left out with their captions, and with every pair that shows
        them; one that is missing for another reason is an error. same_text: captions that read alike are one text, which
        belongs to all their images. mentions: as of ``mentions_of``; those of train that no pair was drawn for belong together
        too. Only with these two is the text of caption_table read.
        """
        if not caption_table["caption_id"].equals(pair_table["caption_id"]):
            raise InputError("captions.parquet and pairs.parquet list different captions; run `vse-pipe inject` again")
        ids = caption_table["caption_id"].to_numpy()
        of_train, of_val = (pc.equal(caption_table["split"], name).to_numpy() for name in ("train", "val"))
        own, shown = (table["image_id"].to_numpy() for table in (caption_table, pair_table))
        kept = features.readable(own) & features.readable(shown)
        train, val = (np.flatnonzero(of & kept) for of in (of_train, of_val))
        left_out = int((of_train & ~kept).sum()), int((of_val & ~kept).sum())
        if len(train) < 2 or not len(val):
            without = f" that have features ({sum(left_out)} have none)" if any(left_out) else ""
            raise InputError(
                f"training needs train and val captions{without}, two and one at least; the data set has {len(train)} and {len(val)}"
            )
        shown, true = shown[train], own[val]
        told: np.ndarray | None = None
        further: tuple[np.ndarray, ...] = ()
        if same_text or mentions is not None:
            told, further = _same_text(caption_table, train, mentions)
        val_images = true[np.sort(np.unique(true, return_index=True)[1])]
        return cls(
            array=features.array,
            texts=texts,
            train_pairs=Pairs(
                features.array,
                features.rows_of(shown),
                texts,
                texts.places_of(ids[train]),
                shown,
                pictures,
                _mismatched(pair_table["mismatched"], train),
                None if told is None else Incidence.of(shown, told[train], *further),
            ),
            val_captions=texts.places_of(ids[val]),
            val_caption_images=true,
            val_images=val_images,
            val_image_rows=features.rows_of(val_images),
            train_rows=train,
            left_out=left_out,
            pictures=pictures,
            val_texts=None if told is None else told[val],
        )


def mentions_of(folder: Path) -> pa.Table | None:
    """phrases.parquet of a data set of regions, ``folder`` below data/prepare; None of any other."""
    return regions.read_phrases(folder) if (folder / regions.NAME).is_file() else None


def _same_text(
    caption_table: pa.Table, train: np.ndarray, mentions: pa.Table | None
) -> tuple[np.ndarray, tuple[np.ndarray, ...]]:
    """The number of each caption's text; and regions and texts of the mentions in train that are not the pairs ``train`` of the
    captions: what ``inject`` did to those stays."""
    words = [regions.phrase_key(caption_table)]
    if mentions is None:
        return words[0].dictionary_encode().indices.to_numpy(), ()
    mentions = mentions.filter(pc.equal(mentions["split"], "train"))
    numbers = (
        pa.concat_arrays([*words, regions.phrase_key(mentions)]).dictionary_encode().indices.to_numpy().astype(np.int64)
    )
    told, texts = np.split(numbers, [len(caption_table)])
    named = mentions["region_id"].to_numpy()
    cells = numbers.max() + 1
    drawn = caption_table["image_id"].to_numpy()[train] * cells + told[train]
    left = ~np.isin(named * cells + texts, drawn)
    return told, (named[left], texts[left])


def _mismatched(column: pa.ChunkedArray, train: np.ndarray) -> np.ndarray | None:
    """Of the train pairs; None where the truth about one of them is unknown, and where nothing was mixed up: then there
    is nothing to measure a split against."""
    found = column.take(pa.array(train))
    if found.null_count:
        return None
    mismatched = found.to_numpy(zero_copy_only=False)
    return mismatched if mismatched.any() else None
