"""The loop of docs/cleaning.md: audit, review, decisions applied, training, comparison.

Pictures are rendered, and faults are planted in a table of them. The tests of this file build on each other, in order.
"""

import csv
import json
import re
import shutil
from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from tests.rules.sources import ROOT
from tests.small_project import Project
from vse_pipe.artifacts import decisions

pytestmark = pytest.mark.acceptance

RENDERED = """\
datasets:
  shapes: {format: shapes, source: requirements.txt, train: 240, val: 40, test: 60, near_duplicates: 0, vague: 0}
"""
RUN = """\
dataset: mine, features: main, texts: words, loss: infonce, scheme: plain, similarity: cosine, text: two_branch,
     image: linear"""
BEFORE = f"""\
replace: nodes
datasets: {{mine: {{format: csv, source: photos/captions.csv}}}}
features: {{main: {{dataset: mine, backbone: random_filters}}}}
texts: {{words: {{dataset: mine, method: tfidf}}}}
noises: {{as_is: {{dataset: mine, protocol: as_is}}}}
runs:
  before: {{{RUN}, noise: as_is}}
grid: {{inferences: [nns]}}
train: {{epochs: 8, batch_size: 64, lr: 1.0e-3, embed_size: 64, mask_same_image: true}}
"""
AFTER = f"""\
datasets: {{mine: {{format: csv, source: photos/captions.csv, decisions: decisions.csv}}}}
noises: {{cleaned: {{dataset: mine, protocol: decisions, file: decisions.csv, base: as_is}}}}
runs:
  after: {{{RUN}, noise: cleaned}}
"""
MISMATCHED, COPIES = 400, {"duplicate": ("train", 5), "leak": ("test", 3)}
AUDITED = "data/audit/datasets/mine"


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    """A project of its own with the rendered pictures in photos/."""
    folder = tmp_path_factory.mktemp("home")
    made = Project(folder, forked=True)
    made.environment["PYTHONPATH"] = str(ROOT / "pipeline")
    made.run("vse-pipe", "init", "mine")
    made.root = folder / "mine"
    for name, text in (("shapes", RENDERED), ("before", BEFORE), ("after", AFTER)):
        (made.root / f"{name}.yaml").write_text(text)
    made.run("vse-pipe", "apply", "shapes.yaml")
    made.run("vse-pipe", "prepare")
    shutil.copytree(made.root / "data/prepare/shapes/images", made.root / "photos")
    return made


@pytest.fixture(scope="module")
def planted(project) -> dict[str, set]:
    """What findings should name: (file, caption) of mismatched pairs, the two files of copies."""
    rng, folder = np.random.default_rng(0), project.root / "data/prepare/shapes"
    images, rows = (pd.read_parquet(folder / f"{name}.parquet") for name in ("images", "captions"))
    rows["image"] = rows["image_id"].map(images.set_index("image_id")["file"]).str.rpartition("/")[2]
    moved = rng.choice(rows.index[rows["split"] == "train"], MISMATCHED, replace=False)
    names = rows.loc[moved, "image"].to_numpy()
    rows.loc[moved, "image"] = np.roll(names, 1)
    wrong = rows.loc[moved][np.roll(names, 1) != names]
    truth: dict[str, set] = defaultdict(set, pair=set(zip(wrong["image"], wrong["text"], strict=True)))
    for kind, (split, count) in COPIES.items():
        for number, name in enumerate(rng.choice(rows["image"][rows["split"] == split].unique(), count, replace=False)):
            copy = f"{kind}_{number}.jpg"
            Image.open(project.root / "photos" / name).convert("RGB").save(project.root / "photos" / copy, quality=60)
            text = f"{kind} {number}: {rows['text'][rows['image'] == name].iloc[0]}"
            rows.loc[len(rows)] = {"image": copy, "text": text, "split": "train"}
            truth[kind].add(frozenset((copy, name)))
    with (project.root / "photos/captions.csv").open("w", newline="") as file:
        table = rows[["image", "text", "split"]].to_numpy().tolist()
        csv.writer(file).writerows([["image", "caption", "split"], *table])
    return truth


@pytest.fixture(scope="module")
def before(project, planted) -> None:
    project.run("vse-pipe", "apply", "before.yaml")
    project.run("dvc", "repro", "evaluate")


def _findings(project, kind: str) -> pd.DataFrame:
    rows = decisions.read(project.root / AUDITED / "prepared/findings.csv")
    return rows[rows["kind"] == kind]


def test_the_audit_finds_what_was_planted(project, planted, before):
    metrics = json.loads(project.call("vse-pipe", "audit", "--dataset", "mine", "--json").stdout)
    # Captions such as "one diamond" fit many pictures and count as doubtful too, so the number errs high here.
    planted_share = len(planted["pair"]) / metrics["pairs"]
    assert planted_share - 0.02 <= metrics["expected"] / metrics["pairs"] <= planted_share + 0.12
    assert len(planted["pair"]) <= metrics["interval"][1]
    for kind in COPIES:
        first = _findings(project, kind).head(20)[["file", "other_file"]].itertuples(index=False)
        assert planted[kind] <= {frozenset(files) for files in first}
    pairs = _findings(project, "pair")[["file", "caption"]].itertuples(index=False, name=None)
    right = [pair in planted["pair"] for pair in pairs]
    assert np.mean(right[:100]) > 0.8
    assert np.mean(right) > 0.65


@pytest.fixture(scope="module")
def after(project, before) -> str:
    for arguments in ("--auto 0.5 --kind pair --kind leak", "--auto 0.85 --kind duplicate"):
        project.run(*["vse-pipe", "review", "--dataset", "mine"], *arguments.split())
    project.run("vse-pipe", "apply", "after.yaml")
    return project.run("dvc", "repro", "evaluate")


def test_decisions_are_applied_to_the_data_set_and_to_its_pairs(project, planted, after):
    ran = set(re.findall(r"Running stage '([^']+)'", after))
    assert ran >= {"prepare@mine", "inject@cleaned", "train@before", "train@after", "evaluate@after"}
    images, captions, pairs = (
        pd.read_parquet(project.root / f"data/{path}.parquet")
        for path in ("prepare/mine/images", "prepare/mine/captions", "inject/mine/cleaned/pairs")
    )
    gone = {min(files, key=lambda name: not name.startswith("leak")) for files in planted["leak"]}
    assert not gone & set(images["file"])
    # Of each two copies in train one is left, with the captions of both and the decisions on their pairs.
    assert [len(files & set(images["file"])) for files in planted["duplicate"]] == [1] * 5
    dropped = set(pairs["caption_id"][pairs["weight"] == 0])
    rows = decisions.read(project.root / "decisions.csv")
    assert dropped == set(rows["id"][rows["kind"] == "pair"]) & set(captions["caption_id"])
    assert "not applied, because" not in after
    assert len(dropped) > 200


def test_the_cleaned_run_is_compared_on_the_same_pictures_and_is_better(project, after):
    told = project.call("vse-pipe", "compare", "before", "after", "--json", "--resamples", "100").stdout
    rsum = json.loads(told)["comparisons"][0]["rsum"]
    assert rsum["difference"] > 20
    left = json.loads(project.call("vse-pipe", "audit", "--noise", "cleaned", "--json").stdout)
    pairs = pd.read_parquet(project.root / "data/inject/mine/cleaned/pairs.parquet")
    used = pairs[(pairs["split"] == "train") & (pairs["weight"] > 0)]
    assert left["pairs"] == len(used)
