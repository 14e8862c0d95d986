"""Hard negative mining: proposals nearer to a phrase than its ground truth become its negatives
(Wang et al. 2016)."""

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import torch
from jaxtyping import Bool, Float, Int
from numpy import ndarray
from torch import Tensor

from vse_pipe.artifacts import features
from vse_pipe.artifacts import regions as artefact
from vse_pipe.core.console import say, track
from vse_pipe.core.devices import sent
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.seeds import generator
from vse_pipe.project import paths
from vse_pipe.ranking.boxes import iou
from vse_pipe.ranking.fragments import Words
from vse_pipe.train import model as train_model
from vse_pipe.train.data import Batch, Pairs, image_inputs
from vse_pipe.train.matches import Groups, Incidence
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.scored import LossTerms


class HardNegatives(Scheme):
    """Regions are mined once, before epoch ``after``. From then on lambda2 = lambda3 = 0, and every
    phrase of a batch adds regions mined for it, which are negatives of this phrase only.

    Source: Wang et al., CVPR 2016, section 3.3 ("using only the bi-directional ranking
    constraints"), five epochs after 28. The paper does not give their rate; here the schedule
    continues. The last epoch is the model (``keep: last``). Under ``best`` only epochs from
    ``after`` on can be it: validation ranks true regions only and does not measure the effect of
    mined regions. Raises UsageError for batches that are encoded in chunks or from pixels, which
    cannot contain mined regions, and for patience where the last epoch is kept. Raises as
    ``read_boxes``.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.keeps_last = self.params.keep == "last"
        if setting.train.chunk or setting.pairs.pictures is not None:
            raise UsageError(
                "scheme 'hard_negatives' mines among stored features for whole batches: set "
                "train.chunk 0, and image two_branch or linear"
            )
        if self.keeps_last and setting.train.patience is not None:
            raise UsageError("scheme 'hard_negatives' keeps the last epoch: set train.patience null, or keep best")
        self.regions = read_boxes(setting)
        self.mined = Mined(np.empty(0, np.int32), np.empty(0, np.int64))
        self._mined_for = torch.empty(0, dtype=torch.int64)
        self.begins_after(self.params.after, selects=True)
        self.decays_from = 0

    def start(self, epoch: int) -> None:
        if epoch != self.params.after:
            return
        setting, params = self.setting, self.params
        rng = generator(setting.run.seed, "mining")
        limits = params.most, params.iou
        self.mined = mine(setting.model, setting.pairs, self.regions, *limits, setting.device, rng)
        say(f"hard negatives: {len(self.mined.rows)} regions for {len(np.unique(self.mined.texts))} phrases")

    def prepare(self, batch: Batch) -> Batch:
        if self.epoch < self.params.after:
            return batch
        pairs = self.setting.pairs
        texts, first = np.unique(self.regions.incidence.texts[batch.pairs], return_index=True)
        rng = generator(self.setting.run.seed, "mined", self.epoch, self.step)
        drawn = self.mined.draw(texts, self.params.each, rng)
        self._mined_for = torch.from_numpy(first[np.searchsorted(texts, self.mined.texts[drawn])])
        mined = sent(image_inputs(pairs.array, self.mined.rows[drawn]), batch.features.device)
        return replace(batch, features=torch.cat([batch.features, mined]))

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        if self.epoch < self.params.after:
            return super().terms(images, texts, batch)
        batch_images, mined = images.tensor_split([len(batch.pairs)])
        scored = self.scored(batch_images, texts, batch)
        return self.loss(replace(scored, mined=mined, mined_for=self._mined_for), lambda2=0.0, lambda3=0.0)

    def state(self) -> dict[str, Tensor]:
        return {key: torch.from_numpy(value) for key, value in vars(self.mined).items()}

    def load_state(self, state: dict[str, Tensor]) -> None:
        self.mined = Mined(state["texts"].numpy(), state["rows"].numpy())


@dataclass(frozen=True)
class TrainRegions:
    """Boxes behind the training pairs. boxes, pictures: of each region that has a phrase, by image
    number of ``incidence``; rows, proposals, proposed_in: feature row, box and picture of each
    proposal in the pairs' pictures, in the order of pictures. Boxes are x1, y1, x2, y2."""

    incidence: Incidence
    boxes: Float[ndarray, "regions 4"]
    pictures: Int[ndarray, " regions"]
    rows: Int[ndarray, " proposals"]
    proposals: Float[ndarray, "proposals 4"]
    proposed_in: Int[ndarray, " proposals"]


@dataclass(frozen=True)
class Mined:
    """Mined regions. texts: number of the text of each negative, rising; rows: feature rows."""

    texts: Int[ndarray, " mined"]
    rows: Int[ndarray, " mined"]

    def draw(self, texts: Int[ndarray, " texts"], limit: int, rng: np.random.Generator) -> Int[ndarray, " drawn"]:
        """Positions of up to ``limit`` random mined regions of each text, in the order of
        ``texts``."""
        count = int(max(texts.max(initial=-1), self.texts.max(initial=-1))) + 1
        starts = np.searchsorted(self.texts, np.arange(count + 1))
        return Groups(self.texts, np.arange(len(self.texts)), starts).draw(texts, limit, rng)


def mine(
    model: DualEncoder,
    pairs: Pairs,
    regions: TrainRegions,
    most: int,
    limit: float,
    device: torch.device,
    rng: np.random.Generator,
) -> Mined:
    """Up to ``most`` random proposals of each text that are nearer to it than its nearest ground
    truth of the same picture.

    limit: proposals of this IoU or more with a ground truth of the text
    are left out.

    Source: Wang et al., CVPR 2016, section 3.3. The paper does not say which pictures count, nor
    the meaning of "closer than the ground truth boxes" for several boxes.
    """
    shown_in = regions.pictures[regions.incidence.images]
    pairs_of, proposals_of = (pd.Series(side).groupby(side).indices for side in (shown_in, regions.proposed_in))
    mined = [
        _of_picture(model, pairs, regions, pairs_of[picture], proposals, limit, device)
        for picture, proposals in track(proposals_of.items(), len(proposals_of), "hard negatives")
    ]
    texts, rows = (np.concatenate(side) for side in zip(*mined, strict=True))
    numbers, groups = np.unique(texts), Groups.by_id(texts)
    drawn = groups.draw(np.arange(len(numbers)), most, rng)
    return Mined(texts[drawn], rows[drawn])


def _of_picture(
    model: DualEncoder,
    pairs: Pairs,
    regions: TrainRegions,
    positions: Int[ndarray, " pairs"],
    proposed: Int[ndarray, " proposals"],
    limit: float,
    device: torch.device,
) -> tuple[Int[ndarray, " mined"], Int[ndarray, " mined"]]:
    """Text numbers int32 and feature rows of the mined regions of a picture with these pairs and
    proposals."""
    incidence = regions.incidence
    texts, first = np.unique(incidence.texts[positions], return_index=True)
    numbers, first_pairs = np.unique(incidence.images[positions], return_index=True)
    rows = np.concatenate([regions.rows[proposed], pairs.rows[positions[first_pairs]]])
    images = train_model.images(model, pairs.array, rows, device)
    captions = train_model.captions(model, pairs.texts, pairs.places[positions[first]], device)
    assert isinstance(captions, Tensor)
    with train_model.evaluating(model):
        scores = model.score(images.to(device), captions.to(device)).cpu()
    proposals, truths = scores.split([len(proposed), len(numbers)])
    nearest = truths.masked_fill(~_matching(incidence, numbers, texts), -torch.inf).amax(dim=0)
    # All ground truths count, but only those in pairs have features.
    named = np.flatnonzero(regions.pictures == regions.proposed_in[proposed[0]])
    boxes = torch.from_numpy(regions.proposals[proposed]), torch.from_numpy(regions.boxes[named])
    overlaps = (iou(*boxes) >= limit).float() @ _matching(incidence, named, texts).float()
    place, mention = ((proposals > nearest) & (overlaps == 0)).nonzero(as_tuple=True)
    return texts[mention.numpy()].astype(np.int32), regions.rows[proposed][place.numpy()]


def _matching(incidence: Incidence, images: ndarray, texts: ndarray) -> Bool[Tensor, "images texts"]:
    return torch.from_numpy(incidence.by_image[images][:, texts].toarray() > 0)


def read_boxes(setting: Setting) -> TrainRegions:
    """The boxes of the pairs. Raises InputError for a data set without boxes, and as
    ``joined_boxes``."""
    folder = paths.prepared(setting.run.dataset)
    table, mentions = artefact.read(folder), artefact.read_phrases(folder)
    stored = features.read(paths.extracted(setting.run.dataset, setting.run.features), verify=False)
    assert setting.pairs.incidence is not None  # as in every data set of regions
    return joined_boxes(table, mentions, stored, setting.pairs.incidence)


def joined_boxes(table: pa.Table, mentions: pa.Table, stored: features.Features, incidence: Incidence) -> TrainRegions:
    """The boxes of the pairs of ``incidence``; proposals without features are left out. table:
    regions.parquet; mentions: phrases.parquet; stored: features of the regions. Raises InputError
    where no picture of a pair has a proposal."""
    ids, pictures = (table[column].to_numpy() for column in ("image_id", "source_id"))
    # A region without a pair has boxes in ``mentions`` only.
    all_ids = np.concatenate([ids, mentions["region_id"].to_numpy()])
    numbers, places = np.unique(all_ids, return_index=True)
    places = places[np.searchsorted(numbers, incidence.ids)]
    corners = np.concatenate([artefact.boxes(table), artefact.boxes(mentions)])[places]
    where = np.concatenate([pictures, mentions["image_id"].to_numpy()])[places]
    is_proposed = pc.fill_null(table["proposed"], False).to_numpy(zero_copy_only=False)
    usable = is_proposed & stored.readable(ids) & np.isin(pictures, where[incidence.images])
    proposed = np.flatnonzero(usable)
    if not len(proposed):
        raise InputError(
            "no picture of the training pairs has a proposal; add train to the splits that the data "
            "set proposes boxes for"
        )
    proposed = proposed[np.argsort(pictures[proposed], kind="stable")]
    rows, proposals = stored.rows_of(ids[proposed]), artefact.boxes(table)[proposed]
    return TrainRegions(incidence, corners, where, rows, proposals, pictures[proposed])


scheme = HardNegatives
