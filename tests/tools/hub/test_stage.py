"""A run packed for a hub, its card, and another run that takes the model from there."""

import json
from pathlib import Path

import numpy as np
import pytest
from huggingface_hub import ModelCard
from ruamel.yaml import YAML

from tests.made import INFERENCES
from vse_pipe.artifacts import embeddings, evaluation, model_files
from vse_pipe.core.errors import InputError, IntegrityError, PipelineError, UsageError
from vse_pipe.core.files import sha256
from vse_pipe.embed.stage import embed
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.stages import declarations
from vse_pipe.tools.pack import pack
from vse_pipe.train import stage

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
    assert (data.license, data.library_name, data.datasets, data.model_name) == (
        "apache-2.0",
        "vse-pipe",
        ["toy"],
        "sum",
    )
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


WRONG = {
    "no model": (lambda: (paths.trained("sum") / model_files.MODEL).unlink(), InputError, "does not exist"),
    "damaged": (
        lambda: (paths.trained("sum") / model_files.VOCABULARY).write_text('{"words": []}'),
        IntegrityError,
        "content does not match the digest",
    ),
    "other texts": (
        lambda: rewrite(paths.extracted("toy", "words") / "meta.json", lambda meta: meta["sha256"].update(x="0")),
        IntegrityError,
        "made from other texts than there are now",
    ),
}


def retrained() -> None:
    changed = load(paths.PARAMS, ["train.lr=0.02"])
    stage.train(changed, "sum", "cpu")


WRONG["figures of another model"] = (
    retrained,
    IntegrityError,
    "data/embed/sum: made from other weights than there are now",
)


def retrained_with_another_loss() -> None:
    stage.train(load(paths.PARAMS, ["runs.sum.loss=max"]), "sum", "cpu")


WRONG["another loss than params.yaml names"] = (
    retrained_with_another_loss,
    UsageError,
    "params.yaml runs.sum.loss is .*write what it has",
)


def rewrite(path: Path, change) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_not_whole_is_not_packed(params, wrong):
    damage, error, message = WRONG[wrong]
    damage()
    with pytest.raises(error, match=message):
        pack(params, "sum", HUB.resolve(), None)
    assert not HUB.exists()
