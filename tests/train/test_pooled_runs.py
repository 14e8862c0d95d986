"""Runs that pool regions and words into one vector each: the same bytes after a kill, and all that reads vectors."""

import shutil

import numpy as np
import pytest
import torch

from tests.fragment_project import DIM, REGIONS, run_of, write_fragment_project
from tests.train.killed import killed_after
from vse_pipe.artifacts import embeddings, model_files
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.tools.export import export_run
from vse_pipe.train.restore import load
from vse_pipe.train.stage import train

pytestmark = pytest.mark.acceptance


def test_a_run_goes_on_bit_equal_and_its_vectors_are_read_like_any(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    options = {"text": {"pooling": "gpo", "drop_words": 0.2}}
    run = run_of("cosine", image="pooled", options=options, train={"epochs": 3, "chunk": 3})
    params = write_fragment_project(tmp_path, mine=run)
    train(params, "mine", "cpu")
    digest = model_files.read(paths.trained("mine")).digest
    shutil.rmtree(paths.trained("mine"))
    killed_after(2, params, "mine")
    train(params, "mine", "cpu")
    assert model_files.read(paths.trained("mine")).digest == digest
    model, files = load(paths.trained("mine"))
    assert {name.partition(".gpo.")[0] for name in files.weights if ".gpo." in name} == {"img", "txt"}

    embed(params, "mine", "cpu")
    images = embeddings.read(paths.embedded("mine") / embeddings.IMAGES)
    np.testing.assert_allclose(np.linalg.norm(images.vectors, axis=1), 1.0, rtol=1e-5)
    array = torch.from_numpy(np.load(paths.extracted("toy", "plain") / "features.npy")).float()
    assert array.shape[1:] == (REGIONS, DIM)
    with torch.inference_mode():
        torch.testing.assert_close(torch.tensor(images.vectors[:1]), model.img(array[:1]), rtol=1e-5, atol=1e-6)
    assert set(evaluate(params, "mine", ["nns", "csls"], "cpu")) == {"nns", "csls"}
    export_run(params, "mine", "csls", "npy", "text_to_image", tmp_path / "out")
    assert (tmp_path / "out" / "manifest.json").is_file()
