"""The options and traits of text features: first those that several methods share."""

from itertools import chain
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    PositiveInt,
    model_validator,
)

from vse_pipe.core.strict import Digest, Strict
from vse_pipe.extract.backbones.options import PairParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import TEXT_FEATURES, TextFeatureTraits
from vse_pipe.project.sources import EVERYTHING, SourceFiles


class TextParams(Strict):
    """The base of every method's options."""

    def reads(self) -> list[SourceFiles]:
        """Files outside the project that the result depends on, and folders of them."""
        return []

    def files(self) -> dict[Path, str]:
        """The files that ``reads`` names now, the first with the sha256 it must have, or nothing."""
        paths = [group.path for group in self.reads()]
        below = chain.from_iterable(sorted(path.rglob("*")) if path.is_dir() else [path] for path in paths)
        digest = getattr(self, "sha256", None) or ""
        return {path: digest if path == paths[0] else "" for path in below if not path.is_dir()}

    def further(self) -> list[Member]:
        """Other methods that take part."""
        return []


class VectorParams(TextParams):
    """Options of methods with a vector a caption."""

    store: Literal["float32", "float16"] = "float32"
    """type on disk"""
    block: PositiveInt = 256
    """captions in memory at a time"""


class WordVectorParams(VectorParams):
    """Options of methods that read word vectors."""

    vectors: str
    """file of word vectors: .bin, .txt, .vec, each also .gz, or .npz"""
    sha256: Digest | None = None
    """required digest of ``vectors``"""
    unit: bool = False
    """scales word vectors to unit length first"""

    @property
    def path(self) -> Path:
        """The file, ``~`` and all."""
        return Path(self.vectors).expanduser()

    def reads(self) -> list[SourceFiles]:
        return [SourceFiles(self.path)]


class ForwardParams(VectorParams):
    """Options of pretrained networks."""

    batch_size: PositiveInt = 64
    """captions of a forward pass"""
    normalise: bool = True
    """scales vectors to unit length"""
    device: str = "auto"
    """auto, cpu, cuda or cuda:N"""


class EncoderParams(ForwardParams):
    """Options of pretrained sentence encoders."""

    model: str
    """a folder, or a name on the model hub"""
    revision: str | None = None
    """commit on the hub"""

    def files(self) -> dict[Path, str]:
        """None for a name on the hub, whose model is known by its name and revision."""
        return super().files() if Path(self.model).expanduser().is_dir() else {}

    def reads(self) -> list[SourceFiles]:
        """The folder; a name on the hub is a folder as soon as there is one of that name."""
        return [SourceFiles(Path(self.model).expanduser(), endings=EVERYTHING)]


class HglmmOptions(WordVectorParams):
    unit: bool = True
    components: PositiveInt = 30
    """of the mixture; 30 in Wang et al., CVPR 2016"""
    ica: Literal["all", "none"] | PositiveInt = "all"
    """independent components of the word vectors, ``all``: as many as their dimensions"""
    pca: PositiveInt | None = None
    """dimensions after PCA; 6000 of 18000 in the paper"""

    traits: ClassVar = TextFeatureTraits(libraries=("nltk", "scikit-learn", "scipy"), terms=True)


class MeanVectorsOptions(WordVectorParams):
    """As the paper has it, every occurrence of a word counts alike; no weights, no stop words."""

    traits: ClassVar = TextFeatureTraits(libraries=("nltk", "scipy"), terms=True)


def _gives_vectors(method: str) -> str:
    traits = {name: TEXT_FEATURES.traits(name) for name in TEXT_FEATURES.names()}
    able = [name for name, trait in traits.items() if trait.gives == "vectors" and not trait.mixes]
    if method not in able:
        raise ValueError(f"'{method}' cannot be a part; those that can: {', '.join(able)}")
    return method


class MixedPart(Strict):
    """A method by name; further keys are its options."""

    model_config = ConfigDict(extra="allow")

    method: Annotated[str, TEXT_FEATURES.member, AfterValidator(_gives_vectors)]
    """one that gives vectors"""
    weight: Annotated[float, Field(ge=1e-6, le=1e6)] = 1.0
    """length of its vectors in the mixture"""

    @property
    def options(self) -> TextParams:
        """As the method has them."""
        return cast(TextParams, TEXT_FEATURES.read(self.method, self.model_extra or {}))

    @model_validator(mode="after")
    def _has_options(self) -> Self:
        assert self.options
        return self


class MixedOptions(VectorParams):
    parts: Annotated[list[MixedPart], Field(min_length=2)]
    """methods, each ``{method, weight, ...}`` with the method's own options; ``weight`` (1) is the
    length of its vectors; ``store`` and ``block`` of a part have no effect"""

    traits: ClassVar = TextFeatureTraits(mixes=True)

    def files(self) -> dict[Path, str]:
        # Of one file in two parts, the digest that is given counts.
        files = chain.from_iterable(part.options.files().items() for part in self.parts)
        return dict(sorted(files, key=lambda file: file[1]))

    def reads(self) -> list[SourceFiles]:
        return list(dict.fromkeys(files for part in self.parts for files in part.options.reads()))

    def further(self) -> list[Member]:
        return [Member(part.method, part.options) for part in self.parts]


class OpenClipOptions(PairParams, ForwardParams):
    """Features of backbone ``open_clip`` with the same model and weights are its images' side."""

    tokenizer: str | None = None
    """folder of the tokenizer's files, where open_clip lacks the tokenizer (SigLIP)"""

    traits: ClassVar = TextFeatureTraits(libraries=("open_clip_torch", "torch"))

    def reads(self) -> list[SourceFiles]:
        return [*PairParams.reads(self), *_tokenizer(self.tokenizer)]


def _tokenizer(folder: str | None) -> list[SourceFiles]:
    return [SourceFiles(Path(folder).expanduser(), patterns=("*",))] if folder else []


class OpenClipTokensOptions(TextParams):
    """For text encoder ``open_clip``, which takes the weights of the run's features."""

    model: str
    """an architecture of open_clip such as ``ViT-B-32``, or its file, as of the features"""
    tokenizer: str | None = None
    """folder of the tokenizer's files, where open_clip lacks the tokenizer (SigLIP)"""

    traits: ClassVar = TextFeatureTraits(gives="tokens", libraries=("open_clip_torch",))

    def reads(self) -> list[SourceFiles]:
        described = [SourceFiles(Path(self.model).expanduser())] if self.model.endswith(".json") else []
        return [*described, *_tokenizer(self.tokenizer)]


class SentenceTokensOptions(EncoderParams):
    store: Literal["float32", "float16"] = "float16"
    """type on disk"""

    traits: ClassVar = TextFeatureTraits(
        gives="fragments", libraries=("sentence-transformers", "torch", "transformers")
    )


class SentencesOptions(EncoderParams):
    """Those of the encoder."""

    traits: ClassVar = TextFeatureTraits(libraries=("sentence-transformers", "torch", "transformers"))


class TfidfOptions(VectorParams):
    size: PositiveInt = 3000
    """words of the dictionary, and dimensions; fewer where the train captions hold fewer. The
    paper: 3000 for Flickr30k, 5600 for COCO"""
    stop_words: bool = True
    """leaves out function words"""

    traits: ClassVar = TextFeatureTraits(libraries=("nltk", "scikit-learn", "scipy", "simplemma"), terms=True)


class WordsOptions(TextParams):
    """Defaults: vsepp's."""

    min_count: PositiveInt = 4
    """rarer words become <unk>"""
    max_words: PositiveInt = 100
    """longer captions are cut"""

    traits: ClassVar = TextFeatureTraits(gives="tokens", libraries=("nltk",), terms=True)
