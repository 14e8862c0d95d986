"""Runs that train a pretrained pair, from pictures to figures: killed, packed, restored, between first and last weights."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from ruamel.yaml import YAML

from tests import pair_project as pairs
from tests.docs import pages
from tests.rules.sources import ROOT
from tests.train.some import check_resumes
from vse_pipe.artifacts import embeddings, model_files
from vse_pipe.core.errors import UsageError
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.export.encode import encode_captions
from vse_pipe.export.pack import pack
from vse_pipe.extract.stage import extract
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.prepare.stage import prepare
from vse_pipe.project import paths
from vse_pipe.project.params import overlay
from vse_pipe.project.params.load import load
from vse_pipe.project.params.typed import Params
from vse_pipe.report.stage import report
from vse_pipe.train.stage import train
from vse_pipe.train.trained import Trained

open_clip = pytest.importorskip("open_clip", reason="needs the extra open_clip")

RUN = {**pairs.RUN, "texts": "pieces", "scheme": "plain", "text": "open_clip", "image": "open_clip"}
ZERO = pairs.RUN
LORA = {"tune": "lora", "rank": 2, "lr": 1e-2}


def _run(**options: object) -> dict:
    return {**RUN, "options": {"image": options, "text": options}}


def _loaded(runs: dict, train: dict | None = None, model: str = "clip", **changes: object) -> Params:
    folder = Path("models") / model
    named = pairs.named(folder if folder.exists() else pairs.write_model(model))
    texts = {
        "said": {"dataset": "photos", "method": "open_clip", "device": "cpu", **named},
        "pieces": {"dataset": "photos", "method": "open_clip_tokens", "model": named["model"]},
    }
    options = {"epochs": 3, "batch_size": 5, "embed_size": 16, **(train or {})}
    return pairs.loaded(folder, runs, texts=texts, loss={"infonce": {"learn": True}}, train=options, **changes)


def _prepared(params: Params) -> Params:
    pairs.write_photos()
    prepare(params, "photos")
    extract(params, "seen", "cpu")
    for name in ("said", "pieces"):
        extract_texts(params, name)
    inject(params, "clean")
    return params


def _vectors(run: str) -> tuple[np.ndarray, np.ndarray]:
    names = (embeddings.IMAGES, embeddings.CAPTIONS)
    return tuple(embeddings.read(paths.embedded(run) / name).vectors for name in names)  # type: ignore[return-value]


@pytest.fixture(autouse=True)
def _here(folder):
    """Every project lies in a folder of its own."""


@pytest.mark.parametrize(
    ("options", "train"),
    [
        ({"lr": 1e-3}, {"precision": "bfloat16"}),
        (LORA, {"chunk": 3, "average": 0.9}),
    ],
)
def test_a_killed_run_goes_on_and_ends_bit_equal(options, train):
    check_resumes(_prepared(_loaded({"tuned": _run(**options)}, train)), "tuned", 1, 2, step=1)


def test_additions_train_alone_and_the_model_is_whole_wherever_it_lies():
    params = _prepared(_loaded({"zero": ZERO, "tuned": _run(**LORA)}))
    for run in ("zero", "tuned"):
        train(params, run, "cpu")
        embed(params, run, "cpu")
    for first, last in zip(_vectors("zero"), _vectors("tuned"), strict=True):
        assert np.abs(first - last).max() > 1e-3, "it has moved"
    assert evaluate(params, "tuned", ["nns"], "cpu")["nns"]["rsum"] > 0
    pack(params, "tuned", Path("packed"), None, open_clip=True)
    photos = [Path(f"raw/{number}.jpg").read_bytes() for number in range(3)]
    sentences = ["a red dog", "a blue tree " * 30]
    here = Trained.open(paths.trained("tuned"))
    expected = here.images(photos), here.captions(sentences)
    shutil.move("packed", "elsewhere")
    (Path("models/clip") / pairs.WEIGHTS).unlink()
    packed = Trained.open(Path("elsewhere"))
    assert all(map(torch.equal, (packed.images(photos), packed.captions(sentences)), expected))
    model, *_ = open_clip.create_model_and_transforms("local-dir:elsewhere/open_clip")
    ids = open_clip.get_tokenizer("local-dir:elsewhere/open_clip")(sentences)
    with torch.inference_mode():
        found = model.eval().encode_text(ids, normalize=True)
    torch.testing.assert_close(found, expected[1], rtol=1e-4, atol=1e-5)
    learned = model_files.read_config(paths.trained("tuned"))["loss"]["learned"]["log_tau"]
    assert model.logit_scale.item() == pytest.approx(-learned)
    Path("lines.txt").write_text("a red dog\na blue tree\n")
    encode_captions(params, "tuned", Path("lines.txt"), Path("lines.parquet"), "cpu")
    found = pq.read_table("lines.parquet")["embedding"][0].as_py()
    np.testing.assert_allclose(found, expected[1][0].numpy(), atol=1e-5)


def test_one_side_alone_trains_over_the_fixed_vectors_of_the_other():
    text = {**_run(lr=1e-3), "image": "identity", "options": {"text": {"lr": 1e-3}}}
    params = _prepared(_loaded({"zero": ZERO, "tuned": text}, {"epochs": 2}))
    for run in ("zero", "tuned"):
        train(params, run, "cpu")
        embed(params, run, "cpu")
    (images, captions), (first, before) = _vectors("tuned"), _vectors("zero")
    assert np.array_equal(images, first)
    assert np.abs(captions - before).max() > 1e-4
    (Path("models/clip") / pairs.WEIGHTS).unlink()
    embed(params, "tuned", "cpu")  # all weights are in the model
    assert np.array_equal(_vectors("tuned")[1], captions)
    with pytest.raises(UsageError, match="only a run whose image and text encoders are both 'open_clip'"):
        pack(params, "tuned", Path("packed"), None, open_clip=True)
    assert not Path("packed").exists()


@pytest.mark.acceptance
def test_the_overlay_on_200_rendered_pictures_from_pictures_to_the_report():
    """The five commands of docs/recipes.md with a random small pair: every stage, as `dvc repro` runs them, and `pack`."""
    around = ("A strong model of vectors", "Where runs are kept")
    steps = pages.steps(ROOT / "docs/recipes.md", around)
    shown = [step.shown for step in steps if isinstance(step, pages.Command)]
    assert [re.sub(r"-e '.*| (laion|-S|--).*", "", command) for command in shown] == [
        "pip install ", "hf download", "vse-pipe", "dvc repro", "vse-pipe pack"
    ]  # fmt: skip
    changes = YAML(typ="safe").load(overlay.find("tuned").read_text())
    changes.pop("replace")
    named = pairs.named(pairs.write_model("clip"))
    source = Path(overlay.__file__).parents[2] / "prepare" / "scenes"
    changes["datasets"] = {
        "mine": {"format": "shapes", "source": str(source), "train": 140, "val": 30, "test": 30, "pixels": 32}
    }
    for node in (changes["features"]["pair"], *changes["texts"].values()):
        node |= {**named, "pretrained": None} if "weights" in node else {"model": named["model"]}
    changes["train"] |= {"epochs": 2, "batch_size": 64, "embed_size": 16}
    for run in ("lora", "full"):
        for side in ("image", "text"):
            changes["runs"][run]["options"][side]["lr"] = 3e-3
    with paths.PARAMS.open("w", encoding="utf-8") as file:
        YAML().dump({**pairs.PARAMS, **changes, "report": {"examples": 2}}, file)
    params = load(paths.PARAMS)
    prepare(params, "mine")
    extract(params, "pair", "cpu")
    for texts in params.texts:
        extract_texts(params, texts)
    inject(params, "clean")
    for run in params.runs:
        train(params, run, "cpu")
        embed(params, run, "cpu")
        evaluate(params, run, ["nns", "csls"], "cpu")
    report(params)
    figures = json.loads(Path("reports/metrics.json").read_text())
    assert {"zero_shot", "probe", "lora", "full"} <= set(json.dumps(figures).replace('"', " ").split())
    shared = model_files.read_config(paths.trained("lora"))["loss"]["learned"]
    assert set(shared) == {"log_tau"}
    pack(params, "lora", Path("packed"), None, open_clip=True)
    open_clip.create_model_and_transforms("local-dir:packed/open_clip")
    first = model_files.read_history(paths.trained("lora")).loss
    assert first.iloc[-1] < first.iloc[0]
