"""`vse-pipe rank` on the user's files: figures against plain loops, what it writes, and one message a fault."""

import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import failure, json_document
from tests.commands.script import arguments, prefixed
from tests.evaluate.files import sample, write, write_npy
from tests.naive import evaluate as naive


def evaluated(call, files, inference: str = "nns", *more: object, before: tuple = ()) -> dict:
    given = (*before, "rank", *arguments(files), "--inference", inference)
    return json_document(call, *given, *more, "--json", "--device", "cpu")


def holds(found: dict, scores: np.ndarray, correct: list[set[int]]) -> None:
    """The figures are those of loops over the scores."""
    ranks = [naive.best_rank(row, own, "pessimistic") for row, own in zip(scores.tolist(), correct, strict=True)]
    wanted = {f"r@{k}": naive.recall(ranks, k) for k in (1, 5, 10)}
    wanted |= {"med_r": naive.median_rank(ranks), "mean_r": naive.mean_rank(ranks)}
    assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-5)


def of_image(queries, items) -> list[set[int]]:
    return [set(np.flatnonzero(items == query).tolist()) for query in queries]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 8), pa.list_(pa.float64()), pa.large_list(pa.float32())])
def test_parquet_gives_the_figures_of_the_loops(call, tmp_path, kind):
    one = sample()
    document, scores = evaluated(call, write(one, tmp_path, kind)), one.cosines()
    holds(document["image_to_text"], scores, of_image(one.image_ids, one.owners))
    holds(document["text_to_image"], scores.T, of_image(one.owners, one.image_ids))
    assert 20 < document["image_to_text"]["r@1"] < 95
    recalls = [document[way][f"r@{k}"] for way in ("image_to_text", "text_to_image") for k in (1, 5, 10)]
    assert document["rsum"] == pytest.approx(sum(recalls), abs=1e-5)


def test_parameters_are_chosen_under_the_bank_that_is_used(call, tmp_path):
    write(sample(seed=1, first=500), tmp_path, prefix="val_")
    write(sample(seed=3, first=900, noise=4.0), tmp_path, prefix="bank_")

    def chosen(**more: object) -> float:
        before = ("-S", "evaluate.tune=true", "-S", "inference.is.beta_grid=[0.5, 5.0, 20.0]")
        document = evaluated(call, replace(write(sample(), tmp_path), **more), "is", before=before)
        return document["tuned"]["text_to_image"]["beta"]

    def on_val(beta: float) -> float:
        files = replace(write(sample(seed=1, first=500), tmp_path), **prefixed(tmp_path, "bank_"))
        found = evaluated(call, files, "is", before=("-S", f"inference.is.beta={beta}"))["text_to_image"]
        return sum(found[f"r@{k}"] for k in (1, 5, 10))

    wanted = max((0.5, 5.0, 20.0), key=on_val)
    assert chosen(**prefixed(tmp_path, "val_", "bank_")) == wanted != chosen(**prefixed(tmp_path, "val_"))


def test_judgements_are_many_to_many_and_unjudged_queries_are_counted(call, tmp_path):
    one, rng = sample(), np.random.default_rng(3)
    judged = {
        (caption, image)
        for caption, owner in zip(one.caption_ids[:40].tolist(), one.owners[:40].tolist(), strict=True)
        for image in {owner, int(rng.choice(one.image_ids))}
    }
    (tmp_path / "q.tsv").write_text("caption_id\timage_id\n" + "".join(f"{c}\t{i}\n" for c, i in sorted(judged)))
    files = replace(write(one, tmp_path), qrels=str(tmp_path / "q.tsv"))
    document, scores = evaluated(call, files), one.cosines()
    for way, matrix, queries, items, pairs in [
        ("text_to_image", scores.T, one.caption_ids, one.image_ids, judged),
        ("image_to_text", scores, one.image_ids, one.caption_ids, {(i, c) for c, i in judged}),
    ]:
        correct = [{n for n, item in enumerate(items.tolist()) if (query, item) in pairs} for query in queries.tolist()]
        kept, figures = [row for row, own in enumerate(correct) if own], document[way]
        holds(figures, matrix[kept], [correct[row] for row in kept])
        counts = (figures["queries"], figures["unjudged"], figures["items"])
        assert counts == (len(kept), len(queries) - len(kept), len(items))
    assert (document["text_to_image"]["unjudged"], document["qrels"]) == (20, files.qrels)
    out = call("rank", *arguments(files), "--inference", "nns")[1]
    assert "t2i: 20 of 60 queries have no judged item and are in no figure" in " ".join(out.split())


def test_out_holds_what_an_evaluation_holds_and_nothing_else_is_replaced(call, tmp_path):
    files = write(sample(), tmp_path)
    document = evaluated(call, files, "csls", "--out", "out")
    before = {path.name: path.read_bytes() for path in (tmp_path / "out" / "csls").iterdir()}
    assert set(before) == {"metrics.json", "ranks.parquet", "occurrence.parquet"}
    assert json.loads(before["metrics.json"]) == document
    assert not (tmp_path / "out.lock").exists()
    evaluated(call, files, "csls", "--out", "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out" / "csls").iterdir()} == before
    thesis = tmp_path / "out" / "nns" / "thesis.tex"
    thesis.parent.mkdir()
    thesis.write_text("years of work")
    assert "exists and is not an evaluation" in failure(call, 2, "rank", *arguments(files), "--out", "out")
    assert thesis.read_text() == "years of work"


FILES = ("--images", "a.npy", "--captions", "b.npy")
USAGE = [
    (("--images", "a.npy"), "--images and --captions go together"),
    ((*FILES, "--bank-images", "c.npy"), "--bank-images and --bank-captions go together"),
]


@pytest.mark.parametrize(("given", "message"), USAGE, ids=[message for _, message in USAGE])
def test_options_that_do_not_go_together_are_status_2(call, given, message):
    status, out, err = call("rank", *given)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("evaluate.bank=train", "evaluate.bank and evaluate.split name parts of a run"),
        ("evaluate.tune=true", "csls: nothing chooses parameters without --val-images and --val-captions"),
    ],
)
def test_overrides_are_checked_as_params_yaml_is(call, tmp_path, override, message):
    err = failure(call, 2, "-S", override, "rank", *arguments(write(sample(), tmp_path)), "--inference", "csls,is")
    assert err.startswith(f"error: {message}"), err


def test_a_bank_with_vectors_that_are_ranked_is_refused(call, tmp_path):
    write(sample(), tmp_path, prefix="bank_")
    files = replace(write(sample(), tmp_path), **prefixed(tmp_path, "bank_"))
    err = failure(call, 3, "rank", *arguments(files), "--inference", "is")
    assert err.startswith("error: 24 of the 24 images that are ranked are in the bank too")


def test_files_that_do_not_belong_together_are_refused(call, tmp_path):
    def refused(files, *more: object) -> str:
        return failure(call, 3, "rank", *arguments(files), *more)

    err = refused(replace(write_npy(sample(), tmp_path), caption_images=None))
    assert "nothing says which caption belongs to which image; give --caption-images or --qrels" in err
    one = sample(first=0)
    rows = np.searchsorted(one.image_ids, one.owners, sorter=(order := np.argsort(one.image_ids)))
    numbers = np.arange(len(rows))  # a picture lies there once for each caption, as in Flickr30k's precomputed features
    again = one.but(image_ids=numbers, images=one.images[order[rows]], owners=numbers)
    assert "a.npy: 60 images have 24 different vectors; keep one of each" in refused(write_npy(again, tmp_path))
    files = write(sample(), tmp_path)
    err = refused(replace(files, val_images=files.images, val_captions=files.captions), "--inference", "rgm")
    assert err.startswith("error: 24 of the 24 images that are ranked are in the validation data too")
    for path, run in ((files.images, "a"), (files.captions, "b")):
        pq.write_table(pq.read_table(path).replace_schema_metadata({"run": run, "model_sha256": 64 * run}), path)
    err = refused(files)
    assert "b.parquet: model_sha256 is 'bbbb" in err
    assert "; both must come from one model" in err
