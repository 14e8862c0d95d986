"""The options and traits of image encoders and of text encoders. Both share the options of
heads."""

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt, model_validator

from vse_pipe.core.strict import Digest, Strict, Width
from vse_pipe.project.registry import ImageEncoderTraits, TextEncoderTraits

Share = Annotated[float, Field(ge=0, lt=1)]


class Absolute(Strict):
    use_abs: bool = False
    """takes absolute values at the end (order)"""


class ImageHead(Absolute):
    no_imgnorm: bool = False
    """leaves image vectors unnormalised (VSE0)"""


class VectorHead(Absolute):
    drop: Share = 0.0
    """share of a vector's numbers left out in training; the others are scaled up. On tf-idf it
    drops words"""


class BranchShape(VectorHead):
    """A branch of a two-branch network. Defaults: the paper's for tf-idf and Fisher vectors."""

    hidden: Width = 2048
    """outputs of the first of two layers. The paper: 2048 then 512; mean word2vec: 1024 then
    256; phrases: 8192 then 4096"""
    nonlinear: bool = True
    """false: one layer and unit length (the paper's "Linear" rows), without hidden, dropout and
    batch_norm"""
    dropout: Share = 0.5
    """after each ReLU, in training"""
    batch_norm: Literal["last", "first", "none"] = "last"
    """after the last layer (paper), before each ReLU (authors' code), or none"""


class ResidualShape(VectorHead):
    """A head of one layer plus a branch of two."""

    hidden: Width = 1024
    """outputs of the branch's first layer; in VSE-infinity half of ``train.embed_size``"""
    dropout: Share = 0.1
    """of these, in training"""


class PairShape(Strict):
    """How one side of a pretrained pair trains."""

    tune: Literal["all", "lora"] = "all"
    """``all`` weights, or low-rank additions to layers (``lora``)"""
    lr: PositiveFloat = 1e-5
    """learning rate of its weights"""
    rank: PositiveInt = 8
    """for ``lora``: of the additions"""
    alpha: PositiveFloat = 16.0
    """for ``lora``: additions are multiplied by alpha / rank"""


class ImageFinetuneOptions(ImageHead):
    """The network, its weights and how images are scaled for it are those of the run's
    ``features``."""

    after: NonNegativeInt = 0
    """epochs that train the other layers alone"""
    before: Literal["features", "crops"] = "features"
    """input of those epochs: stored features, or crops"""
    lr: PositiveFloat = 2e-5
    """of the network, decaying from ``after`` on (VSE++: a tenth of the other layers' first
    rate)"""
    restart: bool = False
    """trains the other layers at ``lr`` too from ``after`` on, like the authors' second call with
    ``--resume --finetune --learning_rate 2e-5``; false: they keep ``train.lr`` and its decay"""
    trainable: bool = True
    """false keeps the network fixed; only its input varies (RC)"""
    batch_norm: Literal["frozen", "updated"] = "frozen"
    """``updated`` lets training move the running statistics, as the authors' code does"""
    crop: Literal["random", "center"] = "random"
    """RandomResizedCrop, or the crop of ``extract``"""
    flip: bool = True
    """mirrors every second image"""

    traits: ClassVar = ImageEncoderTraits(reads="pixels")


class ImageIdentityOptions(Strict):
    """No parameters."""

    traits: ClassVar = ImageEncoderTraits(learns=False)


class ImageLinearOptions(ImageHead):
    """Those of ``ImageHead``."""


class ImageOpenClipOptions(PairShape):
    """The pair is that of the run's ``features``, of backbone ``open_clip``."""

    crop: Literal["random", "center"] = "random"
    """a random crop, as open_clip trains, or the crop of ``extract``"""
    area: Annotated[float, Field(gt=0, le=1)] = 0.9
    """smallest share of the picture in a random crop; open_clip's"""
    flip: bool = False
    """mirrors every second picture"""

    traits: ClassVar = ImageEncoderTraits(reads="pixels", backbones=("open_clip",))


class ImagePooledOptions(ImageHead):
    pooling: Literal["gpo", "mean", "max"] = "gpo"
    """of the regions' vectors; ``gpo`` learns a weight for each place in the order of size"""
    drop: Share = 0.2
    """share of regions left out in training; 0.2 in the authors' code"""

    traits: ClassVar = ImageEncoderTraits(reads="regions")


class ImageRegionsOptions(Strict):
    """No parameters."""

    # It gives (B, R, embed_size): for similarities of fragments, and for no other.
    traits: ClassVar = ImageEncoderTraits(reads="regions", regions=True)


class ImageResidualOptions(ResidualShape):
    """Those of ``ResidualShape``, shared by both sides."""


class ImageTwoBranchOptions(BranchShape):
    """Those of ``BranchShape``, shared by both branches."""


class TextGruOptions(Absolute):
    """The defaults are those of the VSE++ and HAL code."""

    word_dim: Width = 300
    """size of a word vector"""
    layers: PositiveInt = 1
    """stacked GRU layers"""
    bidirectional: bool = False
    """a second GRU reads backwards; both states are averaged"""
    pooling: Literal["last", "mean", "max", "gpo"] = "last"
    """of the tokens' states: the last one, ``mean`` or ``max`` (HAL's "temporal pooling"), or
    ``gpo``, a learned mean over each dimension's sorted numbers (VSE-infinity)"""
    drop_words: Share = 0.0
    """share of a caption's words left out in training; 0.2 in VSE-infinity"""
    projection: bool = False
    """adds a linear layer after pooling (W_g of the VSE++ paper)"""
    dropout: Share = 0.0
    """of word vectors, in training; 0.4 in SGRAF"""
    init: Literal["code", "xavier"] = "code"
    """``xavier`` as in HAL's papers"""
    vectors: str | None = None
    """file of initial word vectors with ``word_dim`` dimensions: .bin, .txt, .vec, each also .gz,
    or .npz; words that it lacks start at random"""
    sha256: Digest | None = None
    """required digest of ``vectors``"""

    # It also gives a vector for each word, for similarities of fragments.
    traits: ClassVar = TextEncoderTraits(words=True, vectors=True)

    @model_validator(mode="after")
    def _of_vectors(self) -> Self:
        if self.sha256 and self.vectors is None:
            raise ValueError("sha256 needs vectors")
        return self


class TextIdentityOptions(Strict):
    """No parameters."""

    traits: ClassVar = TextEncoderTraits(reads="vectors", learns=False)


class TextOpenClipOptions(PairShape):
    """The pair is that of the run's ``features``, the captions are texts of method
    ``open_clip_tokens``."""

    traits: ClassVar = TextEncoderTraits(methods=("open_clip_tokens",), backbones=("open_clip",))


class TextPooledOptions(Absolute):
    pooling: Literal["gpo", "mean", "max"] = "gpo"
    """of the tokens' vectors, as in image encoder ``pooled``"""
    drop_words: Share = 0.2
    """share of a caption's tokens left out in training; 0.2 in VSE-infinity"""

    # It also gives a vector for each token, for similarities of fragments.
    traits: ClassVar = TextEncoderTraits(reads="fragments", words=True)


class TextResidualOptions(ResidualShape):
    """Those of ``ResidualShape``, shared by both sides."""

    traits: ClassVar = TextEncoderTraits(reads="vectors")


class TextTwoBranchOptions(BranchShape):
    """Those of ``BranchShape``, shared by both branches."""

    traits: ClassVar = TextEncoderTraits(reads="vectors")
