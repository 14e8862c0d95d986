"""Models of runs and packs: vectors are those of ``embed``, from any working directory; what is no model is said."""

import doctest
import io
import json
import shutil
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from torchvision import models as networks

from tests.fragment_project import run_of, write_fragment_project
from tests.toy_project import PARAMS, kept, load_params, ready, write_prepared
from tests.train import painted
from vse_pipe.api import models
from vse_pipe.api.models import load
from vse_pipe.artifacts import captions, embeddings, features
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError
from vse_pipe.embed.stage import embed
from vse_pipe.export.pack import pack
from vse_pipe.project import paths
from vse_pipe.ranking.vectors import Vectors
from vse_pipe.train.stage import train

SMALL = {**PARAMS["train"], "epochs": 1}
RUNS = {"sum": PARAMS["runs"]["sum"], "two": {**PARAMS["runs"]["sum"], "loss": "max", "scheme": "ncr"}}


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with a run of one network and one of two, and a pack of each."""
    with chdir(root := tmp_path_factory.mktemp("models")):
        write_prepared()
        params = ready(load_params(root, runs=RUNS, train=SMALL, scheme={"ncr": {"warm_up": 1}}))
        for run in RUNS:
            pack(params, run, root / "hub" / run, None)
    return root


def _sides(folder: Path) -> list[np.ndarray]:
    return [embeddings.read(folder / name).vectors for name in (embeddings.IMAGES, embeddings.CAPTIONS)]


@pytest.mark.parametrize("kind", ["data/train", "hub"])
@pytest.mark.parametrize("run", RUNS)
def test_vectors_are_those_of_embed_to_the_last_bit_and_two_networks_have_the_mean_of_their_scores(
    project, tmp_path, monkeypatch, kind, run
):
    monkeypatch.chdir(tmp_path)
    model = load(project / kind / run)
    texts = captions.read(project / paths.prepared("toy"))["text"].to_pylist()
    array = features.read(project / paths.extracted("toy", "plain")).array
    folders = [project / paths.embedded(run), project / paths.embedded(run) / embeddings.PEER][: 1 + (run == "two")]
    expected = [
        np.concatenate(sides, axis=1) / len(folders) ** 0.5 for sides in zip(*map(_sides, folders), strict=True)
    ]
    sides = model.encode_features(array), model.encode_captions(texts)
    for found, stored in zip(sides, expected, strict=True):
        np.testing.assert_allclose(found, stored, rtol=0, atol=0 if run == "sum" else 1e-7)
        assert (found.dtype, found.shape[1]) == (np.float32, model.dim)
    scores = model.similarity(*sides)
    np.testing.assert_allclose(scores, expected[0] @ expected[1].T, atol=1e-6)
    assert scores.dtype == np.float32
    np.testing.assert_array_equal(model.encode_features(torch.from_numpy(np.array(array))), sides[0])


def test_the_examples_of_the_docstrings_run(project, monkeypatch):
    """In a project with a run of that name."""
    monkeypatch.chdir(project)
    assert doctest.testmod(models).failed == 0


@pytest.mark.parametrize("similarity", ["scan_t2i", "sgr"])
def test_fragments_are_scored_as_the_embedded_ones(tmp_path, monkeypatch, similarity):
    monkeypatch.chdir(tmp_path)
    params = write_fragment_project(tmp_path, mine=run_of(similarity, train={"epochs": 1}))
    train(params, "mine", "cpu")
    embed(params, "mine", "cpu")
    stored, cpu = Vectors.of_run(params, "mine"), torch.device("cpu")
    split = stored.split("test", cpu)
    with torch.inference_mode():
        expected = stored.similarity(cpu)(split.images, split.captions).numpy()
    monkeypatch.chdir("/")
    model = load(tmp_path / paths.trained("mine"))
    table = captions.read(tmp_path / paths.prepared("toy")).to_pandas()
    source = features.read(tmp_path / paths.extracted("toy", "plain"))
    images = model.encode_features(source.array[source.rows_of(split.image_ids)])
    texts = model.encode_captions(table[table.split == "test"].text.tolist())
    assert (len(images), len(texts), model.dim) == (6, len(split.caption_ids), 12)
    np.testing.assert_allclose(model.similarity(images, texts), expected, atol=1e-5)
    np.testing.assert_allclose(model.similarity(images[2:4], texts[:5]), expected[2:4, :5], atol=1e-5)
    with pytest.raises(PipelineError, match="images: not the fragments"):
        model.similarity(texts, images)


def test_images_have_the_vectors_of_embed_as_files_bytes_and_pictures(tmp_path, monkeypatch):
    """With weights in a file of the project, which is not the working directory when they are read."""
    monkeypatch.chdir(tmp_path)
    painted.painted("ttttvvs")
    Path("own").mkdir()
    save_file(networks.shufflenet_v2_x0_5().state_dict(), "own/network.safetensors")
    run = {**painted.RUN, "image": "linear"}
    params = painted.loaded({}, {"weights": "own/network.safetensors"}, run, epochs=1)
    train(painted.extracted(params), "ft", "cpu")
    embed(params, "ft", "cpu")
    expected = embeddings.read(paths.embedded("ft") / embeddings.IMAGES).vectors
    files = [tmp_path / painted.RAW / f"{number:03d}.png" for number in range(7)]
    monkeypatch.chdir("/")
    model = load(tmp_path / paths.trained("ft"))
    turned = io.BytesIO()
    picture = Image.open(files[2])
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    picture.rotate(180).save(turned, "PNG", exif=exif)
    mixed = [str(files[0]), files[1].read_bytes(), picture, Image.open(turned), picture.convert("RGBA"), *files[3:]]
    found = model.encode_images(mixed)
    np.testing.assert_allclose(found, expected[[0, 1, 2, 2, 2, 3, 4, 5, 6]], atol=1e-5)
    assert model.encode_images([Image.new("CMYK", (40, 40)), Image.new("F", (40, 40))]).shape == (2, 12)
    damaged = Image.open(io.BytesIO(files[0].read_bytes()[:2000]))
    for image, message in (
        ("a.jpg", "^a.jpg .*does not exist$"),
        (tmp_path, "is no regular file"),
        (b"", r"^image 1 is empty \(0 bytes\)"),
        (b"no picture", "^image 1 is no image in a known format"),
        (damaged, "^image 1 does not decode"),
    ):
        with pytest.raises(InputError, match=message):
            model.encode_images([files[0], image])
    weights = {name: value * 2 for name, value in networks.shufflenet_v2_x0_5().state_dict().items()}
    save_file(weights, tmp_path / "own/network.safetensors")
    with pytest.raises(IntegrityError, match=r"features\.small was made with other weights than there are now"):
        load(tmp_path / paths.trained("ft")).encode_images(files)


def test_what_cannot_be_encoded_is_said_in_one_line(project):
    model = load(project / "data/train/sum")
    for call, message in (
        (lambda: model.encode_captions("a red dog"), "captions: expected a list"),
        (lambda: model.encode_captions(["a", 3]), "captions: expected a list"),
        (lambda: model.encode_captions(["a", " "]), "captions: entry 1: the caption .* shows nothing"),
        (lambda: model.encode_images([b""]), "features 'precomp' were computed elsewhere"),
        (
            lambda: model.encode_features(np.zeros((2, 3))),
            r"the model reads features of shape \(10,\), not an array of",
        ),
        (
            lambda: model.encode_features(np.full((2, 10), np.nan)),
            r"features of shape \(2, 10\): not finite",
        ),
        (lambda: model.similarity(np.zeros((2, 5)), np.zeros((2, 12))), r"images has shape \(2, 5\) .*\(rows, 12\)"),
    ):
        with pytest.raises(PipelineError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)


def _damage(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"")


NO_MODEL = {
    "no folder": (None, lambda folder: None, "sum.config.json"),
    "a run outside of its project": (
        "data/train/sum",
        Path.exists,
        "has no texts/, .* and it does not lie in data/train/",
    ),
    "a damaged pack": ("hub/sum", _damage, "content does not match the digest"),
}


@pytest.mark.parametrize("name", NO_MODEL)
def test_a_folder_without_a_model_is_refused_in_one_line(project, tmp_path, name):
    source, change, message = NO_MODEL[name]
    folder = tmp_path / "sum"
    if source:
        shutil.copytree(project / source, folder)
    change(folder)
    with pytest.raises(PipelineError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("key", "name"), [("dataset", "../../../secret"), ("texts", "/etc")])
def test_a_config_that_leads_out_of_its_project_is_refused(project, key, name):
    config = project / "data/train/sum/config.json"
    with kept(config):
        config.write_text(json.dumps({**json.loads(config.read_text()), key: name}))
        with pytest.raises(InputError, match=r"config\.json: file .* lies outside its root"):
            load(project / "data/train/sum")
