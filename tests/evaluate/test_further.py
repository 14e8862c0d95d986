"""Recall at other K and judgements beside an evaluation of a run."""

import hashlib
from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.evaluate.embedded import correct, sides, ways
from tests.naive import evaluate as naive
from tests.toy_project import PARAMS, load_params
from vse_pipe.artifacts import captions, embeddings, evaluation, images
from vse_pipe.artifacts.evaluation import DIRECTIONS
from vse_pipe.core import console, tables
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.evaluate.table import figure_notes
from vse_pipe.project import paths

FILES = ("metrics.json", "ranks.parquet", "occurrence.parquet")


def measured(root, inference: str = "nns", **options) -> dict:
    return evaluate(load_params(root, evaluate=options), "sum", [inference], "cpu")[inference]


@pytest.fixture
def prepared(project):
    """The data set of the run, with a file for each image."""
    seen, read = sides()
    folder = paths.prepared("toy")
    folder.mkdir(parents=True, exist_ok=True)
    files = [f"a/picture-{image}.jpg" for image in seen.ids]
    size = pa.array(np.ones(len(files), np.int32))
    table = {"image_id": seen.ids, "file": files, "split": seen.splits, "width": size, "height": size, "sha256": files}
    images.write(folder, pa.table(table), "pictures")
    texts = ["a dog"] * len(read.ids)
    table = {"caption_id": read.ids, "image_id": read.image_ids, "text": texts, "split": read.splits}
    captions.write(folder, pa.table(table))
    return project


def judged(root, text: str, **options) -> dict:
    (root / "j.txt").write_text(text)
    return measured(root, judgements="j.txt", **options)["judged"]


def test_a_criterion_of_other_judgements_in_the_same_file_does_not_stay(prepared):
    captions_side = sides()[1].split("test")
    lines = [f"{image},{number},1\n" for number, image in zip(captions_side.ids, captions_side.image_ids, strict=True)]
    for graded, inference in ((lines, "nns"), (lines[:-1], "csls")):
        (prepared / "j.csv").write_text("image_id,caption_id,grade\n" + "".join(graded))
        measured(prepared, inference, judgements="j.csv")
    assert not paths.evaluated("sum", "nns").exists()
    assert paths.evaluated("sum", "csls").exists()


def rows_of(file: str, schema: pa.Schema):
    return tables.read(paths.evaluated("sum", "nns") / file, schema).to_pandas()


def test_other_k_are_added_and_nothing_else_changes(project):
    plain = measured(project)
    before = {name: (paths.evaluated("sum", "nns") / name).read_bytes() for name in FILES}
    measured(project, recall=[10, 1], ndcg=[10])
    assert {name: (paths.evaluated("sum", "nns") / name).read_bytes() for name in FILES} == before
    found = measured(project, recall=[3, 20], ndcg=[5])
    for direction, (scores, _, _, own, others) in ways().items():
        rows = zip(scores.tolist(), correct(own, others), strict=True)
        places = [naive.positions(row, right, "pessimistic") for row, right in rows]
        figures = found[direction]
        for k in (3, 20):
            assert figures[f"r@{k}"] == pytest.approx(naive.recall([one[0] for one in places], k), abs=1e-5)
            low, high = found["intervals"][direction][f"r@{k}"]
            assert low <= figures[f"r@{k}"] <= high
        wanted = 100 * np.mean([naive.ndcg(one, 5) for one in places])
        assert figures["ndcg@5"] == pytest.approx(wanted, abs=1e-5)
        added = {"r@3", "r@20", "ndcg@5"}
        assert set(figures) - set(plain[direction]) == added
        assert {name: value for name, value in figures.items() if name not in added} == plain[direction]
    assert found["rsum"] == plain["rsum"]
    ranks = evaluation.read_ranks(paths.evaluated("sum", "nns")).to_pandas()
    assert ((ranks["rank"] <= 3) == ranks["hit_3"]).all()
    assert ranks["ndcg_5"].between(0, 1).all()


def test_judgements_are_measured_beside_the_figures(prepared):
    plain = measured(prepared)
    rng = np.random.default_rng(0)
    seen, read = (side.split("test") for side in sides())
    pairs = {(int(rng.choice(seen.ids)), int(rng.choice(read.ids))): float(rng.integers(0, 4)) for _ in range(150)}
    lines = [f"{image},{caption},{grade}\n" for (image, caption), grade in pairs.items()]
    (prepared / "judged.csv").write_text("image_id,caption_id,grade\n" + "".join(lines))
    found = measured(prepared, judgements="judged.csv", correct_above=1)
    told = found["judged"]
    (line,) = set(figure_notes([found])) - set(figure_notes([plain]))
    shown = [f"{told[direction]['map@r']:.1f}" for direction in DIRECTIONS]
    assert line == f"nns: by judged.csv: mAP@R i2t {shown[0]}, t2i {shown[1]}"
    assert {key: value for key, value in found.items() if key != "judged"} == plain
    assert (told["file"], told["correct_above"]) == ("judged.csv", 1.0)
    table = rows_of("judged.parquet", evaluation.JUDGED_SCHEMA)
    for direction, (scores, queries, items, own, others) in ways().items():
        way = 1 if direction == "image_to_text" else -1
        cells = [[(query, item)[::way] for item in items] for query in queries]
        grades = [{n: pairs[pair] for n, pair in enumerate(row) if pair in pairs} for row in cells]
        right = [{n for n, grade in one.items() if grade > 1} for one in grades]
        kept = [row for row, correct in enumerate(right) if correct]
        assert told[direction]["queries"] == len(kept)
        places = [naive.positions(scores[row].tolist(), right[row], "pessimistic") for row in kept]
        wanted = 100 * np.mean([naive.average_precision_at_r(one) for one in places])
        assert told[direction]["map@r"] == pytest.approx(wanted, abs=1e-4)
        wanted = 100 * np.mean([naive.judged_ndcg(scores[row].tolist(), grades[row], 10) for row in kept])
        assert told[direction]["graded_ndcg@10"] == pytest.approx(wanted, abs=1e-4)
        cells = [(float(scores[q, n]), g, own[q] != others[n]) for q, one in enumerate(grades) for n, g in one.items()]
        assert told[direction]["kendall"]["judgements"] == len(pairs)
        wanted = naive.tau_b(*zip(*[cell[:2] for cell in cells], strict=True))
        assert told[direction]["kendall"]["tau_b"] == pytest.approx(wanted, abs=1e-4)
        foreign = [cell[:2] for cell in cells if cell[2]]
        assert told[direction]["kendall_foreign"]["judgements"] == len(foreign) < len(pairs)
        wanted = naive.tau_c(*zip(*foreign, strict=True))
        assert told[direction]["kendall_foreign"]["tau_c"] == pytest.approx(wanted, abs=1e-4)
        rows = table[table["direction"] == direction]
        assert rows["query_id"].tolist() == queries[kept].tolist()
        assert rows["rank"].tolist() == [one[0] + 1 for one in places]


def test_folds_rank_within_and_count_together(prepared):
    seen, read = (side.split("test") for side in sides())
    pairs = zip(read.image_ids, read.ids, strict=True)
    own = [f"{image} {caption} 2\n" for image, caption in pairs if image in seen.ids[:8]]
    found = judged(prepared, "image_id caption_id grade\n" + "".join(own), protocol="folds", fold_size=8)
    assert found["image_to_text"]["queries"] == 8
    ranks = evaluation.read_ranks(paths.evaluated("sum", "nns")).to_pandas()
    first = ranks.query("fold == 0 and direction == 'image_to_text'")
    assert found["image_to_text"]["map"] == pytest.approx(100 * first["ap"].mean(), abs=1e-5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("image_id caption_id grade\n1 2 3\n", "none of its 1 rows is of images and captions that are there"),
    ],
)
def test_files_that_cannot_be_used(prepared, text, message):
    with pytest.raises(InputError, match=rf"(?s)j\.txt: .*{message}"):
        judged(prepared, text)
    assert not paths.evaluated("sum", "nns").exists()


def test_a_file_belongs_to_its_data_set(prepared):
    """With the digest that params.yaml says, where it says one."""
    read = sides()[1].split("test")
    text = f"image_id caption_id grade\n{read.image_ids[0]} {read.ids[0]} 1\n"
    (prepared / "j.txt").write_text(text)
    known = {"j.txt": hashlib.sha256(text.encode()).hexdigest()}
    assert measured(prepared, judgements={"toy": "j.txt"}, sha256=known)["judged"]["file"] == "j.txt"
    with pytest.raises(IntegrityError, match=r"j\.txt: sha256 is .*, expected 000"):
        measured(prepared, judgements={"toy": "j.txt"}, sha256={"j.txt": "0" * 64})


def test_judgements_that_are_not_ranked_are_counted(prepared):
    ranked, other = (sides()[1].split(name) for name in ("test", "val"))
    rows = [f"{one.image_ids[n]} {one.ids[n]} {n}\n" for one in (ranked, other, other) for n in (0, 1)]
    (prepared / "j.txt").write_text("image_id caption_id grade third\n" + "".join(rows).replace("\n", " 9\n"))
    found = measured(prepared, judgements="j.txt")
    for direction in DIRECTIONS:
        assert (found["judged"][direction]["unranked"], found["judged"][direction]["kendall"]["judgements"]) == (4, 2)


@pytest.mark.parametrize("how", [{"rule": "rrf"}, {"rescore": 5}, {"rule": "mean"}])
def test_places_of_different_queries_say_nothing_about_agreement(prepared, how, monkeypatch):
    for side, file in zip(sides(noise=0.9), (embeddings.IMAGES, embeddings.CAPTIONS), strict=True):
        paths.embedded("other").mkdir(parents=True, exist_ok=True)
        embeddings.write(paths.embedded("other") / file, replace(side, about={**side.about, "run": "other"}))
    read = sides()[1].split("test")
    rows = [f"{image} {caption} {caption % 3}\n" for image, caption in zip(read.image_ids, read.ids, strict=True)]
    (prepared / "j.txt").write_text("image_id caption_id grade\n" + "".join(rows))
    node = {"runs": ["sum", "other"], **how}
    runs = dict.fromkeys(("sum", "other"), PARAMS["runs"]["sum"])
    params = load_params(prepared, runs=runs, ensembles={"both": node}, evaluate={"judgements": "j.txt"})
    found = evaluate(params, "both", ["nns"], "cpu")["nns"]["judged"]
    for direction in DIRECTIONS:
        assert ("tau_b" in found[direction]["kendall"]) == (how == {"rule": "mean"})
    alone = (
        nullcontext()
        if how == {"rule": "mean"}
        else pytest.raises(UsageError, match="scale for each query; rank it under")
    )
    with alone:
        evaluate(params, "both", ["gm"], "cpu")
    warned = []
    monkeypatch.setattr(console, "warn", warned.append)
    for run in ("sum", "both"):
        evaluate(params, run, [], "cpu")
    assert ["grid.inferences has nothing but matchings" in line for line in warned] == [True] * (
        how != {"rule": "mean"}
    )
    assert (paths.evaluations("both") / "nns").is_dir(), "what was measured stays"
