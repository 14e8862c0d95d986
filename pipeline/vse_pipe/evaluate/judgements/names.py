"""What judgements call images and captions: their ids, or of a data set of the project the names of picture files too."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int64

from vse_pipe.artifacts import captions, images, joins
from vse_pipe.artifacts import names as text_names
from vse_pipe.artifacts.names import TextIds

NOWHERE = -1


@dataclass(frozen=True)
class Names:
    """Of one side: every name that something goes by, null for none, the most certain first, and its id; a name may occur
    again later."""

    names: pa.Array
    ids: Int64[np.ndarray, " names"]

    @classmethod
    def of_ids(cls, ids: Int64[np.ndarray, " rows"]) -> "Names":
        return cls(pa.array(ids).cast(pa.string()), ids)

    @classmethod
    def of_key(cls, key: str, ids: Int64[np.ndarray, " rows"], known: TextIds | None) -> "Names":
        """key: image_id or caption_id; known: the texts of ids that are text."""
        texts = None if known is None else known.texts(key, ids)
        return cls.of_ids(ids) if texts is None else cls(texts, ids)

    def also(self, names: Iterable[str], ids: Int64[np.ndarray, " rows"]) -> "Names":
        more = pa.array(list(names), pa.string(), from_pandas=True)
        return Names(pa.concat_arrays([self.names, more]), np.concatenate([self.ids, ids]))

    def find(self, wanted: Iterable[str]) -> Int64[np.ndarray, " wanted"]:
        """The ids of those names, NOWHERE where there is none."""
        places = pc.fill_null(pc.index_in(pa.array(wanted, pa.string()), value_set=self.names), NOWHERE).to_numpy()
        return np.where(places == NOWHERE, NOWHERE, self.ids[places])


def of_dataset(folder: Path, ranked: joins.Origin) -> tuple[Names, Names]:
    """Images and captions of data/prepare/<dataset>/. ranked: of the vectors whose ids the names stand for.

    An image goes by its id, its path and the name of its file; a caption by its id, and by the file's name with ``#0``, ``#1``, ... in the
    order of the data set, as Flickr8k and Flickr30k have it. File names that occur in several folders name nothing. Raises as
    ``joins.compared``."""
    with joins.compared(folder, ranked):
        seen, read, known = images.read(folder).to_pandas(), captions.read(folder).to_pandas(), text_names.read(folder)
    files = seen["file"].str.rpartition("/")[2]
    files = files.mask(files.duplicated(keep=False))
    pictures = Names.of_key("image_id", seen["image_id"].to_numpy(), known).also(
        seen["file"], seen["image_id"].to_numpy()
    )
    owners = read["image_id"].map(pd.Series(files.to_numpy(), index=seen["image_id"]))
    numbered = owners + "#" + read.groupby("image_id", sort=False).cumcount().astype(str)
    ids = read["caption_id"].to_numpy()
    return pictures.also(files, seen["image_id"].to_numpy()), Names.of_key("caption_id", ids, known).also(numbered, ids)
