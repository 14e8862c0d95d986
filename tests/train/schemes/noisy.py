"""A toy project half of whose train pairs are mixed up, for whole runs of schemes that find them."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.toy_project import PARAMS, load_params, write_prepared
from vse_pipe.artifacts import model_files
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.train import checkpoint
from vse_pipe.train.stage import train

OUTPUTS = [model_files.MODEL, model_files.CONFIG, model_files.HISTORY, str(checkpoint.STATE)]


def trained_noisy(root: Path, of: Callable[[Path], Params]) -> Path:
    """The project in ``root``, with the run ``sum`` of the parameters that ``of`` gives for it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(root)
        write_prepared(train=160)
        params = of(root)
        inject(params, "half")
        extract_texts(params, "words")
        train(params, "sum", "cpu")
    return root


def params_of(root: Path, name: str, epochs: int, **options: object) -> Params:
    """The run ``sum`` with loss and scheme of one name."""
    run = {**PARAMS["runs"]["sum"], "loss": name, "scheme": name, "noise": "half", "options": {"scheme": options}}
    section = {**PARAMS["train"], "epochs": epochs, "batch_size": 32}
    text = {"gru": {"word_dim": 6, "dropout": 0.1}}
    return load_params(root, runs={"sum": run}, train=section, text=text)


def outputs() -> dict[str, bytes]:
    return {name: (paths.trained("sum") / name).read_bytes() for name in OUTPUTS}
