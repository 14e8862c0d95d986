"""The options and traits of schemes."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import SchemeTraits

Variant = Literal["paper", "code"]
Share = Annotated[float, Field(ge=0, lt=1)]


class Divided(Strict):
    """Options of schemes that divide the pairs after a warm-up."""

    warm_up: NonNegativeInt = 5
    """epochs on all pairs"""
    select: Literal["all", "after_warm_up"] = "all"
    """epochs of which the best on val is kept; ``all`` is the authors' code"""
    threshold: Share = 0.5
    """of the probability to be matched"""
    margin: NonNegativeFloat = 0.2
    """of the triplet loss of a pair; of a pair that surely fits"""


class Peers(Divided):
    """Options of two networks that teach each other."""

    # The soft margin is made for these; ``margin`` replaces the margin of the loss.
    traits: ClassVar = SchemeTraits(losses=("max",))


class BicroOptions(Peers):
    warm_up: NonNegativeInt = 10
    """epochs of both networks on all pairs"""
    share: Annotated[float, Field(gt=0, le=1)] = 0.3
    """of a batch, the pairs of smallest loss in the warm-up; 0.3 in the authors' code"""
    floor: Share = 0.0
    """labels of at most this become 0; 0.5 in the authors' scripts"""
    variant: Variant = "paper"
    """labels and margins of the ``paper``, or of the authors' ``code`` (training.md)"""


class CcaOptions(Strict):
    eta: NonNegativeFloat = 1e-4
    """added to the diagonals of the covariances, in units of their largest eigenvalue; the
    authors: 1e-4 for phrases, 5e-5 for COCO"""

    traits: ClassVar = SchemeTraits(similarities=("cosine",))


class CrclOptions(Strict):
    warm_up: NonNegativeInt = 2
    """epochs after each start of the network that leave targets as they are"""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.8
    """share of a target that a visit keeps"""
    floor: Share = 0.1
    """smaller targets become 0; 0: none do, the authors' code without ``confident``"""
    restarts: list[PositiveInt] = Field(default_factory=list)
    """epochs of each stage; after each the network starts anew and keeps the targets. The
    authors: 8, 8, 8, then 27 epochs for Flickr30k and MS-COCO, 4, 4, 4, then 22 for CC152K"""

    traits: ClassVar = SchemeTraits(losses=("crcl",))


class DeclOptions(Strict):
    warm_up: NonNegativeInt = 5
    """epochs with all pairs as matched"""
    eta: NonNegativeFloat = 0.025
    """the hinge counts ``train.batch_size - eta * step`` negatives, at least the loss's
    ``hardest``"""
    threshold: Share = 0.5
    """of the probability to be matched"""

    traits: ClassVar = SchemeTraits(losses=("decl",))


class DistilOptions(Strict):
    weight: NonNegativeFloat = 1.0
    """of the distance from the teacher; the run's own loss has 1"""
    tau: PositiveFloat = 0.05
    """temperature of the run's similarities"""
    teacher_tau: PositiveFloat = 0.05
    """temperature of the teacher's similarities"""

    traits: ClassVar = SchemeTraits(teacher=True)


class HardNegativesOptions(Strict):
    """Defaults: section 3.3."""

    after: NonNegativeInt = 28
    """epochs before the mining; later ones use only the terms across images and texts"""
    most: PositiveInt = 50
    """proposals kept for each phrase, drawn at random"""
    iou: Annotated[float, Field(gt=0, le=1)] = 0.5
    """proposals that overlap a true box of the phrase this much are no negatives"""
    each: PositiveInt = 5
    """mined proposals that a phrase brings into a batch; the paper does not say"""
    keep: Literal["last", "best"] = "last"
    """epoch that is the model: the ``last``, as in the paper, or the ``best`` on val since the
    mining, where val ranks true regions only and does not see the proposals"""

    traits: ClassVar = SchemeTraits(losses=("structure",), regions=True)


class L2rmOptions(Divided):
    warm_up_loss: Literal["infonce_rce", "infonce", "max"] = "infonce_rce"
    """``infonce_rce`` is the authors' code"""
    temperature: PositiveFloat = 0.05
    """of InfoNCE and of the rematching"""
    mass: Annotated[float, Field(gt=0, le=1)] = 0.1
    """share of a mismatched batch that is transported"""
    regularisation: PositiveFloat = 0.01
    """of the transport"""
    tolerance: PositiveFloat = 1e-3
    """at which the transport's recursion stops. The authors' 1e-3 moves more than ``mass`` (0.042
    instead of 0.025); 1e-6 moves 0.025"""
    cost: Literal["learned", "cosine"] = "learned"
    """learned from similarities, or the cosine distance of features"""
    cost_lr: PositiveFloat = 2e-6
    """learning rate of the cost"""
    split: Literal["losses", "truth", "matched", "both"] = "losses"
    """ablations after the warm-up: ``losses`` splits by losses, ``truth`` by what ``inject`` did,
    ``matched`` trains on all as matched, ``both`` also rematches all"""
    mask: bool = True
    """transports nothing to a pair's own caption; false in the authors' runs on clean data"""
    rematch: Literal["symmetric_kl", "kl", "js", "infonce", "none"] = "symmetric_kl"
    """loss of mismatched pairs; ``none`` leaves them out"""
    sample_loss: Literal["mean", "hardest"] = "mean"
    """of a pair over its batch"""

    # A batch after the warm-up is two: matched pairs and mismatched ones.
    traits: ClassVar = SchemeTraits(parts=2)

    @model_validator(mode="after")
    def _of_parts(self) -> Self:
        if self.split == "both" and self.rematch == "none":
            raise ValueError("split 'both' rematches all pairs, and rematch 'none' leaves that out")
        return self


class MatryoshkaOptions(Strict):
    dims: list[PositiveInt] = Field(default_factory=lambda: [64, 128, 256], min_length=1)
    """widths at which the loss counts; ``train.embed_size`` always does"""

    # The first dimensions of a unit vector, scaled to length 1, are compared by cosine.
    traits: ClassVar = SchemeTraits(similarities=("cosine",))


class MemoryBankOptions(Strict):
    """Defaults: Table 3 of the paper, row 3.4."""

    alpha: PositiveFloat = 40.0
    """inverse temperature of the positives' weight"""
    beta: PositiveFloat = 40.0
    """inverse temperature of the negatives' weight"""
    eps1: float = 0.2
    """margin of positive similarities"""
    eps2: float = 0.1
    """margin of bank similarities"""
    k: PositiveInt = 250
    """neighbours in the bank; 250 in the authors' code, the paper gives none"""
    variant: Literal["paper", "code"] = "paper"
    """Eq. 6 as printed, or the authors' ``code``"""
    begins: NonNegativeInt = 1
    """first epoch with a bank, counted from 0; 1 in the authors' code, 0 in the paper"""
    share: Annotated[float, Field(gt=0, le=1)] = 0.05
    """of the training pairs in the bank; 5 % in the paper"""

    # Neighbours are sought among vectors: fragments of the whole bank against every batch would
    # cost more than the epoch.
    traits: ClassVar = SchemeTraits(losses=("hal",), similarities=("cosine",))


class NcrOptions(Peers):
    """Those of ``Peers``."""


class RidgeOptions(Strict):
    strengths: list[PositiveFloat] = Field(default_factory=lambda: [0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0], min_length=1)
    """ridges in units of the mean variance of a dimension, one an epoch; the best on val is kept"""

    traits: ClassVar = SchemeTraits(similarities=("cosine",))


class ZeroShotOptions(Strict):
    """No parameters; the run's ``loss``, ``sampler``, ``noise`` and ``train`` have no effect."""

    traits: ClassVar = SchemeTraits(trains=False)


class PlainOptions(Strict):
    """No parameters."""

    traits: ClassVar = SchemeTraits(weighs=True)
