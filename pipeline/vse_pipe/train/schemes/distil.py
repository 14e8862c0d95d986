"""Distillation: the run's loss plus the distance of similarities from those of trained models."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from vse_pipe.artifacts import images
from vse_pipe.artifacts import pairs as artefact
from vse_pipe.core.devices import sent
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.ranking.fragments import Words
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.train.data import Batch, Pairs
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.scored import LossTerms, Scored, log_chances


class Distil(Scheme):
    """The distance of each pair is added to its loss, so it has the reduction of the loss. Raises
    as ``Teacher.read``."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.teacher = Teacher.read(paths.injected(setting.run.dataset, setting.run.noise), setting.pairs)

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        scored, params = self.scored(images, texts, batch), self.params
        taught = self.teacher.scores(batch.pairs, scored.scores.device).to(scored.scores)
        distance = divergence(scored, replace(scored, scores=taught), params.tau, params.teacher_tau)
        loss = self.loss(scored)
        return LossTerms(loss.per_pair + params.weight * distance, loss.reduction)


def divergence(batch: Scored, teacher: Scored, tau: float, teacher_tau: float) -> Float[Tensor, " pairs"]:
    """``sum_t T_it (log T_it - log p_it) + sum_j U_ij (log U_ij - log q_ij)`` for pair i.

    p and q are the softmaxes of ``S / tau`` over the texts of image i and over the images of text
    i; T and U are those of the teacher. Cells that are neither negative nor diagonal are left out.

    Source: Wu et al., TinyCLIP: CLIP distillation via affinity mimicking and weight inheritance,
    ICCV 2023; their cross entropy also has the teacher's entropy, which has no gradient. The
    temperature is that of Hinton et al., 2015.
    """
    distance = torch.zeros_like(batch.scores[0])
    sides = log_chances(batch, tau), log_chances(teacher, teacher_tau)
    for student, target in zip(*sides, strict=True):
        gap = (target - student).masked_fill(target.isinf(), 0)
        distance = distance + (target.exp() * gap).sum(dim=1)
    return distance


@dataclass(frozen=True)
class Teacher:
    """Vectors of trained models. images, captions: float16, on the CPU; their inner product is the
    weighted mean of the models' cosines. image_rows, caption_rows: rows of each training pair."""

    images: Float[Tensor, "images dim"]
    captions: Float[Tensor, "captions dim"]
    image_rows: Int[Tensor, " pairs"]
    caption_rows: Int[Tensor, " pairs"]

    @classmethod
    def read(cls, folder: Path, pairs: Pairs) -> "Teacher":
        """folder: contains teachers.json. Raises InputError where a pair has no vectors."""
        entries = read_json(folder / artefact.TEACHER, list)
        total = sum(entry["weight"] for entry in entries)
        image_ids, image_rows = np.unique(pairs.owners, return_inverse=True)
        caption_ids, caption_rows = np.unique(pairs.texts.caption_ids[pairs.places], return_inverse=True)
        sides: tuple[list[Tensor], list[Tensor]] = ([], [])
        for entry in entries:
            embedded = Vectors.of_folder(Path(entry["folder"]))
            for parts, side, ids in zip(
                sides, (embedded.images, embedded.captions), (image_ids, caption_ids), strict=True
            ):
                parts.append(_unit(side, ids, embedded.folder) * (entry["weight"] / total) ** 0.5)
        left, right = (torch.cat(parts, dim=1).half() for parts in sides)
        return cls(left, right, torch.from_numpy(image_rows), torch.from_numpy(caption_rows))

    def scores(self, pairs: np.ndarray, device: torch.device) -> Float[Tensor, "batch batch"]:
        """Scores of the images (rows) and captions (columns) of these training pairs."""
        places = torch.from_numpy(pairs)
        rows, columns = self.images[self.image_rows[places]], self.captions[self.caption_rows[places]]
        return sent(rows, device).float() @ sent(columns, device).float().T


def _unit(side: Any, ids: np.ndarray, folder: Path) -> Float[Tensor, "ids dim"]:
    """Unit vectors of these images or captions. Raises InputError where a vector is missing."""
    rows = images.places(side.ids, ids)
    missing = ids[rows < 0]
    if len(missing):
        raise InputError(
            f"{folder}: {len(missing)} images or captions of training pairs have no vector, the first has id {missing[0]}; "
            "embed the run again, with train in embed.splits"
        )
    return functional.normalize(torch.from_numpy(side.vectors[rows]), dim=1)


scheme = Distil
