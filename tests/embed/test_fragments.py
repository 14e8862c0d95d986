import json
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
import torch

from tests.fragment_project import run_of, write_fragment_project
from tests.toy_project import kept
from vse_pipe.artifacts import embeddings, evaluation
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.embed import stage as embed_fragments
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.ensemble import Ensemble
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.train.stage import train
from vse_pipe.train.trained import TrainedNetwork

SIMILARITIES = ("scan_t2i", "scan_i2t", "sgr", "saf")
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch, chdir(tmp_path_factory.mktemp("fragments")):
        patch.setattr(embed_fragments, "_BLOCK", 5)
        params = write_fragment_project(Path(), **{name: run_of(name, train={"epochs": 1}) for name in SIMILARITIES})
        for name in SIMILARITIES:
            train(params, name, "cpu")
            embed(params, name, "cpu")
        yield replace(params, evaluate=params.evaluate.model_copy(update={"resamples": 10}))


def _side(name: str, file: str = embeddings.IMAGES) -> embeddings.FragmentSide:
    return embeddings.read(paths.embedded(name) / file)


@pytest.mark.parametrize("name", SIMILARITIES)
def test_what_lies_on_disk_scores_as_the_model_does(project, name):
    embedded = Vectors.of_folder(paths.embedded(name))
    split = embedded.split("test", CPU)
    model = TrainedNetwork.load(paths.trained(name)).model
    with torch.inference_mode():
        expected = model.score(split.images, split.captions)
    found = embedded.similarity()(split.images, split.captions)
    torch.testing.assert_close(found, expected)
    assert found.shape == (len(split.image_ids), len(split.caption_ids))


def test_val_and_test_are_embedded_and_their_rows_follow_the_data_set(project):
    images, texts = _side("sgr"), _side("sgr", embeddings.CAPTIONS)
    assert sorted(set(images.splits)) == sorted(set(texts.splits)) == ["test", "val"]
    assert images.about["regions"] == "5"
    assert json.loads(images.about["normalised"]) is True
    block = texts.split("test")
    assert (np.diff(block.ids) > 0).all()
    np.testing.assert_allclose(np.linalg.norm(block.vectors, axis=1), 1.0, rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "names"),
    [
        ("sgr", ["nns", "is", "csls", "dual_is", "gm", "rgm", "is+rgm"]),
        *[("scan_t2i", ["nns", "csls"]), ("scan_i2t", ["nns", "rgm"]), ("saf", ["gm", "dual_is"])],
    ],
)
def test_every_kind_of_criterion_ranks_fragments(project, name, names):
    found = evaluate(project, name, names, "cpu")
    assert list(found) == names
    for criterion, one in found.items():
        assert one["similarity"] == name
        ranks = evaluation.read_ranks(paths.evaluated(name, criterion))
        assert (ranks["rank"].null_count > 0) == ("gm" in criterion)
        for direction in ("image_to_text", "text_to_image"):
            rows = ranks.filter(pc.equal(ranks["direction"], direction))
            assert one[direction]["r@1"] == pytest.approx(100 * pc.mean(rows["hit_1"]).as_py(), abs=1e-4)


def test_an_ensemble_is_the_mean_of_its_runs_scores(project):
    params = replace(project, ensembles={"sgraf": EnsembleNode(runs=["sgr", "saf"])})
    assert evaluate(params, "sgraf", ["nns", "csls", "dual_is"], "cpu")["nns"]["similarity"] == "sgr + saf"
    parts = tuple(Vectors.of_folder(paths.embedded(name)) for name in ("sgr", "saf"))
    whole = Ensemble(parts)
    splits = [one.split("test", CPU) for one in (whole, *parts)]
    found, *each = (
        one.similarity()(split.images, split.captions) for one, split in zip((whole, *parts), splits, strict=True)
    )
    torch.testing.assert_close(found, (each[0] + each[1]) / 2)


def test_weights_that_changed_are_refused(project):
    path = paths.embedded("saf") / embeddings.WEIGHTS
    with kept(path):
        path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
        with pytest.raises(IntegrityError, match="does not match the digest"):
            Vectors.of_folder(paths.embedded("saf")).similarity()
        path.unlink()
        with pytest.raises(InputError, match="vse-pipe embed --run saf"):
            Vectors.of_folder(paths.embedded("saf")).similarity()
