"""vse-pipe evaluate on files of one's own: the figures, against plain loops, and what is printed and written."""

import json
import math
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from tests.commands.options import arguments
from tests.evaluate.embedded import sides
from tests.evaluate.embedded import write as write_run
from tests.evaluate.files import sample, write, write_npy
from tests.naive import evaluate as naive
from tests.toy_project import write_params
from vse_pipe.artifacts import evaluation


def evaluated(call, files, *more: object, before: tuple = ()) -> dict:
    status, out, err = call(*before, "evaluate", *arguments(files), *more, "--json", "--device", "cpu")
    assert status == 0, err
    return json.loads(out)


def expected(scores: np.ndarray, correct: list[set[int]]) -> dict[str, float]:
    ranks = [naive.best_rank(row, own, "pessimistic") for row, own in zip(scores.tolist(), correct, strict=True)]
    return {f"r@{k}": naive.recall(ranks, k) for k in (1, 5, 10)} | {
        "med_r": naive.median_rank(ranks),
        "mean_r": naive.mean_rank(ranks),
    }


def holds(found: dict, wanted: dict) -> None:
    for name, value in wanted.items():
        assert found[name] == pytest.approx(value, abs=1e-5), name


def of_image(queries, items) -> list[set[int]]:
    return [set(np.flatnonzero(items == query).tolist()) for query in queries]


@pytest.mark.parametrize("kind", [pa.list_(pa.float32(), 8), pa.list_(pa.float64()), pa.large_list(pa.float32())])
def test_parquet_gives_the_figures_of_the_loops(call, tmp_path, kind):
    one = sample()
    document = evaluated(call, write(one, tmp_path, kind), "--inference", "nns")
    scores = one.cosines()
    holds(document["image_to_text"], expected(scores, of_image(one.image_ids, one.owners)))
    holds(document["text_to_image"], expected(scores.T, of_image(one.owners, one.image_ids)))
    assert 20 < document["image_to_text"]["r@1"] < 95
    assert document["rsum"] == pytest.approx(
        sum(document[way][f"r@{k}"] for way in ("image_to_text", "text_to_image") for k in (1, 5, 10)), abs=1e-5
    )


def test_npy_with_ids_gives_the_document_of_parquet(call, tmp_path):
    one = sample()
    paths = {"images", "captions"}
    first, second = (
        {key: value for key, value in evaluated(call, files, "--inference", "is").items() if key not in paths}
        for files in (write(one, tmp_path), write_npy(one, tmp_path))
    )
    assert first == second


def test_without_ids_images_are_numbered(call, tmp_path):
    one = sample()
    place = {image: row for row, image in enumerate(one.image_ids.tolist())}
    files = write_npy(one.but(owners=np.array([place[owner] for owner in one.owners.tolist()])), tmp_path)
    bare = replace(files, image_ids=None, caption_ids=None)
    document = evaluated(call, bare, "--inference", "csls")
    assert document["rsum"] == evaluated(call, write(one, tmp_path), "--inference", "csls")["rsum"]


def test_float16_input_is_ranked(call, tmp_path):
    one = sample()
    narrow = one.but(images=one.images.astype(np.float16), captions=one.captions.astype(np.float16))
    document = evaluated(call, write(narrow, tmp_path, pa.list_(pa.float16(), 8)), "--inference", "nns")
    holds(document["image_to_text"], expected(narrow.cosines(), of_image(one.image_ids, one.owners)))
    again = evaluated(call, write_npy(one, tmp_path, np.float16), "--inference", "nns")
    assert again["image_to_text"] == document["image_to_text"]


def test_dot_leaves_lengths_alone(call, tmp_path):
    one = sample()
    document = evaluated(call, write(one, tmp_path), "--inference", "nns", "--similarity", "dot")
    scores = one.images.astype(np.float64) @ one.captions.T.astype(np.float64)
    holds(document["text_to_image"], expected(scores.T, of_image(one.owners, one.image_ids)))
    assert document["similarity"] == "dot"
    assert document["text_to_image"] != evaluated(call, write(one, tmp_path), "--inference", "nns")["text_to_image"]


def test_one_criterion_is_one_document_several_are_keyed(call, tmp_path):
    files = write(sample(), tmp_path)
    status, out, _ = call("evaluate", *arguments(files), "--inference", "csls", "--json")
    assert status == 0
    document = json.loads(out)
    assert out == json.dumps(document, indent=2, sort_keys=True) + "\n"
    assert {"image_to_text", "text_to_image", "rsum", "hs_sum", "inference", "bank"} <= set(document)
    assert (document["inference"], document["bank"], document["transductive"]) == ("csls", "test", True)
    assert all(math.isfinite(value) for value in document["image_to_text"].values())
    both = evaluated(call, files, "--inference", "csls, nns", "--inference", "nns")
    assert list(both) == ["csls", "nns"]
    assert both["csls"] == document
    assert list(evaluated(call, files)) == ["csls", "is", "nns"]


def test_overrides_reach_protocol_and_criteria(call, tmp_path):
    files = write(sample(), tmp_path)
    plain = evaluated(call, files, "--inference", "is")
    other = evaluated(call, files, "--inference", "is", before=("-S", "inference.is.beta=1.5"))
    assert plain["rsum"] != other["rsum"]
    average = evaluated(call, files, "--inference", "nns", before=("-S", "evaluate.ties=average"))
    assert average["ties"] == "average"
    folds = ("-S", "evaluate.protocol=folds", "-S", "evaluate.fold_size=8")
    assert evaluated(call, files, "--inference", "nns", before=folds)["folds"] == 3
    first = evaluated(call, files, "--inference", "nns", before=("-S", "evaluate.protocol=first", *folds[2:]))
    assert (first["protocol"], first["folds"], first["image_to_text"]["queries"]) == ("first", 1, 8)


def test_a_bank_of_its_own_is_inductive(call, tmp_path):
    one, bank = sample(), sample(seed=1, first=500)
    write(bank, tmp_path, prefix="bank_")
    files = replace(
        write(one, tmp_path), bank_images=tmp_path / "bank_a.parquet", bank_captions=tmp_path / "bank_b.parquet"
    )
    document = evaluated(call, files, "--inference", "csls,rgm", before=("-S", "inference.rgm.lam=2"))
    csls = document["csls"]
    assert (csls["transductive"], csls["bank"]) == (False, f"{files.bank_images}, {files.bank_captions}")
    # By loops: 2 s - mean of the item's 10 largest similarities to the bank's queries.
    near = sample().but(images=bank.images).cosines()
    scores = 2 * one.cosines() - np.sort(near, axis=0)[-10:].mean(axis=0)
    holds(csls["image_to_text"], expected(scores, of_image(one.image_ids, one.owners)))
    assert document["rgm"]["bank"] == "none"


def test_parameters_are_chosen_on_validation_files(call, tmp_path):
    write(sample(seed=1, first=500), tmp_path, prefix="val_")
    files = replace(
        write(sample(), tmp_path), val_images=tmp_path / "val_a.parquet", val_captions=tmp_path / "val_b.parquet"
    )
    before = ("-S", "evaluate.tune=true", "-S", "inference.rgm.grid=[1.0, 2.0, 8.0]")
    document = evaluated(call, files, "--inference", "csls,rgm", before=before)
    assert document["csls"]["tuned"]["text_to_image"]["k"] in (1, 2, 5, 10, 20, 50)
    assert set(document["rgm"]["tuned"]["text_to_image"]["lambda"]) == {"1", "5", "10"}


def test_parameters_are_chosen_under_the_bank_that_is_used(call, tmp_path):
    write(sample(seed=1, first=500), tmp_path, prefix="val_")
    write(sample(seed=3, first=900, noise=4.0), tmp_path, prefix="bank_")
    val = {"val_images": tmp_path / "val_a.parquet", "val_captions": tmp_path / "val_b.parquet"}
    bank = {"bank_images": tmp_path / "bank_a.parquet", "bank_captions": tmp_path / "bank_b.parquet"}
    before = ("-S", "evaluate.tune=true", "-S", "inference.is.beta_grid=[0.5, 5.0, 20.0]")
    files = replace(write(sample(), tmp_path), **val, **bank)
    chosen = evaluated(call, files, "--inference", "is", before=before)["tuned"]["text_to_image"]["beta"]
    own = evaluated(call, replace(files, bank_images=None, bank_captions=None), "--inference", "is", before=before)
    on_val = replace(write(sample(seed=1, first=500), tmp_path), **bank)
    rsums = {
        beta: sum(
            evaluated(call, on_val, "--inference", "is", before=("-S", f"inference.is.beta={beta}"))["text_to_image"][
                f"r@{k}"
            ]
            for k in (1, 5, 10)
        )
        for beta in (0.5, 5.0, 20.0)
    }
    assert chosen == max(rsums, key=rsums.get)
    assert own["tuned"]["text_to_image"]["beta"] != chosen


def test_judgements_are_many_to_many_and_unjudged_queries_are_counted(call, tmp_path):
    one = sample()
    rng = np.random.default_rng(3)
    judged = {
        (caption, image)
        for caption, owner in zip(one.caption_ids[:40].tolist(), one.owners[:40].tolist(), strict=True)
        for image in {owner, int(rng.choice(one.image_ids))}
    }
    (tmp_path / "q.tsv").write_text("caption_id\timage_id\n" + "".join(f"{c}\t{i}\n" for c, i in sorted(judged)))
    files = replace(write(one, tmp_path), qrels=str(tmp_path / "q.tsv"))
    document = evaluated(call, files, "--inference", "nns")
    scores = one.cosines()
    for way, matrix, queries, items, pairs in [
        ("text_to_image", scores.T, one.caption_ids, one.image_ids, judged),
        ("image_to_text", scores, one.image_ids, one.caption_ids, {(i, c) for c, i in judged}),
    ]:
        correct = [{n for n, item in enumerate(items.tolist()) if (query, item) in pairs} for query in queries.tolist()]
        kept = [row for row, own in enumerate(correct) if own]
        holds(document[way], expected(matrix[kept], [correct[row] for row in kept]))
        figures = document[way]
        assert (figures["queries"], figures["unjudged"]) == (len(kept), len(queries) - len(kept))
        assert figures["items"] == len(items)
    assert document["text_to_image"]["unjudged"] == 20
    assert document["qrels"] == files.qrels
    _, out, _ = call("evaluate", *arguments(files), "--inference", "nns")
    assert "t2i: 20 of 60 queries have no judged item and are in no figure" in " ".join(out.split())


def test_judgements_do_without_the_captions_image(call, tmp_path):
    one = sample()
    lines = [f"{caption} 0 {image} 1\n" for caption, image in zip(one.caption_ids, one.owners, strict=True)]
    (tmp_path / "q.trec").write_text("".join(lines))
    files = replace(write_npy(one, tmp_path), caption_images=None, qrels=str(tmp_path / "q.trec"))
    by_image = evaluated(call, write(one, tmp_path), "--inference", "csls,gm")
    by_pairs = evaluated(call, files, "--inference", "csls,gm", "--out", "out")
    ranks = evaluation.read_ranks(tmp_path / "out" / "csls").to_pandas()
    captions = ranks[ranks.direction == "text_to_image"]
    owners = dict(zip(one.caption_ids.tolist(), one.owners.tolist(), strict=True))
    assert captions.image_id.tolist() == [owners[query] for query in captions.query_id]
    for name in ("csls", "gm"):
        assert by_pairs[name]["rsum"] == by_image[name]["rsum"]
        assert by_pairs[name]["text_to_image"]["unjudged"] == 0


def test_judgements_of_what_is_not_there_are_said(call, tmp_path):
    one = sample()
    (tmp_path / "q.txt").write_text(f"{one.caption_ids[0]} 0 {one.owners[0]} 1\n77 0 {one.owners[0]} 1\n")
    files = replace(write(one, tmp_path), qrels=str(tmp_path / "q.txt"))
    _, _, err = call("evaluate", *arguments(files), "--inference", "nns")
    assert f"1 of the 2 caption_ids judged are not in {files.captions}, the first is 77" in err


def test_the_table_says_what_the_figures_mean(call, tmp_path):
    files = write(sample(), tmp_path)
    status, out, err = call("-S", "inference.rgm.lam=2", "evaluate", *arguments(files), "--inference", "nns,csls,rgm")
    text = " ".join(out.split())
    assert status == 0, err
    assert "csls: hubs corrected with the test queries themselves (transductive" in text
    assert "rgm: queries are matched together (transductive" in text
    assert "nns:" not in text


def test_out_holds_what_an_evaluation_holds_and_nothing_else_is_replaced(call, tmp_path):
    files = write(sample(), tmp_path)
    document = evaluated(call, files, "--inference", "csls", "--out", "out")
    assert {path.name for path in (tmp_path / "out" / "csls").iterdir()} == {
        "metrics.json",
        "ranks.parquet",
        "occurrence.parquet",
    }
    assert json.loads((tmp_path / "out" / "csls" / "metrics.json").read_text()) == document
    assert not (tmp_path / "out.lock").exists()
    before = {path.name: path.read_bytes() for path in (tmp_path / "out" / "csls").iterdir()}
    evaluated(call, files, "--inference", "csls", "--out", "out")
    assert {path.name: path.read_bytes() for path in (tmp_path / "out" / "csls").iterdir()} == before
    (tmp_path / "out" / "nns").mkdir()
    (tmp_path / "out" / "nns" / "thesis.tex").write_text("years of work")
    status, _, err = call("evaluate", *arguments(files), "--out", "out")
    assert (status, (tmp_path / "out" / "nns" / "thesis.tex").read_text()) == (2, "years of work")
    assert "exists and is not an evaluation" in err


def test_a_project_around_it_changes_nothing(call, tmp_path):
    files = write(sample(), tmp_path)
    before = evaluated(call, files, "--inference", "csls")
    write_params(tmp_path, inference={"csls": {"k": 1}})
    assert evaluated(call, files, "--inference", "csls") == before


def test_runs_of_a_project_are_keyed_by_run(call, tmp_path):
    write_params(tmp_path)
    write_run(*sides({"test": 24}))
    status, out, err = call("evaluate", "--run", "sum", "--inference", "nns,is", "--inference", "csls", "--json")
    assert status == 0, err
    assert list(json.loads(out)["sum"]) == ["csls", "is", "nns"]
    status, out, _ = call("evaluate")
    assert "test split, protocol full" in out


def test_where_all_items_are_retrieved_alike_skewness_is_undefined(call, tmp_path):
    """Six images: each query has all of them among its best ten."""
    files = arguments(write(sample(images=6), tmp_path))
    status, out, err = call("evaluate", *files, "--json", "--inference", "nns")
    assert status == 0, err
    found = json.loads(out)
    assert (found["text_to_image"]["skew@10"], found["hs_sum"]) == (None, None)
    assert found["image_to_text"]["skew@10"] is not None
    assert "skew@10" not in found["intervals"]["text_to_image"]
    assert "r@1" in found["intervals"]["text_to_image"]
    status, out, err = call("evaluate", *files, "--inference", "nns,csls")
    assert (status, next(line.split()[-1] for line in out.splitlines() if "csls" in line)) == (0, "-")
