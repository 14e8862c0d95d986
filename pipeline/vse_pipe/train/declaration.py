"""train: pairs and features in, a model out."""

from collections.abc import Iterator
from pathlib import Path

from vse_pipe.artifacts import captions, features, images, model_files, pairs, texts
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import RUN_FAMILIES, TEXT_ENCODERS
from vse_pipe.project.sources import EVERYTHING, SourceFiles
from vse_pipe.project.stages import NOTE, Declaration, Node, Problem


def data(params: Params, name: str) -> list[Path]:
    """The images, captions, features and texts of a run."""
    run = params.runs[name]
    prepared = paths.prepared(run.dataset)
    return [
        # Of regions it also stands for regions.parquet and phrases.parquet, which other data sets lack: the boxes are in the
        # files' names, the phrases' digest in its footer.
        prepared / images.NAME,
        prepared / captions.NAME,
        paths.extracted(run.dataset, run.features),
        paths.extracted(run.dataset, run.texts),
    ]


def inputs(params: Params, name: str) -> list[Path]:
    """``data`` and the pairs of a run."""
    run = params.runs[name]
    return [*data(params, name), paths.injected(run.dataset, run.noise)]


def _reads(params: Params, name: str) -> list[SourceFiles]:
    """Word vectors that the text encoder starts from, and the model that is taken in place of a training."""
    run = params.runs[name]
    options = run.text.params
    vectors = (options.vectors, options.words) if TEXT_ENCODERS.traits(run.text.name).vectors else ()
    model = [] if run.model is None else [SourceFiles(Path(run.model.folder), endings=EVERYTHING)]
    return [*(SourceFiles(Path(file).expanduser()) for file in vectors if file), *model]


def _problems(params: Params, node: Node) -> Iterator[Problem]:
    if not (node.out / model_files.MODEL).is_file():
        yield Problem(NOTE, str(node.out), "training has not ended", f"`{node.command}` goes on with it")
        return
    config = model_files.read_config(node.out, node.name)
    *_, of_features, of_texts, injected = inputs(params, node.name)
    if (of_features / features.META).is_file():
        current = read_json(of_features / features.META).get("sha256")
        yield from node.digest("features", config.get("features_sha256"), current)
    if (of_texts / texts.META).is_file():
        current = texts.digest(read_json(of_texts / texts.META))
        yield from node.digest("texts", config.get("texts_sha256"), current)
    yield from node.digest("pairs", config.get("pairs_sha256"), injected / pairs.NAME)


STAGES = (
    Declaration(
        group="train",
        section="runs",
        option="--run",
        output=paths.trained,
        inputs=inputs,
        problems=_problems,
        families={family: f"{key}.name" for key, family in RUN_FAMILIES.items()},
        reads=_reads,
    ),
)
