"""A pretrained pair as it is: open_clip's own figures, and everything that a run goes through."""

import re
import shutil
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.compute as pc
import pytest
import torch
from PIL import Image

from tests import pair_project as pairs
from tests.naive import evaluate as naive
from vse_pipe.artifacts import captions, embeddings, evaluation, identity, images, model_files
from vse_pipe.core.errors import InputError, ParamsError, UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.export.export import export_run
from vse_pipe.export.pack import pack
from vse_pipe.extract.stage import extract
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.prepare.stage import prepare
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.search.engine import Engine
from vse_pipe.search.query import PHOTO, Limits, Term
from vse_pipe.tools.choose import Candidate, params_of
from vse_pipe.train.stage import train
from vse_pipe.train.trained import Trained

open_clip = pytest.importorskip("open_clip", reason="needs the extra open_clip")


HEAD = {**pairs.RUN, "scheme": "plain", "text": "residual", "image": "residual"}
RUNS = {"zero": pairs.RUN, "head": HEAD}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A folder with photographs and captions."""
    root = tmp_path_factory.mktemp("photographs") / "bare"
    root.mkdir()
    with chdir(root):
        pairs.write_photos()
    return root


@pytest.fixture(scope="module")
def done(bare):
    """The same with a pair as of SigLIP gone through every stage up to evaluate."""
    root = bare.parent / "done"
    shutil.copytree(bare, root)
    with chdir(root):
        run_through(pairs.loaded(pairs.write_model("siglip"), RUNS))
    return root


@pytest.fixture
def photographs(bare, tmp_path, monkeypatch):
    """A copy of the folder, the working directory."""
    monkeypatch.chdir(shutil.copytree(bare, tmp_path / "project"))


@pytest.fixture
def params(done, tmp_path, monkeypatch):
    """Those of a copy of the project that is done, the working directory."""
    monkeypatch.chdir(shutil.copytree(done, tmp_path / "project"))
    return load(paths.PARAMS)


def run_through(params, name: str = "zero") -> None:
    prepare(params, "photos")
    extract(params, "seen", "cpu")
    extract_texts(params, "said")
    train(params, name, "cpu")
    embed(params, name, "cpu")
    evaluate(params, name, ["nns"])


def own_vectors(model, split: str) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """What open_clip makes of a split's pictures and captions by itself, and the picture of each caption."""
    place = f"local-dir:{model.absolute()}"
    network, preprocess = open_clip.create_model_from_pretrained(place)
    tables = (table.read(paths.prepared("photos")).filter(pc.field("split") == split) for table in (images, captions))
    seen, said = (table.to_pylist() for table in tables)
    with torch.inference_mode():
        pixels = torch.stack([preprocess(Image.open(f"raw/{row['file']}")) for row in seen])
        first = network.eval().encode_image(pixels, normalize=True).numpy()
        tokens = open_clip.get_tokenizer(place)([row["text"] for row in said])
        second = network.encode_text(tokens, normalize=True).numpy()
    ids = [row["image_id"] for row in seen]
    return first, second, [ids.index(row["image_id"]) for row in said]


@pytest.mark.parametrize("kind", ["clip", "siglip", pytest.param("coca", marks=pytest.mark.acceptance)])
def test_it_has_the_recalls_of_open_clips_own_encode_and_a_plain_product(photographs, kind):
    model = pairs.write_model(kind)
    run_through(pairs.loaded(model))
    first, second, owners = own_vectors(model, "test")
    scores = first @ second.T
    texts_of = [{j for j, owner in enumerate(owners) if owner == i} for i in range(len(scores))]
    found = evaluation.read_metrics(paths.evaluated("zero", "nns"))
    for direction, rows, correct in (
        ("image_to_text", scores.tolist(), texts_of),
        ("text_to_image", scores.T.tolist(), [{owner} for owner in owners]),
    ):
        ranks = [naive.best_rank(row, own, "pessimistic") for row, own in zip(rows, correct, strict=True)]
        for k in (1, 5, 10):
            assert found[direction][f"r@{k}"] == pytest.approx(naive.recall(ranks, k))
    vectors = embeddings.read(paths.embedded("zero") / embeddings.IMAGES)
    np.testing.assert_allclose(vectors.vectors[vectors.splits == "test"], first, atol=2e-6)


def test_the_model_is_made_once_and_sentences_and_photos_go_through_its_towers(params, capsys):
    out = paths.trained("zero")
    assert not paths.injected("photos", "clean").exists()
    config = model_files.read_config(out)
    assert config["logit"] == {"scale": pytest.approx(1 / 0.07), "bias": -10.0}
    assert (config["embed_size"], config["best"]["epoch"]) == (16, 0)
    assert model_files.read_history(out).empty
    written = (out / model_files.CONFIG).stat().st_mtime_ns
    train(params, "zero", "cpu")
    assert "is up to date" in capsys.readouterr().err
    assert (out / model_files.CONFIG).stat().st_mtime_ns == written
    identity.require_current(out)
    engine = Engine.open(params, "zero", device="cpu")
    split = captions.read(paths.prepared("photos")).filter(pc.field("split") == "test").to_pylist()
    sides = [embeddings.read(paths.embedded("zero") / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    seen, said = (side.vectors[side.splits == "test"] for side in sides)
    scores = seen @ said.T
    for place, row in enumerate(split[:3]):
        hits = engine.by_text(row["text"], 3).hits
        np.testing.assert_allclose([hit.score for hit in hits], np.sort(scores[:, place])[::-1][:3], atol=1e-5)
    shown = images.read(paths.prepared("photos")).filter(pc.field("split") == "test").to_pylist()[0]
    photo = Term(PHOTO, "a photo", content=Path("raw", shown["file"]).read_bytes())
    hits = engine.ask((photo,), Limits(3)).hits
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(scores[0])[::-1][:3], atol=1e-5)


@pytest.mark.acceptance
def test_it_is_exported_and_packed_with_what_is_known(params):
    assert export_run(params, "zero", "csls", "npy", "text_to_image", Path("out"), "cpu")
    pack(params, "zero", Path("hub"), None)
    card = Path("hub/README.md").read_text()
    assert "nothing was trained, features and texts are as they are: 16 dimensions" in card
    assert "their publisher says what they were trained on" in card
    network = Trained.open(Path("hub"))
    said = captions.read(paths.prepared("photos"))["text"].to_pylist()[:3]
    for found, name in (
        (network.captions(said), embeddings.CAPTIONS),
        (network.images([Path("raw/0.jpg")]), embeddings.IMAGES),
    ):
        stored = embeddings.read(paths.embedded("zero") / name).vectors[: len(found)]
        np.testing.assert_allclose(found.numpy(), stored, atol=1e-6)


def test_sides_of_two_pairs_are_refused_nothing_is_lost_and_there_is_nothing_to_choose(params):
    other = pairs.named(pairs.write_model("siglip", seed=1, name="other"))
    texts = replace(params.texts["said"].method, params=params.texts["said"].method.params.model_copy(update=other))
    before = (paths.trained("zero") / model_files.CONFIG).read_bytes()
    extract_texts(replace(params, texts={"said": params.texts["said"].model_copy(update={"method": texts})}), "said")
    with pytest.raises(InputError, match=r"features and texts are of two models or of two weights"):
        train(params, "zero", "cpu")
    assert (paths.trained("zero") / model_files.CONFIG).read_bytes() == before
    wanted = r"run 'zero' trains nothing \(scheme zero_shot\), so there is nothing to choose"
    with pytest.raises(UsageError, match=wanted):
        params_of(Candidate("zero", {"train.lr": 1e-3}), [], ())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"image": "linear"}, "image: image encoder 'linear' has weights, and scheme 'zero_shot' trains none"),
        ({"scheme": "plain"}, "scheme: scheme 'plain' has nothing to train"),
    ],
)
def test_what_can_learn_nothing_or_would_not_be_trained_is_refused(params, changes, message):
    with pytest.raises(ParamsError, match=re.escape(f"runs.zero.{message}")):
        pairs.loaded(Path("models/siglip"), {"zero": {**pairs.RUN, **changes}})
