"""index: a folder of pictures, prepared, seen by a network and embedded by a run, so that it can be searched."""

from pathlib import Path

from vse_pipe.artifacts import embeddings
from vse_pipe.core import parquet
from vse_pipe.core.console import say
from vse_pipe.embed import stage as embedding
from vse_pipe.embed import transfer
from vse_pipe.extract import stage as extraction
from vse_pipe.prepare import stage as preparation
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params


def index(params: Params, names: list[str], device: str = "auto") -> list[Path]:
    """Make, or bring up to date, everything that searches of these runs and transfers read; of what an earlier call has done
    only what is new is computed. Returns the folders. Raises as the stages do; what is finished then stays."""
    for dataset in dict.fromkeys(map(params.dataset, names)):
        preparation.prepare(params, dataset, device)
    for features in dict.fromkeys(_features(params, name) for name in names):
        extraction.extract(params, features, device)
    for name in names:
        if name in params.runs:
            _untrained(params, name, device)
        (transfer if name in params.transfers else embedding).embed(params, name, device)
        count = parquet.rows(paths.embedded(name) / embeddings.IMAGES)
        say(f'index {name}: {count} pictures; `vse-pipe search "..." --run {name}` searches them')
    return [paths.embedded(name) for name in names]


def _untrained(params: Params, name: str, device: str) -> None:
    """The model of a run on the pictures themselves, of which nothing can be trained."""
    from vse_pipe.extract.text_stage import extract_texts
    from vse_pipe.inject.stage import inject
    from vse_pipe.train.stage import train

    node = params.runs[name]
    extract_texts(params, node.texts)
    inject(params, node.noise)
    train(params, name, device)


def _features(params: Params, name: str) -> str:
    found = params.transfers[name].features if name in params.transfers else params.runs[name].features
    assert found is not None  # of params that are complete
    return found
