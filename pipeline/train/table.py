"""Captions, pairs and features of one run, joined: what training and validation gather from."""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pipeline.artifacts.features import Features
from pipeline.errors import InputError
from pipeline.params.schema import TrainParams
from pipeline.train import vocabulary
from pipeline.train.data import Pairs
from pipeline.train.vocabulary import Captions


@dataclass(frozen=True)
class Table:
    """One row per caption, in the order of captions.parquet; train_pairs and the val_* arrays index into it."""

    array: np.ndarray
    captions: Captions
    words: list[str]
    cut: int
    train_pairs: Pairs
    val_captions: np.ndarray
    val_caption_images: np.ndarray
    val_images: np.ndarray
    val_image_rows: np.ndarray
    features_digest: str

    @property
    def feature_shape(self) -> tuple[int, ...]:
        """Shape of one image's features: (D,) or (R, D)."""
        return self.array.shape[1:]

    @classmethod
    def join(
        cls, caption_table: pa.Table, pair_table: pa.Table, features: Features, params: TrainParams
    ) -> "Table":
        """Raises InputError when captions and pairs differ, an image has no features, or a split is empty."""
        if not caption_table["caption_id"].equals(pair_table["caption_id"]):
            raise InputError(
                "captions.parquet and pairs.parquet list different captions; run `vse-pipe inject` again"
            )
        split = caption_table["split"].to_numpy(zero_copy_only=False)
        texts = caption_table["text"].to_pylist()
        train, val = np.flatnonzero(split == "train"), np.flatnonzero(split == "val")
        if len(train) < 2 or not len(val):
            raise InputError(
                f"training needs train and val captions, the data set has {len(train)} and {len(val)}"
            )
        # The authors build the vocabulary on train and dev captions; test words never enter it.
        words = vocabulary.build(
            (texts[place] for place in np.flatnonzero(split != "test")), params.min_count
        )
        tokens, cut = vocabulary.encode(texts, words, params.max_words)
        shown = pair_table["image_id"].to_numpy()[train]
        true = caption_table["image_id"].to_numpy()[val]
        val_images = true[np.sort(np.unique(true, return_index=True)[1])]
        return cls(
            array=features.array,
            captions=tokens,
            words=words,
            cut=cut,
            train_pairs=Pairs(features.array, features.rows_of(shown), tokens.take(train)),
            val_captions=val,
            val_caption_images=true,
            val_images=val_images,
            val_image_rows=features.rows_of(val_images),
            features_digest=features.meta["sha256"],
        )
