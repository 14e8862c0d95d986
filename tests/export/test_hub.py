"""A run packed for a hub, its card, what loads the pack, and `vse-pipe encode`: vectors are those of ``embed``."""

import csv
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from huggingface_hub import ModelCard
from ruamel.yaml import YAML
from safetensors.torch import save_file
from torchvision import models

from tests.command_line import caller, json_document, output
from tests.fragment_project import run_of, write_fragment_project
from tests.made import INFERENCES
from tests.train.conftest import extraction, painted_project  # noqa: F401 (fixtures)
from tests.train.painted import RAW, RUN, loaded
from vse_pipe.artifacts import captions, embeddings, evaluation, features, images, model_files
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError, UsageError
from vse_pipe.core.files import read_json, sha256, write_json
from vse_pipe.embed.stage import embed
from vse_pipe.export.encode import CaptionFile, encode_captions, encode_images
from vse_pipe.export.pack import LOADER, pack
from vse_pipe.extract.stage import extract
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.stages import declarations
from vse_pipe.train import stage
from vse_pipe.train.stage import train
from vse_pipe.train.trained import Trained


@pytest.fixture
def packed(made, tmp_path, monkeypatch):
    """What the run ``sum`` was packed into, outside of its project, which is not the working directory any more."""
    pack(load(paths.PARAMS), "sum", tmp_path / "hub", None)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def test_captions_and_features_have_the_vectors_of_the_run_to_the_last_bit(packed, made):
    network = Trained.open(packed)
    said = captions.read(made / paths.prepared("toy"))["text"].to_pylist()
    stored = features.read(made / paths.extracted("toy", "plain"))
    sides = network.features(np.asarray(stored.array)), network.captions(said)
    for found, name in zip(sides, (embeddings.IMAGES, embeddings.CAPTIONS), strict=True):
        assert np.array_equal(found.numpy(), embeddings.read(made / paths.embedded("sum") / name).vectors), name
    assert torch.equal(network.scores(*sides), sides[0] @ sides[1].T)


def test_what_cannot_be_encoded_is_said(packed):
    network = Trained.open(packed)
    with pytest.raises(UsageError, match=r"the model reads features of shape \(10,\), not an array of shape \(2, 3\)"):
        network.features(np.zeros((2, 3), np.float32))
    with pytest.raises(UsageError, match="features 'precomp' were computed elsewhere"):
        network.images([packed / "a.jpg"])


def test_a_file_that_was_changed_is_refused(packed):
    texts, pictures = packed / "texts" / "meta.json", packed / "features" / "meta.json"
    texts.write_text(texts.read_text().replace('"tokens.npy": "', '"tokens.npy": "0'))
    with pytest.raises(IntegrityError, match="not the texts that the model was trained on"):
        Trained.open(packed).captions(["a red dog"])
    write_json(pictures, {**read_json(pictures), "sha256": "0" * 64})
    with pytest.raises(IntegrityError, match="not the features that the model was trained on"):
        Trained.open(packed).images([packed / "a.jpg"])
    (packed / "model.safetensors").write_bytes(b"")
    with pytest.raises(IntegrityError, match="content does not match the digest"):
        Trained.open(packed)


def _trained(image: str = "linear", features: dict | None = None):
    """A run on photos, embedded."""
    params = loaded({}, features or {}, run={**RUN, "image": image}, epochs=1)
    if features:
        extract(params, "small", "cpu")
    train(params, "ft", "cpu")
    embed(params, "ft", "cpu")
    return params


@pytest.mark.acceptance
@pytest.mark.parametrize("image", ["linear", "finetune"])
def test_the_loader_of_the_card_runs_and_scores_photos_as_the_run_does(painted_project, tmp_path, monkeypatch, image):  # noqa: F811
    pack(_trained(image), "ft", tmp_path / "hub", None)
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
    params = _trained(features={"weights": str(own)})
    digests, digest = pack(params, "ft", tmp_path / "hub", None), sha256(own)
    held = f"weights/{digest[:8]}-network.safetensors"
    assert digests[held] == digest
    card = (tmp_path / "hub/README.md").read_text()
    assert "whose weights lie in weights/" in card
    assert f"weights: models/ft/{held}" in card
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


def with_the_cards_entry(name: str):
    """params.yaml with the run ``name`` as the card of the pack says, whose folder is ``HUB``."""
    content, card = YAML().load(paths.PARAMS.read_text()), (HUB / "README.md").read_text()
    entries = YAML(typ="safe").load(card.split("```yaml\n")[1].split("```")[0])
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
    def packed() -> dict[Path, bytes]:
        pack(params, "sum", HUB.resolve(), None)
        return {path: path.read_bytes() for path in HUB.rglob("*") if path.is_file()}

    assert packed() == packed()
    (HUB / "notes.txt").write_text("mine")
    with pytest.raises(PipelineError, match=r"notes\.txt: not a file of this output"):
        packed()
    assert (HUB / "notes.txt").read_text() == "mine"


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


def test_the_card_says_that_the_training_has_not_converged(params):
    path = paths.trained("sum") / model_files.CONFIG
    endings = {"converged": None, "rising": "rsum on val was still rising", "stuck": "the loss sits at its plateau"}
    for ending, told in endings.items():
        ended = {"epoch": 3, "by": "epochs", "converged": ending != "rising"}
        ended |= {"stuck": told} if ending == "stuck" else {}
        write_json(path, {**read_json(path), "ended": ended})
        pack(params, "sum", HUB.resolve(), None)
        card = (HUB / "README.md").read_text()
        assert "Not converged" not in card if told is None else f"Not converged: {told}" in card


def test_without_an_evaluation_and_a_licence_the_card_says_so(params, capsys):
    for name in INFERENCES:
        (paths.evaluated("sum", name) / evaluation.METRICS).unlink()
    pack(params, "sum", HUB.resolve(), None)
    assert "pack sum: the run has not been evaluated; its card has no figures" in capsys.readouterr().err
    card = ModelCard.load(HUB / "README.md")
    assert (card.data.eval_results, card.data.license) == (None, "other")
    assert "had not been evaluated" in card.text
    assert "Nobody has said under which licence" in card.text


def damaged() -> None:
    (paths.trained("sum") / model_files.VOCABULARY).write_text('{"words": []}')


def of_other_texts() -> None:
    meta = paths.extracted("toy", "words") / "meta.json"
    content = read_json(meta)
    write_json(meta, {**content, "sha256": {**content["sha256"], "x": "0"}})


def retrained(change: str) -> None:
    stage.train(load(paths.PARAMS, [change]), "sum", "cpu")


OTHER_LOSS = "params.yaml runs.sum.loss is .*write what it has"
OTHER_WEIGHTS = "data/embed/sum: made by another model than data/train/sum now holds"
WRONG = {
    "no model": (lambda: (paths.trained("sum") / model_files.MODEL).unlink(), InputError, "does not exist"),
    "damaged": (damaged, IntegrityError, "content does not match the digest"),
    "other texts": (of_other_texts, IntegrityError, "made from other texts than there are now"),
    "figures of another model": (lambda: retrained("train.lr=0.02"), IntegrityError, OTHER_WEIGHTS),
    "another loss": (lambda: retrained("runs.sum.loss=max"), UsageError, OTHER_LOSS),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_whole_is_not_packed(params, wrong):
    damage, error, message = WRONG[wrong]
    damage()
    with pytest.raises(error, match=message):
        pack(params, "sum", HUB.resolve(), None)
    assert not HUB.exists()


def _vectors(path: Path) -> tuple[list, np.ndarray]:
    table = pq.read_table(path)
    key = "caption_id" if "caption_id" in table.column_names else "image_id"
    return table[key].to_pylist(), np.array(table["embedding"].to_pylist(), np.float32)


def _table(name: str, rows: list, end: str = "") -> None:
    with Path(name).open("w", newline="") as file:
        csv.writer(file).writerows(rows)
        file.write(end)


@pytest.fixture
def said(made):
    """The captions of the project ``made``, in their order, as a text file and as a table with ids."""
    table = captions.read(paths.prepared("toy")).to_pylist()
    Path("said.txt").write_text("\n".join(row["text"] for row in table) + "\n\n")
    rows = [[row["caption_id"], row["image_id"], row["text"]] for row in table]
    _table("said.csv", [["caption_id", "image_id", "sentence"], *rows], "\n\n")
    return load(paths.PARAMS)


def test_captions_have_the_vectors_of_embed_to_the_last_bit(said):
    expected = embeddings.read(paths.embedded("sum") / embeddings.CAPTIONS)
    encode_captions(said, "sum", Path("said.txt"), None, Path("text.parquet"), "cpu")
    ids, vectors = _vectors(Path("text.parquet"))
    assert ids == list(range(len(expected.ids)))
    np.testing.assert_array_equal(vectors, expected.vectors)
    found = encode_captions(said, "sum", Path("said.csv"), "sentence", Path("captions.parquet"), "cpu")
    assert found["unknown_words"] == 0.0
    again = embeddings.read(Path("captions.parquet"))
    for name in ("ids", "image_ids", "vectors"):
        np.testing.assert_array_equal(getattr(again, name), getattr(expected, name))
    assert again.about["model_sha256"] == expected.about["model_sha256"]


def test_some_captions_alone_differ_by_rounding(said):
    """A batch is padded to its longest caption."""
    expected = embeddings.read(paths.embedded("sum") / embeddings.CAPTIONS).vectors
    trained = Trained.open(paths.trained("sum"))
    sentences = list(CaptionFile.read(Path("said.txt")))
    for place in range(0, len(sentences), 9):
        np.testing.assert_allclose(trained.captions([sentences[place]])[0], expected[place], atol=1e-6)


@pytest.mark.parametrize("image", ["linear", "finetune"])
def test_pictures_have_the_vectors_of_embed_to_the_last_bit(painted_project, image):  # noqa: F811
    """Whether features are computed first or the encoder reads pixels; and one picture alone as among others."""
    params = _trained(image)
    side, table = embeddings.read(paths.embedded("ft") / embeddings.IMAGES), images.read(paths.prepared("toy"))
    expected = dict(zip(table["file"].to_pylist(), side.vectors, strict=True))
    (RAW / "album").mkdir()
    shutil.move(RAW / "003.png", RAW / "album/003.png")
    (RAW / "album/broken.jpg").write_bytes(b"no picture")
    found = encode_images(params, "ft", RAW, Path("all.parquet"), "cpu")
    ids, vectors = _vectors(Path("all.parquet"))
    assert ids == sorted([*(name for name in expected if name != "003.png"), "album/003.png"])
    np.testing.assert_array_equal(vectors, [expected[Path(name).name] for name in ids])
    assert (found["images"], len(found["left_out"])) == (len(expected), 1)
    assert found["left_out"][0].startswith("album/broken.jpg: ")
    (RAW / "album/broken.jpg").unlink()
    encode_images(params, "ft", RAW / "album", Path("one.parquet"), "cpu")
    np.testing.assert_array_equal(_vectors(Path("one.parquet"))[1], [expected["003.png"]])

    # All of them unreadable is an error.
    (RAW / "album/003.png").write_bytes(b"no picture")
    with pytest.raises(InputError, match=r"none of 1 pictures can be read; the first is 003\.png: "):
        encode_images(params, "ft", RAW / "album", Path("none.parquet"), "cpu")
    assert not Path("none.parquet").exists()


def test_both_files_are_ranked_and_exported(painted_project, monkeypatch, capsys):  # noqa: F811
    """As the data set itself, under the names of the pictures."""
    _trained()
    table = images.read(paths.prepared("toy"))
    files = dict(zip(table["image_id"].to_pylist(), table["file"].to_pylist(), strict=True))
    told = captions.read(paths.prepared("toy")).to_pylist()
    _table("said.csv", [["image", "caption"], *([files[row["image_id"]], row["text"]] for row in told)])
    call = caller(monkeypatch, capsys)
    for arguments in (("--captions", "said.csv", "--out", "c.parquet"), ("--images", RAW, "--out", "i.parquet")):
        output(call, "encode", "--run", "ft", *arguments, "--device", "cpu")
    whole, sides = paths.embedded("ft"), ("--images", "i.parquet", "--captions", "c.parquet", "--inference", "csls")
    found = json_document(call, "rank", *sides, "--json", "--out", "i")
    own = ("--images", whole / embeddings.IMAGES, "--captions", whole / embeddings.CAPTIONS, "--inference", "csls")
    assert found["rsum"] == json_document(call, "rank", *own, "--json")["rsum"]
    assert set(pq.read_table("i/csls/ranks.parquet")["image_name"].to_pylist()) == set(files.values())
    output(call, "export", *sides, "--to", "npy", "--out", "exported")


NO_COLUMN = "no column caption or text; name that of the captions with --column: caption_id"
CAPTIONS = [
    ("bad.txt", "a red dog\n\nblue\n", InputError, "line 2: the caption is empty"),
    ("bad.txt", "\n", InputError, "holds no captions"),
    ("bad.csv", "caption_id,caption\n1,a dog\n1,a tree\n", InputError, "'1' is given twice"),
    ("bad.csv", "caption\na,dog\n", InputError, r"bad\.csv row 2: expected 1 cells, there are 2"),
    ("bad.csv", "caption_id\n1\n", UsageError, NO_COLUMN),
]


@pytest.mark.parametrize(("name", "content", "error", "message"), CAPTIONS)
def test_captions_that_cannot_be_encoded_are_said_and_nothing_is_written(said, name, content, error, message):
    Path(name).write_text(content)
    with pytest.raises(error, match=message):
        encode_captions(said, "sum", Path(name), None, Path("out.parquet"), "cpu")
    assert not Path("out.parquet").exists()


def test_pictures_that_cannot_be_encoded_are_said_and_nothing_is_written(said):
    out = Path("out.parquet")
    Path("empty").mkdir()
    with pytest.raises(InputError, match="no picture in it"):
        encode_images(said, "sum", Path("empty"), out, "cpu")
    Path("empty/a.png").write_bytes(b"no picture")
    with pytest.raises(UsageError, match="features 'precomp' were computed elsewhere"):
        encode_images(said, "sum", Path("empty"), out, "cpu")
    assert not out.exists()


def test_no_other_file_is_replaced(said):
    for _ in range(2):
        encode_captions(said, "sum", Path("said.txt"), None, Path("text.parquet"), "cpu")
    own = paths.embedded("sum") / embeddings.CAPTIONS
    before = own.read_bytes()
    with pytest.raises(UsageError, match="exists and is no file of vse-pipe encode"):
        encode_captions(said, "sum", Path("said.txt"), None, own, "cpu")
    assert own.read_bytes() == before
    with pytest.raises(UsageError, match=r"expected the name of a \.parquet file"):
        encode_captions(said, "sum", Path("said.txt"), None, Path("text.npy"), "cpu")


def test_two_networks_have_one_vector_whose_inner_product_is_the_mean_of_their_scores(made):
    params = load(paths.PARAMS, ["runs.sum.loss=max", "runs.sum.scheme=ncr", "scheme.ncr.warm_up=1"])
    train(params, "sum", "cpu")
    embed(params, "sum", "cpu")
    texts = captions.read(paths.prepared("toy"))["text"].to_pylist()
    Path("two.txt").write_text("\n".join(texts))
    encode_captions(params, "sum", Path("two.txt"), None, Path("two.parquet"), "cpu")
    _, vectors = _vectors(Path("two.parquet"))
    whole = paths.embedded("sum")
    stored = [embeddings.read(folder / embeddings.CAPTIONS).vectors for folder in (whole, whole / embeddings.PEER)]
    expected = (stored[0] @ stored[0].T + stored[1] @ stored[1].T) / 2
    np.testing.assert_allclose(vectors @ vectors.T, expected, atol=1e-5)


def test_a_model_of_fragments_has_the_words_of_embed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    params = write_fragment_project(tmp_path, mine=run_of("scan_t2i", train={"epochs": 1}))
    train(params, "mine", "cpu")
    embed(params, "mine", "cpu")
    stored = embeddings.read_fragments(paths.embedded("mine") / embeddings.CAPTIONS).split("test")
    table = captions.read(paths.prepared("toy")).to_pylist()
    text_of = {row["caption_id"]: row["text"] for row in table}
    _table("said.csv", [["caption_id", "caption"], *([number, text_of[number]] for number in stored.ids.tolist())])
    encode_captions(params, "mine", Path("said.csv"), None, Path("words.parquet"), "cpu")
    rows = pq.read_table("words.parquet")
    assert rows.column_names == ["caption_id", "split", "fragments"]
    assert rows["caption_id"].to_pylist() == stored.ids.tolist()
    words = rows["fragments"].to_pylist()
    assert [len(row) for row in words] == stored.lengths.tolist()
    np.testing.assert_allclose(np.concatenate(words), stored.vectors, atol=1e-6)
