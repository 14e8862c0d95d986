"""train: pairs and features in, a model out."""

from pathlib import Path

from vse_pipe.artifacts import captions, features, images, pairs, texts
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import RUN_FAMILIES, SCHEMES, TEXT_ENCODERS
from vse_pipe.project.sources import EVERYTHING, SourceFiles


def inputs(params: Params, run: str) -> list[Path]:
    node = params.runs[run]
    prepared = paths.prepared(node.dataset)
    shown = [paths.injected(node.dataset, node.noise) / pairs.NAME] if SCHEMES.traits(node.scheme.name).trains else []
    return [
        # Of regions it also stands for regions.parquet and phrases.parquet, which other data sets lack: the boxes are in the
        # files' names, the phrases' digest in its footer.
        prepared / images.NAME,
        prepared / captions.NAME,
        *shown,
        paths.extracted(node.dataset, node.features) / features.META,
        paths.extracted(node.dataset, node.texts) / texts.META,
    ]


def _reads(params: Params, run: str) -> list[SourceFiles]:
    """Word vectors that the text encoder starts from, and the model that is taken in place of a training."""
    node = params.runs[run]
    options = node.text.params
    vectors = (options.vectors, options.words) if TEXT_ENCODERS.traits(node.text.name).vectors else ()
    model = [] if node.model is None else [SourceFiles(Path(node.model.folder), endings=EVERYTHING)]
    return [*(SourceFiles(Path(name).expanduser()) for name in vectors if name), *model]


NODES = (
    Declaration(
        group="train",
        module="vse_pipe.train.stage",
        option="--run",
        names=lambda params: params.runs,
        out=lambda params, name: paths.trained(name),
        inputs=inputs,
        reads=_reads,
        members=lambda params, name: {
            family: getattr(params.runs[name], key).name for key, family in RUN_FAMILIES.items()
        },
        finds=tuple(RUN_FAMILIES.values()),
    ),
)
