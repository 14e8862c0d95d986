"""Rows of papers as parameters, and as listings."""

import json
from pathlib import Path

import pytest
from ruamel.yaml import YAML
from torchvision.models import get_model_weights

from tests.rules.sources import ROOT
from vse_pipe.core.errors import UsageError
from vse_pipe.extract import networks
from vse_pipe.papers import catalogue, listing
from vse_pipe.papers.catalogue import Entry
from vse_pipe.papers.overlay import ENSEMBLES, needs, overlay, run_name
from vse_pipe.project.params import load as loading
from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Params

DEMO = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
ENTRIES = [entry for paper in catalogue.names() for entry in catalogue.entries(paper)]
RUNNABLE = [entry for entry in ENTRIES if entry.settings is not None and not needs(entry)]


def applied(tmp_path, entry):
    """params.yaml of the demo with the row in it, loaded."""
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text())
    (tmp_path / "row.yaml").write_text(listing.text(entry, overlay(entry.paper, entry.id)))
    overlays.apply(path, str(tmp_path / "row.yaml"), [])
    return load(path)


@pytest.mark.acceptance
@pytest.mark.parametrize("paper", catalogue.names())
def test_every_row_that_can_run_makes_params_that_load(monkeypatch, paper):
    """Without writing them: reading YAML is most of the time, and rows below are written and read."""
    wrong, own = {}, [entry for entry in RUNNABLE if entry.paper == paper]
    for entry in own:
        document = json.loads(json.dumps({**DEMO, **overlay(entry.paper, entry.id)}))
        monkeypatch.setattr(loading, "read_document", lambda path, document=document: document)
        if differing := _differing(load(Path("params.yaml")), entry):
            wrong[entry.id] = differing
    assert wrong == {}
    assert own


def _differing(params: Params, entry: Entry) -> dict:
    """What these parameters say of the row, and what they should, where they differ."""
    name, similarity = run_name(entry), entry.settings.similarity
    names, marked = [name], params.runs.get(name)
    if similarity in ENSEMBLES:
        names = [f"{name}_{part}" for part in ENSEMBLES[similarity]]
        marked = params.ensembles[name]
        assert marked.members == tuple(names)
    assert list(params.runs) == names
    run, own = params.runs[names[0]], entry.settings
    pairs = {
        "row": (marked.row, entry.marker),
        "settings": (catalogue.located(marked.row).settings, own.model_copy(update={"inference": {}})),
        "loss": (run.loss.name, own.loss),
        "scheme": (run.scheme.name, own.scheme),
        "lr": (run.train.lr, own.train["lr"]),
        "criteria": (set(params.grid.inferences), {"nns", entry.row.inference}),
    }
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def test_a_row_of_regions_brings_the_data_set_they_are_of():
    """Each run that is localised is named in report.localized."""
    found = overlay("structure-preserving-cvpr2016", "3d-mined")
    assert list(found["datasets"]) == ["flickr30k_entities", "flickr30k_phrases_mined"]
    assert found["datasets"]["flickr30k_phrases_mined"]["source"] == "data/prepare/flickr30k_entities"
    assert found["report"]["localized"] == list(found["runs"])
    run = only(found)
    assert (run["scheme"], run["train"]["epochs"]) == ("hard_negatives", 33)
    assert run["options"]["loss"].items() >= {"lambda2": 0.1, "lambda3": 0.1, "reduction": "sum"}.items()


@pytest.mark.parametrize(
    ("row", "loss", "scheme", "warm_up", "epochs", "lr", "lr_update", "batch"),
    [
        ("coco-40-imram", "max", "plain", None, 20, 5e-4, 10, 128),
        ("f30k-40-saf", "max", "plain", None, 30, 2e-4, 20, 128),
        ("coco-20-ncr", "max", "ncr", 10, 30, 2e-4, 10, 128),
        ("cc152k-bicro", "max", "bicro", 10, 50, 2e-4, 30, 128),
        ("coco-80-decl-sgraf", "decl", "decl", 1, 21, 5e-4, 10, 128),
        ("cc152k-rcl-saf", "rcl", "plain", None, 40, 2e-4, 20, 128),
    ],
)
def test_rivals_of_l2rm_train_as_their_own_scripts_do(row, loss, scheme, warm_up, epochs, lr, lr_update, batch):
    for run in overlay("l2rm-cvpr2024", row)["runs"].values():
        train = run["train"]
        assert (run["loss"], run["scheme"]) == (loss, scheme)
        assert run["options"].get("scheme", {}).get("warm_up") == warm_up
        assert (train["epochs"], train["lr"], train["lr_update"], train["batch_size"]) == (epochs, lr, lr_update, batch)
        assert run["options"]["text"]["dropout"] == (0.0 if run["similarity"] == "imram" else 0.4)


def test_order_embeddings_under_hal_are_refused_with_the_reason():
    entry = catalogue.find("hal-aaai2020", "1.6")
    with pytest.raises(UsageError, match=r"row 1\.6 of hal-aaai2020 needs a loss 'hal' that learns from"):
        overlay(entry.paper, entry.id)
    assert needs(catalogue.find("hal-rgm-emnlp", "1.6")) == []


def test_resnets_have_the_weights_of_their_time():
    """Of VGG-19 torchvision has one set, whatever it is called: its entry stays, and with it features that are there."""
    weights = {"resnet152": set(), "vgg19": set()}
    for entry in (one for one in ENTRIES if one.paper in ("vsepp", "hal-aaai2020", "hal-rgm-emnlp") and one.settings):
        node = entry.settings.features
        if node["backbone"] in weights:
            source = networks._source(node["backbone"], node["weights"], get_model_weights(node["backbone"]))
            weights[node["backbone"]].add(source.file)
    assert weights == {"resnet152": {"resnet152-394f9c45.pth"}, "vgg19": {"vgg19-dcbb9e9d.pth"}}


def only(found: dict) -> dict:
    (run,) = found["runs"].values()
    return run


@pytest.mark.parametrize(
    ("paper", "row", "margin", "lr", "lr_update"),
    [
        ("hal-aaai2020", "1.2", 0.05, 2e-4, 15),  # Table 3
        ("hal-aaai2020", "2.10", 0.2, 2e-4, 10),
        ("hal-aaai2020", "1.1", 0.05, 1e-3, 10),
        ("hal-rgm-emnlp", "1.1", 0.2, 1e-3, 10),  # section 4.1
        ("vsepp", "4.3", 0.05, 1e-3, 15),
    ],
)
def test_presets_where_the_sources_disagree(paper, row, margin, lr, lr_update):
    run = only(overlay(paper, row))
    assert run["options"]["loss"]["margin"] == margin
    assert (run["train"]["lr"], run["train"]["lr_update"]) == (lr, lr_update)


# Row, variant, family, and what the variant alone changes.
READINGS = [
    ("l2rm-cvpr2024 f30k-60-l2rm-sgr", "printed", "scheme", {"sample_loss": "hardest", "warm_up_loss": "infonce"}),
    ("l2rm-cvpr2024 f30k-80-l2rm-sgraf", "printed", "scheme", {"sample_loss": "hardest"}),
    ("hal-aaai2020 2.12", "printed", "scheme", {"begins": 0}),
    ("hal-aaai2020 2.24", "whole", "scheme", {"begins": 0, "share": 1.0}),
    ("hal-rgm-emnlp 2.23", "cell", "loss", {"reading": "B"}),
    ("hal-rgm-emnlp 2.12", "full", "loss", {"gradient": "full"}),
    ("vsepp 3.17", "code", "image", {"batch_norm": "updated"}),
]


@pytest.mark.parametrize(("row", "variant", "family", "changed"), READINGS)
def test_a_reading_changes_what_it_names_and_nothing_else(row, variant, family, changed):
    paper, _, name = row.partition(" ")
    documents = [overlay(paper, name)["runs"].values(), overlay(paper, f"{name}:{variant}")["runs"].values()]
    for run, reading in zip(*documents, strict=True):
        options = run["options"]
        assert all(options[family][key] != value for key, value in changed.items())
        options = {**options, family: {**options[family], **changed}}
        assert {**reading, "row": None} == {**run, "options": options, "row": None}


def test_nothing_in_the_file_it_is_written_into_changes_the_row(tmp_path):
    entry = catalogue.find("hal-aaai2020", "2.1")
    clean = applied(tmp_path, entry)
    path = tmp_path / "params.yaml"
    content = YAML(typ="safe").load((ROOT / "params.yaml").read_text())
    content["text"]["gru"] = {"layers": 3, "word_dim": 7, "use_abs": True}
    content["image"]["linear"] = {"no_imgnorm": True}
    content["loss"]["sum"] = {"margin": 9.0}
    content["train"] = {**content["train"], "mask_same_image": True, "grad_clip": 9.0, "val_images": 3}
    with path.open("w") as file:
        YAML().dump(content, file)
    overlays.apply(path, str(tmp_path / "row.yaml"), [])
    assert load(path).runs == clean.runs


def test_no_two_models_share_a_run():
    names = {(run_name(entry), entry.marker) for entry in ENTRIES if entry.settings is not None}
    assert len({name for name, _ in names}) == len(names)
    assert all("." not in name and ":" not in name for name, _ in names)
