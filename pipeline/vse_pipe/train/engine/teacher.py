"""The similarities of models that are trained already, on the pairs that another is trained on."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from vse_pipe.artifacts import pairs as artifacts_pairs
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError
from vse_pipe.ranking.embedded import Embedded
from vse_pipe.train.engine.data import Pairs


@dataclass(frozen=True)
class Teacher:
    """images, captions: float16 vectors whose inner product is the weighted mean of the models' cosines, on the CPU; image_rows,
    caption_rows: those of each training pair, the image as it is shown."""

    images: Float[Tensor, "images dim"]
    captions: Float[Tensor, "captions dim"]
    image_rows: Int[Tensor, " pairs"]
    caption_rows: Int[Tensor, " pairs"]

    @classmethod
    def read(cls, folder: Path, pairs: Pairs) -> "Teacher":
        """folder: with teachers.json. Raises InputError where a pair has no vectors, IntegrityError where a model was embedded
        anew since."""
        entries = artifacts_pairs.read_teacher(folder)
        total = sum(one["weight"] for one in entries)
        shown, image_rows = np.unique(pairs.owners, return_inverse=True)
        said, caption_rows = np.unique(pairs.texts.caption_ids[pairs.places], return_inverse=True)
        sides: tuple[list[Tensor], list[Tensor]] = ([], [])
        for one in entries:
            artifacts_pairs.require_same_teacher(folder, one)
            held = Embedded.read(Path(one["folder"]), one["run"])
            for parts, side, ids in zip(sides, (held.images, held.captions), (shown, said), strict=True):
                parts.append(_unit(side, ids, held.folder) * (one["weight"] / total) ** 0.5)
        images, captions = (torch.cat(parts, dim=1).half() for parts in sides)
        return cls(images, captions, torch.from_numpy(image_rows), torch.from_numpy(caption_rows))

    def scores(self, pairs: np.ndarray, device: torch.device) -> Float[Tensor, "batch batch"]:
        """Of the images and captions of these training pairs, rows images."""
        places = torch.from_numpy(pairs)
        images = self.images[self.image_rows[places]].to(device).float()
        return images @ self.captions[self.caption_rows[places]].to(device).float().T


def _unit(side: object, ids: np.ndarray, folder: Path) -> Float[Tensor, "ids dim"]:
    """The vectors of these images or captions at unit length. Raises InputError where one has none."""
    if not isinstance(side, Side):
        raise InputError(f"{folder}: holds fragments; a teacher is compared by cosine, one vector a side")
    order = np.argsort(side.ids)
    found = order[np.searchsorted(side.ids, ids, sorter=order).clip(max=len(order) - 1)]
    missing = ids[side.ids[found] != ids]
    if len(missing):
        raise InputError(
            f"{folder}: {len(missing)} images or captions of training pairs have no vector, the first has id {missing[0]}; "
            "embed the run again, with train in embed.splits"
        )
    return functional.normalize(torch.from_numpy(side.vectors[found]), dim=1)
