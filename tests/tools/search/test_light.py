"""Sentences without torch: the numbers of the run's own encoder."""

import subprocess
import sys

import numpy as np
import pytest
import torch

from tests.rules.sources import ROOT
from tests.tools.search import project as artefacts
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.tools.search import light

WORDS, DIM = 11, 7
GRU = [
    {},
    {"bidirectional": True},
    {"bidirectional": True, "layers": 2, "projection": True},
    {"layers": 2, "use_abs": True},
    {"pooling": "mean"},
    {"pooling": "max", "bidirectional": True},
]
BRANCH = [
    {},
    {"batch_norm": "first", "hidden": [6, 5]},
    {"batch_norm": "none", "use_abs": True},
    {"nonlinear": False},
]


def built(name, options):
    params = TEXT_ENCODERS.options(name)(**options)
    inputs = WORDS if name != "two_branch" else 9
    module = TEXT_ENCODERS.load(name).build(params, inputs, DIM, torch.Generator().manual_seed(3)).eval()
    rng = torch.Generator().manual_seed(4)
    for key, value in module.state_dict().items():
        if "running" in key:  # a fresh one would hide a layer that is not normalised
            value.copy_(torch.rand(value.shape, generator=rng) + 0.5)
    return params, module, {key: value.numpy() for key, value in module.state_dict().items()}


@pytest.mark.parametrize("options", GRU)
def test_a_sentence_is_read_as_by_the_gru_of_torch(options):
    params, module, weights = built("gru", {"word_dim": 5, **options})
    tokens, lengths = np.array([[3, 1, 10, 2, 0]]), np.array([4])
    with torch.inference_mode():
        wanted = module(torch.from_numpy(tokens), torch.from_numpy(lengths)).numpy()
    np.testing.assert_allclose(light.encoder("gru", params, weights)(tokens, lengths), wanted, atol=2e-7)


@pytest.mark.parametrize(
    ("name", "options"), [*(("two_branch", one) for one in BRANCH), ("residual", {"use_abs": True})]
)
def test_a_vector_is_read_as_by_the_layers_of_torch(name, options):
    params, module, weights = built(name, {"hidden": 6, **options})
    vectors = np.random.default_rng(0).standard_normal((1, 9 if name == "two_branch" else WORDS), np.float32)
    with torch.inference_mode():
        wanted = module(torch.from_numpy(vectors)).numpy()
    np.testing.assert_allclose(light.encoder(name, params, weights)(vectors), wanted, atol=3e-7)


def test_what_is_not_here_is_asked_through_torch():
    params = TEXT_ENCODERS.options("gru")(pooling="gpo")
    assert light.encoder("gru", params, {}) is None
    assert light.encoder("pooled", params, {}) is None


@pytest.mark.acceptance
@pytest.mark.parametrize("run", ["sum", "bags"])
def test_a_sentence_and_an_image_are_searched_without_torch(project, run):
    artefacts.params(project)
    code = "import sys; from pathlib import Path; from vse_pipe.project.params.load import load\n"
    code += "from vse_pipe.tools.search.engine import Engine\n"
    code += f"engine = Engine.open(load(Path('params.yaml'), []), {run!r})\n"
    code += "engine.by_text('a red disc'); engine.by_image_id(5); engine.keep(); print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": f"{ROOT}/pipeline:{ROOT}"}, capture_output=True, text=True
    )
    assert (done.stdout, done.stderr) == ("False\n", "")
