"""The options and traits of schemes."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits

Variant = Literal["paper", "code"]
Shape = Literal["exponential", "linear", "sin"]


class CcaOptions(Strict):
    eta: NonNegativeFloat = 1e-4
    """added to either covariance's diagonal, in units of its largest eigenvalue (the authors: 1e-4 for phrases, 5e-5
    for COCO's captions)"""

    traits: ClassVar = SchemeTraits(similarities=("cosine",))


class CrclOptions(Strict):
    warm_up: NonNegativeInt = 2
    """epochs after each start of the network in which targets stay as they are"""
    alpha: Annotated[float, Field(ge=0, le=1)] = 0.8
    """the share of a target that stays at a visit"""
    floor: Annotated[float, Field(ge=0, lt=1)] = 0.1
    """targets below become 0; 0 for none, the authors' code without ``confident``"""
    restarts: list[PositiveInt] = Field(default_factory=list)
    """epochs after each of which the network is made anew and keeps the targets alone. The authors have 8, 8 and 8,
    then 27, for Flickr30k and MS-COCO, and 4, 4 and 4, then 22, for CC152K"""

    traits: ClassVar = SchemeTraits(losses=("crcl",))


class DeclOptions(Strict):
    warm_up: NonNegativeInt = 5
    """epochs with all pairs as matched"""
    eta: NonNegativeFloat = 0.025
    """negatives that the hinge leaves out more at each step: it counts ``train.batch_size - eta * step`` of them, and
    never fewer than the loss's ``hardest``"""
    matched: Literal["mixture", "code"] = "mixture"
    """the pairs that two normal distributions on the fits give to the upper one; or, as in the authors' public
    ``code``, those whose text fits their image best of the batch"""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """of the probability to be matched, under ``mixture``"""

    traits: ClassVar = SchemeTraits(losses=("decl",))


class DistilOptions(Strict):
    weight: NonNegativeFloat = 1.0
    """of the distance from the teacher, beside 1 of the run's own loss"""
    tau: PositiveFloat = 0.05
    """temperature that the run's similarities are divided by in it"""
    teacher_tau: PositiveFloat = 0.05
    """the same of the teacher's"""

    traits: ClassVar = SchemeTraits(teacher=True)


class HardNegativesOptions(Strict):
    """Defaults: section 3.3."""

    after: NonNegativeInt = 28
    """epochs before the mining; those that follow train on what was mined, by the terms across images and texts alone"""
    most: PositiveInt = 50
    """proposals kept for each phrase, drawn at random"""
    iou: Annotated[float, Field(gt=0, le=1)] | None = 0.5
    """a proposal that overlaps a ground truth of the phrase so far is no negative; null: nothing is left out"""
    each: PositiveInt = 5
    """mined proposals that every phrase of a batch brings along (the paper does not say)"""

    traits: ClassVar = SchemeTraits(losses=("structure",), regions=True)


class L2rmOptions(Strict):
    warm_up: NonNegativeInt = 5
    """epochs on all pairs"""
    warm_up_loss: Literal["infonce_rce", "infonce", "max"] = "infonce_rce"
    """InfoNCE with reverse cross entropy as the code always has it, InfoNCE alone, or the hardest triplets"""
    temperature: PositiveFloat = 0.05
    """of both InfoNCE and the rematching"""
    mass: Annotated[float, Field(gt=0, le=1)] = 0.1
    """share of a mismatched batch that is transported"""
    regularisation: PositiveFloat = 0.01
    """of the transport"""
    tolerance: PositiveFloat = 1e-3
    """where the transport's recursion stops. The authors' 1e-3 moves more than ``mass``: 0.042 for 0.025; with 1e-6 it is 0.025"""
    cost: Literal["learned", "cosine"] = "learned"
    """learned from similarities, or the cosine distance of features"""
    cost_lr: PositiveFloat = 2e-6
    """the rate it is learned at"""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """of the probability to be matched"""
    split: Literal["losses", "truth", "matched", "both"] = "losses"
    """for ablations, after the warm-up: pairs told apart by their losses, as ``inject`` left them, all trained on as matched
    (so the warm-up is all that is left of the scheme), or all trained on and rematched too"""
    mask: bool = True
    """nothing is transported to a pair's own caption; the authors switch it off on clean data"""
    rematch: Literal["symmetric_kl", "kl", "js", "infonce", "none"] = "symmetric_kl"
    """the loss of the mismatched; ``none`` leaves them out"""
    sample_loss: Literal["mean", "hardest"] = "mean"
    """of each pair over its batch"""
    margin: NonNegativeFloat = 0.2
    """of that loss"""
    clean: Literal["lower_mean", "code"] = "lower_mean"
    """how the matched component is chosen, the code's way or the paper's"""

    # A batch after the warm-up is two: matched pairs and mismatched ones.
    traits: ClassVar = SchemeTraits(parts=2)

    @model_validator(mode="after")
    def _of_parts(self) -> Self:
        if self.split == "both" and self.rematch == "none":
            raise ValueError(
                "split 'both' rematches all pairs, and rematch 'none' leaves that out; split 'matched' is without it"
            )
        return self


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
    """neighbours looked up in the bank (250 in the authors' code; the paper gives none)"""
    variant: Literal["paper", "code"] = "paper"
    """Eq. 6 as printed, or the authors' ``code``"""
    share: Annotated[float, Field(gt=0, le=1)] = 0.05
    """of the training pairs in the bank (the paper's 5 %)"""
    exclude: Literal["caption", "image"] = "caption"
    """entries left out of the neighbourhoods, those whose caption is in the batch (the authors' code), or those of
    each pair's own image as well"""

    # Neighbours are sought among vectors: fragments of the whole bank against every batch would cost more than the epoch.
    traits: ClassVar = SchemeTraits(losses=("hal",), similarities=("cosine",))


class NcrOptions(Strict):
    warm_up: NonNegativeInt = 5
    """epochs of both networks on all pairs"""
    threshold: Annotated[float, Field(ge=0, lt=1)] = 0.5
    """of the probability to be clean"""
    soft_margin: Shape = "exponential"
    """how the margin follows the label"""
    margin: PositiveFloat = 0.2
    """that of a pair that surely fits"""
    variant: Variant = "paper"
    """the authors' ``code`` differs from the ``paper`` in two places: every label of a clean batch holds the
    prediction of the batch's first pair, and a negative image comes with the margin of its own pair"""
    noisy_from: Annotated[float, Field(ge=0, le=1)] = 0.5
    """the share of the epochs after the warm-up that train on clean pairs alone; 1 leaves the noisy ones out for
    good"""

    # What the soft margin is made for; ``margin`` stands in the place of the loss's own.
    traits: ClassVar = SchemeTraits(losses=("max",))


class NoneOptions(Strict):
    """No parameters; the run's ``loss``, ``sampler``, ``noise`` and ``train`` have no effect."""

    traits: ClassVar = SchemeTraits(trains=False)


class PlainOptions(Strict):
    """No parameters."""
