"""The options and traits of text features: first those that several methods share."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self, cast

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from vse_pipe.core.strict import Digest, Strict
from vse_pipe.extract.backbones.options import PairParams
from vse_pipe.project.params.typed import Member
from vse_pipe.project.registry import TEXT_FEATURES, TextFeatureTraits
from vse_pipe.project.sources import EVERYTHING, SourceFiles

# Parts of a name on the hub, at most: whose, and which.
_OF_NAME = 2


class TextParams(Strict):
    """The base of every method's options."""

    def files(self) -> dict[Path, str]:
        """Files outside the project that the result depends on, each with the sha256 it must have, or nothing."""
        return {}

    def reads(self) -> list[SourceFiles]:
        """The same for DVC: files that the folders do not hold yet are seen when they come."""
        return [SourceFiles(path) for path in self.files()]

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
    """file of word vectors: .bin, .txt, .vec, each also .gz, .npz, or .npy with ``words``"""
    words: str | None = None
    """for .npy: file of the words, one a line, or Parquet with one text column"""
    sha256: Digest | None = None
    """required digest of ``vectors``"""
    lower: bool = True
    """lower-cases captions before words are looked up"""
    unit: bool = False
    """scales word vectors to unit length first"""

    @property
    def path(self) -> Path:
        """The file, ``~`` and all."""
        return Path(self.vectors).expanduser()

    @property
    def names(self) -> Path | None:
        """The file of the words, where they have one of their own."""
        return None if self.words is None else Path(self.words).expanduser()

    def files(self) -> dict[Path, str]:
        return {self.path: self.sha256 or ""} | ({} if self.names is None else {self.names: ""})


class EncoderParams(VectorParams):
    """Options of pretrained sentence encoders."""

    model: str
    """a folder, or a name on the model hub"""
    revision: str | None = None
    """commit on the hub"""
    batch_size: PositiveInt = 64
    """captions of a forward pass"""
    normalise: bool = True
    """scales vectors to unit length"""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps"""

    def files(self) -> dict[Path, str]:
        """Every file of a model folder, the folder itself where it is missing; a model of the hub is known by its name and revision."""
        folder = Path(self.model).expanduser()
        if folder.is_dir():
            return {path: "" for path in sorted(folder.rglob("*")) if path.is_file()}
        on_hub = len(folder.parts) <= _OF_NAME and not folder.is_absolute() and not self.model.startswith(".")
        return {} if on_hub else {folder: ""}

    def reads(self) -> list[SourceFiles]:
        """The folder, also where there is none: a name on the hub counts as a folder as soon as there is one of that name."""
        return [SourceFiles(Path(self.model).expanduser(), endings=EVERYTHING)]


class HglmmOptions(WordVectorParams):
    unit: bool = True
    components: PositiveInt = 30
    """of the mixture; 30 in Wang et al., CVPR 2016"""
    ica: Literal["all", "none"] | PositiveInt = "all"
    """independent components of the word vectors, ``all``: as many as their dimensions"""
    ica_iterations: PositiveInt = 200
    """most iterations of ICA"""
    max_iterations: PositiveInt = 100
    """most iterations of EM"""
    tolerance: NonNegativeFloat = 1e-3
    """EM stops at this gain of log-likelihood, in nats a word"""
    pca: PositiveInt | None = None
    """dimensions after PCA; 6000 of 18000 in the paper"""
    pca_captions: PositiveInt | None = None
    """train captions that fit the PCA; null: all"""

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
    """methods, each ``{method, weight, ...}`` with the method's own options; ``weight`` (1) is the length of its
    vectors; ``store`` and ``block`` of a part have no effect"""

    traits: ClassVar = TextFeatureTraits(mixes=True)

    def files(self) -> dict:
        files: dict = {}
        for part in self.parts:
            for path, digest in part.options.files().items():
                files[path] = digest or files.get(path, "")
        return files

    def reads(self) -> list[SourceFiles]:
        return list(dict.fromkeys(files for part in self.parts for files in part.options.reads()))

    @field_validator("parts")
    @classmethod
    def _have_one_digest_a_file(cls, parts: list[MixedPart]) -> list[MixedPart]:
        digests: dict = {}
        for path, digest in [item for part in parts for item in part.options.files().items()]:
            if digest and digests.setdefault(path, digest) != digest:
                raise ValueError(f"{path} has two different sha256 among the parts; it is one file")
        return parts

    def further(self) -> list[Member]:
        return [Member(part.method, part.options) for part in self.parts]


class OpenClipOptions(PairParams, VectorParams):
    """Features of backbone ``open_clip`` with the same model and weights are its images' side."""

    tokenizer: str | None = None
    """folder of the tokenizer's files, for architectures whose tokenizer open_clip lacks (SigLIP)"""
    batch_size: PositiveInt = 64
    """captions of a forward pass"""
    normalise: bool = True
    """scales vectors to unit length"""
    device: str = "auto"
    """auto, cpu, cuda, cuda:N or mps"""

    traits: ClassVar = TextFeatureTraits(libraries=("open_clip_torch", "torch"))

    def files(self) -> dict[Path, str]:
        folder = Path(self.tokenizer).expanduser() if self.tokenizer else None
        tokenizer = sorted(filter(Path.is_file, folder.iterdir())) if folder and folder.is_dir() else []
        files = {path: "" for path in (self.described, *tokenizer) if path is not None}
        return files | ({} if self.file is None else {self.file: self.sha256 or ""})

    def reads(self) -> list[SourceFiles]:
        tokenizer = [SourceFiles(Path(self.tokenizer).expanduser(), patterns=("*",))] if self.tokenizer else []
        return [*PairParams.reads(self), *tokenizer]


class OpenClipTokensOptions(TextParams):
    """For text encoder ``open_clip``. No weights are needed here: the encoder takes those of the run's features."""

    model: str
    """an architecture of open_clip such as ``ViT-B-32``, or a file that describes one, as of the features"""
    tokenizer: str | None = None
    """folder of the tokenizer's files, for architectures whose tokenizer open_clip lacks (SigLIP)"""

    traits: ClassVar = TextFeatureTraits(gives="tokens", libraries=("open_clip_torch",), extra="open_clip")

    def files(self) -> dict[Path, str]:
        folder = Path(self.tokenizer).expanduser() if self.tokenizer else None
        described = [Path(self.model).expanduser()] if self.model.endswith(".json") else []
        tokenizer = sorted(filter(Path.is_file, folder.iterdir())) if folder and folder.is_dir() else []
        return dict.fromkeys([*described, *tokenizer], "")

    def reads(self) -> list[SourceFiles]:
        described = [SourceFiles(Path(self.model).expanduser())] if self.model.endswith(".json") else []
        tokenizer = [SourceFiles(Path(self.tokenizer).expanduser(), patterns=("*",))] if self.tokenizer else []
        return [*described, *tokenizer]


class SentenceTokensOptions(EncoderParams):
    store: Literal["float32", "float16"] = "float16"
    """type on disk"""
    special: bool = True
    """keeps the first and the last token, which the encoder adds; a caption without others always keeps them"""

    traits: ClassVar = TextFeatureTraits(
        gives="fragments", libraries=("sentence-transformers", "torch", "transformers"), extra="sentences"
    )


class SentencesOptions(EncoderParams):
    """Those of the encoder."""

    traits: ClassVar = TextFeatureTraits(libraries=("sentence-transformers", "torch", "transformers"))


class TfidfOptions(VectorParams):
    size: PositiveInt = 3000
    """words of the dictionary, and dimensions; fewer where the train captions hold fewer. The paper: 3000 for
    Flickr30k, 5600 for COCO"""
    stop_words: bool = True
    """leaves out function words"""
    lemmatise: bool = True
    """counts "dogs" as "dog", for example"""
    normalise: bool = True
    """scales vectors to unit length"""

    traits: ClassVar = TextFeatureTraits(libraries=("nltk", "scikit-learn", "scipy", "simplemma"), terms=True)


class WordsOptions(TextParams):
    """Defaults: vsepp's."""

    min_count: PositiveInt = 4
    """rarer words become <unk>"""
    max_words: PositiveInt = 100
    """longer captions are cut"""

    traits: ClassVar = TextFeatureTraits(gives="tokens", libraries=("nltk",), terms=True)
