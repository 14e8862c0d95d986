"""Options of the similarities, and the choices of stacked cross attention."""

from typing import ClassVar, Literal

from pydantic import Field, PositiveFloat

from vse_pipe.core.strict import Strict, Width
from vse_pipe.project.registry import SimilarityTraits

# Normalisation of raw similarities over the queries; the authors' raw_feature_norm.
Norm = Literal["clipped_l2norm", "l2norm", "softmax", "no_norm", "clipped"]
# From the queries' cosines to one score.
Aggregate = Literal["mean", "lse", "max", "sum"]


class CosineOptions(Strict):
    """No parameters."""


class ImramOptions(Strict):
    """Defaults: the authors' script for Flickr30k."""

    mode: Literal["text", "image", "both"] = "text"
    """side whose fragments attend: words, regions, or both, whose scores are added"""
    steps: int = Field(default=3, ge=1, le=16)
    """of attention"""
    temperature: PositiveFloat = 9.0
    """of the attention; 11 for MS-COCO"""
    unit: bool = False
    """scales memories to unit length after each step; the authors' scripts do not"""

    traits: ClassVar = SimilarityTraits(fragments=True, learns=True)


class MaxsimOptions(Strict):
    aggregate: Literal["mean", "sum"] = "mean"
    """of the words' best regions; ``sum`` is ColBERT's and prefers long captions"""

    traits: ClassVar = SimilarityTraits(fragments=True)


class OrderOptions(Strict):
    root: bool = True
    """the length of the violation (VSE++ code); false: its square (Vendrov et al., VSE++ paper).
    Both rank alike, losses differ"""

    traits: ClassVar = SimilarityTraits(above_zero=False)


class SafOptions(Strict):
    """Defaults: the paper's."""

    sim_dim: Width = 256
    """width of an alignment vector"""
    temperature: PositiveFloat = 9.0
    """of the attention of words to regions"""
    dropout: float = Field(default=0.4, ge=0, lt=1)
    """in the self-attention of both sides"""

    traits: ClassVar = SimilarityTraits(fragments=True, learns=True)


class ScanI2tOptions(Strict):
    """Defaults: the authors' Flickr30k i-t."""

    aggregate: Aggregate = "mean"
    """of the regions' cosines"""
    temperature: PositiveFloat = 4.0
    """lambda_1"""
    lse: PositiveFloat = 5.0
    """lambda_2 of ``aggregate: lse``"""
    norm: Norm = "clipped_l2norm"
    """of a word's similarities to all regions; the authors' raw_feature_norm"""

    traits: ClassVar = SimilarityTraits(fragments=True)


class ScanT2iOptions(Strict):
    """Defaults: the authors' Flickr30k t-i."""

    aggregate: Aggregate = "mean"
    """of the words' cosines"""
    temperature: PositiveFloat = 9.0
    """lambda_1"""
    lse: PositiveFloat = 6.0
    """lambda_2 of ``aggregate: lse``"""
    norm: Norm = "clipped_l2norm"
    """of a region's similarities to all words; the authors' raw_feature_norm"""

    traits: ClassVar = SimilarityTraits(fragments=True)


class SgrOptions(Strict):
    """Defaults: the paper's."""

    sim_dim: Width = 256
    """width of an alignment vector"""
    steps: int = Field(default=3, ge=1, le=16)
    """of reasoning"""
    temperature: PositiveFloat = 9.0
    """of the attention of words to regions"""
    dropout: float = Field(default=0.4, ge=0, lt=1)
    """in the self-attention of both sides"""

    traits: ClassVar = SimilarityTraits(fragments=True, learns=True)
