"""A run packed for a hub, its card, and what loads the pack."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from huggingface_hub import ModelCard
from ruamel.yaml import YAML
from safetensors.torch import save_file
from torchvision import models

from tests.made import INFERENCES
from tests.train.conftest import extraction, painted_project  # noqa: F401 (fixtures)
from tests.train.painted import RAW, RUN, loaded
from vse_pipe.artifacts import captions, embeddings, evaluation, features, model_files
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError, UsageError
from vse_pipe.core.files import read_json, sha256, write_json
from vse_pipe.embed.stage import embed
from vse_pipe.extract.stage import extract
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.stages import declarations
from vse_pipe.tools.hub import networks
from vse_pipe.tools.pack import LOADER, pack
from vse_pipe.train import stage
from vse_pipe.train.stage import train


@pytest.fixture
def packed(made, tmp_path, monkeypatch):
    """What the run ``sum`` was packed into, outside of its project, which is not the working directory any more."""
    pack(load(paths.PARAMS), "sum", tmp_path / "hub", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def test_captions_and_features_have_the_vectors_of_the_run_to_the_last_bit(packed, made):
    (network,) = networks(packed)
    said = captions.read(made / paths.prepared("toy"))["text"].to_pylist()
    stored = features.read(made / paths.extracted("toy", "plain"))
    sides = [
        embeddings.read(made / paths.embedded("sum") / name).vectors
        for name in (embeddings.IMAGES, embeddings.CAPTIONS)
    ]
    found = network.features(np.asarray(stored.array)), network.captions(said)
    assert np.array_equal(found[0].numpy(), sides[0])
    assert np.array_equal(found[1].numpy(), sides[1])
    assert torch.equal(network.scores(*found), found[0] @ found[1].T)


def test_what_cannot_be_encoded_is_said(packed):
    (network,) = networks(packed)
    with pytest.raises(UsageError, match=r"the model reads features of shape \(10,\), not an array of shape \(2, 3\)"):
        network.features(np.zeros((2, 3), np.float32))
    with pytest.raises(UsageError, match="features 'precomp' were computed elsewhere"):
        network.images([packed / "a.jpg"])


def test_a_file_that_was_changed_is_refused(packed):
    text = (packed / "texts" / "meta.json").read_text()
    (packed / "texts" / "meta.json").write_text(text.replace('"tokens.npy": "', '"tokens.npy": "0'))
    with pytest.raises(IntegrityError, match="not the texts that the model was trained on"):
        networks(packed)[0].captions(["a red dog"])
    meta = read_json(packed / "features" / "meta.json")
    write_json(packed / "features" / "meta.json", {**meta, "sha256": "0" * 64})
    with pytest.raises(IntegrityError, match="not the features that the model was trained on"):
        networks(packed)[0].images([packed / "a.jpg"])
    (packed / "model.safetensors").write_bytes(b"")
    with pytest.raises(IntegrityError, match="content does not match the digest"):
        networks(packed)


@pytest.mark.acceptance
@pytest.mark.parametrize("image", ["linear", "finetune"])
def test_the_loader_of_the_card_runs_and_scores_photos_as_the_run_does(painted_project, tmp_path, monkeypatch, image):  # noqa: F811
    params = loaded({}, run={**RUN, "image": image}, epochs=1)
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    pack(params, "ft", tmp_path / "hub", None)
    sides = [embeddings.read(paths.embedded("ft") / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    said = captions.read(paths.prepared("toy"))["text"].to_pylist()[:2]
    for name, number in (("a.jpg", 0), ("b.jpg", 1)):
        shutil.copyfile(RAW / f"{number:03d}.png", tmp_path / "hub" / name)
    monkeypatch.chdir(tmp_path / "hub")
    known = {"Path": Path}
    exec(LOADER.replace('"two dogs run along a beach", "a red car in the snow"', ", ".join(map(repr, said))), known)
    assert len([line for line in LOADER.splitlines() if line]) == 8
    expected = sides[0].vectors[:2] @ sides[1].vectors[:2].T
    np.testing.assert_allclose(known["scores"].numpy(), expected, atol=1e-5)


def test_own_weights_are_packed_and_photos_have_the_vectors_of_the_run(painted_project, tmp_path, monkeypatch, capsys):  # noqa: F811
    """The network's file lay in the project alone; what loads the pack needs nothing else."""
    Path("own").mkdir()
    save_file(models.shufflenet_v2_x0_5().state_dict(), "own/network.safetensors")
    params = loaded({}, {"weights": "own/network.safetensors"}, run={**RUN, "image": "linear"}, epochs=1)
    extract(params, "small", "cpu")
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    digests = pack(params, "ft", tmp_path / "hub", None)
    digest = sha256(Path("own/network.safetensors"))
    held = f"weights/{digest[:8]}-network.safetensors"
    assert digests[held] == digest
    card = (tmp_path / "hub/README.md").read_text()
    assert "whose weights lie in weights/" in card
    assert f"weights: models/ft/{held}" in card
    expected = embeddings.read(paths.embedded("ft") / embeddings.IMAGES).vectors[:2]
    photos = [(RAW / f"{number:03d}.png").resolve() for number in (0, 1)]
    Path("own/network.safetensors").rename("elsewhere.safetensors")
    monkeypatch.chdir(tmp_path / "hub")
    (one,) = networks(Path())
    np.testing.assert_allclose(one.images(photos).numpy(), expected, atol=1e-5)
    monkeypatch.chdir(painted_project)
    assert not list(pack(params, "ft", tmp_path / "without", None).keys() & {held})
    assert "network.safetensors is not there; without it the pack encodes no new photos" in capsys.readouterr().err
    Path("own/network.safetensors").write_bytes(b"other")
    with pytest.raises(IntegrityError, match="other weights than features were made with"):
        pack(params, "ft", tmp_path / "other", None)


HUB = Path("hub/sum")


@pytest.fixture
def params(made):
    return load(paths.PARAMS)


def block(card: str, language: str) -> str:
    return card.split(f"```{language}\n")[1].split("```")[0]


def with_the_cards_entry(name: str):
    """params.yaml with the run ``name`` as the card of the pack says, whose folder is ``HUB``."""
    content = YAML().load(paths.PARAMS.read_text())
    entries = YAML(typ="safe").load(block((HUB / "README.md").read_text(), "yaml"))
    for key in ("features", "texts", "noises"):
        content[key] |= entries[key]
    content["runs"][name] = entries["runs"]["sum"] | {"model": str(HUB)}
    YAML().dump(content, paths.PARAMS)
    return load(paths.PARAMS)


def test_a_run_that_takes_the_model_from_the_pack_has_the_same_vectors_to_the_last_bit(params, monkeypatch):
    digests = pack(params, "sum", HUB.resolve(), "apache-2.0")
    assert digests == {name: sha256(HUB / name) for name in digests}
    assert set(digests) == {
        "model.safetensors", "vocabulary.json", "config.json", "history.csv", "texts/meta.json", "texts/vocabulary.json",
        "features/meta.json",
    }  # fmt: skip
    again = with_the_cards_entry("again")
    assert (again.features, again.texts, again.noises) == (params.features, params.texts, params.noises)
    monkeypatch.setattr(stage.loop, "fit", None)  # nothing may be trained
    stage.train(again, "again", "cpu")
    for name in (model_files.MODEL, model_files.VOCABULARY, "history.csv"):
        assert (paths.trained("again") / name).read_bytes() == (paths.trained("sum") / name).read_bytes()
    assert declarations()["train"].node(again, "again").problems(again) == []
    embed(again, "again", "cpu")
    for name in (embeddings.IMAGES, embeddings.CAPTIONS):
        mine, theirs = (embeddings.read(paths.embedded(run) / name) for run in ("again", "sum"))
        assert np.array_equal(mine.vectors, theirs.vectors)
        assert mine.about["model_sha256"] == theirs.about["model_sha256"]
    origin = model_files.read_config(paths.trained("again"))["origin"]
    assert (origin["run"], origin["sha256"]) == ("sum", digests["config.json"])


def test_the_same_run_gives_the_same_bytes_and_a_pack_replaces_a_pack(params):
    written = []
    for _ in range(2):
        pack(params, "sum", HUB.resolve(), None)
        written.append({path: path.read_bytes() for path in sorted(HUB.rglob("*")) if path.is_file()})
    assert written[0] == written[1]
    (HUB / "notes.txt").write_text("mine")
    with pytest.raises(PipelineError, match=r"notes\.txt: not a file of this output"):
        pack(params, "sum", HUB.resolve(), None)
    assert (HUB / "notes.txt").read_text() == "mine"


def test_hubs_read_figures_licence_and_data_from_the_card(params):
    pack(params, "sum", HUB.resolve(), "apache-2.0")
    data = ModelCard.load(HUB / "README.md").data
    said = (data.license, data.library_name, data.datasets, data.model_name)
    assert said == ("apache-2.0", "vse-pipe", ["toy"], "sum")
    found = {one.metric_name: one.metric_value for one in data.eval_results}
    assert len(found) == len(data.eval_results) == 12
    for name in INFERENCES:
        metrics = evaluation.read_metrics(paths.evaluated("sum", name))
        assert found[f"R@5 text to image, {name}"] == metrics["text_to_image"]["r@5"]
    assert {(one.dataset_name, one.dataset_split) for one in data.eval_results} == {("toy", "test")}


def test_the_card_has_every_figure_with_its_interval(params):
    pack(params, "sum", HUB.resolve(), None)
    card = (HUB / "README.md").read_text()
    rows = {line.split(" | ")[0].strip("| "): line for line in card.splitlines() if line.startswith("| ")}
    for name in INFERENCES:
        metrics = evaluation.read_metrics(paths.evaluated("sum", name))
        low, high = metrics["intervals"]["image_to_text"]["r@1"]
        assert f"| {metrics['image_to_text']['r@1']:.1f} [{low:.1f}, {high:.1f}] |" in rows[name]
        low, high = metrics["intervals"]["rsum"]
        assert rows[name].endswith(f"| {metrics['rsum']:.1f} [{low:.1f}, {high:.1f}] |")
    assert "Nobody has said under which licence" in card
    assert ModelCard(card).data.license == "other"


def test_without_an_evaluation_the_card_says_so(params, capsys):
    for name in INFERENCES:
        (paths.evaluated("sum", name) / evaluation.METRICS).unlink()
    pack(params, "sum", HUB.resolve(), None)
    assert "pack sum: the run has not been evaluated; its card has no figures" in capsys.readouterr().err
    card = ModelCard.load(HUB / "README.md")
    assert card.data.eval_results is None
    assert "had not been evaluated" in card.text


def damaged() -> None:
    (paths.trained("sum") / model_files.VOCABULARY).write_text('{"words": []}')


def of_other_texts() -> None:
    meta = paths.extracted("toy", "words") / "meta.json"
    content = read_json(meta)
    write_json(meta, {**content, "sha256": {**content["sha256"], "x": "0"}})


def retrained(change: str) -> None:
    stage.train(load(paths.PARAMS, [change]), "sum", "cpu")


OTHER_WEIGHTS = "data/embed/sum: made from other weights than there are now"
WRONG = {
    "no model": (lambda: (paths.trained("sum") / model_files.MODEL).unlink(), InputError, "does not exist"),
    "damaged": (damaged, IntegrityError, "content does not match the digest"),
    "other texts": (of_other_texts, IntegrityError, "made from other texts than there are now"),
    "figures of another model": (lambda: retrained("train.lr=0.02"), IntegrityError, OTHER_WEIGHTS),
    "another loss": (
        lambda: retrained("runs.sum.loss=max"),
        UsageError,
        "params.yaml runs.sum.loss is .*write what it has",
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_whole_is_not_packed(params, wrong):
    damage, error, message = WRONG[wrong]
    damage()
    with pytest.raises(error, match=message):
        pack(params, "sum", HUB.resolve(), None)
    assert not HUB.exists()
