"""A run packed for a hub, its card, and what loads the pack."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard
from safetensors.torch import save_file
from torchvision import models

from tests.export.test_encode import embedded_run
from tests.made import INFERENCES
from tests.sealed import made_anew
from tests.train.conftest import extraction, painted_project  # noqa: F401 (fixtures)
from tests.train.painted import RAW
from vse_pipe.artifacts import captions, embeddings, evaluation
from vse_pipe.core.errors import IntegrityError, UsageError
from vse_pipe.core.files import sha256
from vse_pipe.export.pack import LOADER, pack
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.train import stage
from vse_pipe.train.trained import Trained


@pytest.mark.acceptance
@pytest.mark.parametrize("image", ["linear", "finetune"])
def test_the_loader_of_the_card_runs_and_scores_photos_as_the_run_does(painted_project, tmp_path, monkeypatch, image):  # noqa: F811
    pack(embedded_run(image), "ft", tmp_path / "hub", None)
    sides = [embeddings.read(paths.embedded("ft") / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    said = captions.read(paths.prepared("toy"))["text"].to_pylist()[:2]
    for name, number in (("a.jpg", 0), ("b.jpg", 1)):
        shutil.copyfile(RAW / f"{number:03d}.png", tmp_path / "hub" / name)
    monkeypatch.chdir(tmp_path / "hub")
    scope: dict = {}
    exec(LOADER.replace('"two dogs run along a beach", "a red car in the snow"', ", ".join(map(repr, said))), scope)
    scores = scope["model"].similarity(scope["images"], scope["captions"])
    np.testing.assert_allclose(scores, sides[0].vectors[:2] @ sides[1].vectors[:2].T, atol=1e-5)


def test_own_weights_are_packed_and_photos_have_the_vectors_of_the_run(painted_project, tmp_path, monkeypatch, capsys):  # noqa: F811
    """The network's file lay in the project alone; what loads the pack needs nothing else."""
    own = Path("own/network.safetensors")
    own.parent.mkdir()
    save_file(models.shufflenet_v2_x0_5().state_dict(), own)
    params = embedded_run(features={"weights": str(own)})
    digests, digest = pack(params, "ft", tmp_path / "hub", None), sha256(own)
    held = f"weights/{digest[:8]}-network.safetensors"
    assert digests[held] == digest
    card = (tmp_path / "hub/README.md").read_text()
    assert "whose weights lie in weights/" in card
    expected = embeddings.read(paths.embedded("ft") / embeddings.IMAGES).vectors[:2]
    photos = [(RAW / f"{number:03d}.png").resolve() for number in (0, 1)]
    own.rename("elsewhere.safetensors")
    monkeypatch.chdir(tmp_path / "hub")
    one = Trained.open(Path())
    np.testing.assert_allclose(one.images(photos).numpy(), expected, atol=1e-5)
    monkeypatch.chdir(painted_project)
    assert not list(pack(params, "ft", tmp_path / "without", None).keys() & {held})
    assert "network.safetensors is not there; without it the pack encodes no new photos" in capsys.readouterr().err
    own.write_bytes(b"other")
    with pytest.raises(IntegrityError, match="other weights than features were made with"):
        pack(params, "ft", tmp_path / "other", None)


HUB = Path("hub/sum")


@pytest.fixture
def params(made):
    return load(paths.PARAMS)


def test_the_folder_has_these_files(params):
    digests = pack(params, "sum", HUB.resolve(), "apache-2.0")
    assert digests == {name: sha256(HUB / name) for name in digests}
    assert set(digests) == {
        "model.safetensors", "vocabulary.json", "config.json", "history.csv", "texts/meta.json", "texts/vocabulary.json",
        "features/meta.json",
    }  # fmt: skip


def test_the_same_run_gives_the_same_bytes_and_a_pack_replaces_a_pack(params):
    def packed() -> dict[Path, bytes]:
        pack(params, "sum", HUB.resolve(), None)
        return {path: path.read_bytes() for path in HUB.rglob("*") if path.is_file()}

    assert packed() == packed()
    (HUB / "texts/meta.json").unlink()  # as in any folder with a config.json
    with pytest.raises(UsageError, match="is not a packed model"):
        packed()
    assert (HUB / "README.md").exists()


def test_the_card_has_every_figure_with_its_interval_and_hubs_read_it(params):
    pack(params, "sum", HUB.resolve(), "apache-2.0")
    card = (HUB / "README.md").read_text()
    data = ModelCard(card).data
    said = (data.license, data.library_name, data.datasets, data.model_name)
    assert said == ("apache-2.0", "vse-pipe", ["toy"], "sum")
    found = {one.metric_name: one.metric_value for one in data.eval_results}
    assert len(found) == len(data.eval_results) == 12
    assert {(one.dataset_name, one.dataset_split) for one in data.eval_results} == {("toy", "test")}
    rows = {line.split(" | ")[0].strip("| "): line for line in card.splitlines() if line.startswith("| ")}
    for name in INFERENCES:
        metrics = evaluation.read_metrics(paths.evaluated("sum", name))
        assert found[f"R@5 text to image, {name}"] == metrics["text_to_image"]["r@5"]
        low, high = metrics["intervals"]["image_to_text"]["r@1"]
        assert f"| {metrics['image_to_text']['r@1']:.1f} [{low:.1f}, {high:.1f}] |" in rows[name]
        low, high = metrics["intervals"]["rsum"]
        assert rows[name].endswith(f"| {metrics['rsum']:.1f} [{low:.1f}, {high:.1f}] |")


def of_other_texts() -> None:
    made_anew(paths.extracted("toy", "words"), texts="0")


def retrained(change: str) -> None:
    stage.train(load(paths.PARAMS, [change]), "sum", "cpu")


OTHER_WEIGHTS = "data/embed/sum: made from other weights than data/train/sum now holds"
WRONG = {
    "other texts": (
        of_other_texts,
        IntegrityError,
        "data/train/sum: made from other texts than data/extract/toy/words now holds",
    ),
    "figures of another model": (lambda: retrained("train.lr=0.02"), IntegrityError, OTHER_WEIGHTS),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_whole_is_not_packed(params, wrong):
    damage, error, message = WRONG[wrong]
    damage()
    with pytest.raises(error, match=message):
        pack(params, "sum", HUB.resolve(), None)
    assert not HUB.exists()
