"""An evaluation of a run against loops, its tables, and the criteria that belong together."""

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.embedded import correct, measured, params, sides, ways, write
from tests.naive import evaluate as naive
from vse_pipe.artifacts import embeddings, evaluation, identity
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.artifacts.evaluation import DIRECTIONS, KS
from vse_pipe.core.errors import InputError, LockedError
from vse_pipe.core.locks import claim
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.ranking import outcomes


def expected_nns(rows: np.ndarray, own: np.ndarray, others: np.ndarray) -> dict[str, float]:
    """Of one direction, by loops."""
    right = correct(own, others)
    ranks = [naive.best_rank(row, items, "pessimistic") for row, items in zip(rows.tolist(), right, strict=True)]
    found = {f"r@{k}": naive.recall(ranks, k) for k in KS}
    found |= {"med_r": naive.median_rank(ranks), "mean_r": naive.mean_rank(ranks)}
    tops = [naive.top(row, 10) for row in rows.tolist()]
    return found | {f"skew@{k}": naive.skewness(naive.occurrence([top[:k] for top in tops], len(others))) for k in KS}


def test_metrics_are_those_of_the_loops(project):
    metrics = measured(params(project), "nns")
    expected = {direction: expected_nns(scores, *images) for direction, (scores, _, _, *images) in ways().items()}
    for direction in DIRECTIONS:
        for name, value in expected[direction].items():
            assert metrics[direction][name] == pytest.approx(value, abs=1e-6), (direction, name)
    both = [expected[direction] for direction in DIRECTIONS]
    assert metrics["rsum"] == pytest.approx(sum(side[f"r@{k}"] for side in both for k in KS), abs=1e-5)
    assert metrics["hs_sum"] == pytest.approx(sum(side[f"skew@{k}"] for side in both for k in KS), abs=1e-5)
    assert (metrics["image_to_text"]["queries"], metrics["image_to_text"]["items"]) == (24, 60)
    assert 0 < metrics["image_to_text"]["r@1"] < 100


def test_the_circumstances_are_stated(project):
    metrics = measured(params(project), "nns")
    figures = (*DIRECTIONS, "rsum", "hs_sum", "intervals")
    none: dict = {direction: {} for direction in DIRECTIONS}
    stated = {"run": "sum", "inference": "nns", "similarity": "cosine", "split": "test", "protocol": "full", "folds": 1}
    stated |= {"ties": "pessimistic", "bank": "none", "transductive": False}
    stated |= {"notes": {}, "tuned": none, "parameters": none}
    assert {key: value for key, value in metrics.items() if key not in figures} == stated
    assert metrics == evaluation.read_metrics(paths.evaluated("sum", "nns"))
    assert measured(params(project, split="val"), "is")["bank"] == "val"


def test_intervals_hold_the_figures(project):
    metrics = measured(params(project), "csls")
    for direction in DIRECTIONS:
        assert set(metrics["intervals"][direction]) == metrics[direction].keys() - {"queries", "items"}
        for name, (low, high) in metrics["intervals"][direction].items():
            assert low <= metrics[direction][name] <= high, (direction, name)
    assert measured(params(project, resamples=0), "csls")["intervals"] == {}


def test_tables_have_a_row_per_query_and_per_item(project):
    measured(params(project), "nns")
    images, captions = (side.split("test") for side in sides())
    ranks = evaluation.read_ranks(paths.evaluated("sum", "nns")).to_pandas()
    occurrence = evaluation.read_occurrence(paths.evaluated("sum", "nns")).to_pandas()
    assert ranks.query_id.tolist() == [*images.ids, *captions.ids]
    assert ranks.image_id.tolist() == [*images.ids, *captions.image_ids]
    assert occurrence.item_id.tolist() == [*captions.ids, *images.ids]
    owner = dict(zip(captions.ids, captions.image_ids, strict=True))
    for row in ranks[ranks.direction == "image_to_text"].itertuples():
        places = [place for place, caption in enumerate(row.top, start=1) if owner[caption] == row.query_id]
        assert (row.rank in places[:1]) == (row.rank <= 10)
        assert [row.hit_1, row.hit_5, row.hit_10] == [row.rank <= k for k in KS]
    picked = ranks[ranks.direction == "text_to_image"].top.explode().value_counts()
    counted = occurrence[occurrence.direction == "text_to_image"].set_index("item_id").n_10
    assert counted[counted > 0].to_dict() == picked.to_dict()


@pytest.mark.parametrize("inference", ["gm", "is+rgm"])
def test_a_matching_has_no_ranks(project, inference):
    metrics = measured(params(project), inference)
    ranks = evaluation.read_ranks(paths.evaluated("sum", inference)).to_pandas()
    assert ranks["rank"].isna().all()
    for direction in DIRECTIONS:
        assert "med_r" not in metrics[direction]
        assert "mean_r" not in metrics[direction]
        mine = ranks[ranks.direction == direction]
        assert metrics[direction]["r@5"] == pytest.approx(100 * mine.hit_5.mean(), abs=1e-6)
        assert mine.top.map(len).max() <= 10
    assert metrics["transductive"]
    assert metrics["bank"] == ("none" if inference == "gm" else "test")


def test_folds_are_averaged(project):
    folded = measured(params(project, protocol="folds", fold_size=8), "nns")
    for direction, (scores, _, _, own, others) in ways().items():
        images = ways()["image_to_text"][1]
        parts = [np.isin(own, images[first : first + 8]) for first in (0, 8, 16)]
        items = [np.isin(others, images[first : first + 8]) for first in (0, 8, 16)]
        each = [expected_nns(scores[q][:, n], own[q], others[n]) for q, n in zip(parts, items, strict=True)]
        for name in each[0]:
            mean = np.mean([fold[name] for fold in each])
            expected = None if np.isnan(mean) else pytest.approx(mean, abs=1e-6)
            assert folded[direction][name] == expected, (direction, name)
    assert (folded["folds"], folded["image_to_text"]["queries"]) == (3, 24)
    ranks = evaluation.read_ranks(paths.evaluated("sum", "nns")).to_pandas()
    assert ranks.groupby(["direction", "fold"]).size()["image_to_text"].tolist() == [8, 8, 8]


def test_a_collapsed_model_scores_next_to_nothing(project):
    images, captions = sides()
    for side in (images, captions):
        side.vectors[:] = side.vectors[0]
    write(images, captions)
    for inference in ("nns", "csls", "gm"):
        metrics = measured(params(project), inference)
        assert metrics["text_to_image"]["r@1"] <= 10


def test_a_failure_leaves_the_earlier_result_alone_and_a_second_writer_is_turned_away(project, monkeypatch):
    measured(params(project), "nns")
    before = contents()

    def broken(*_):
        raise InputError("scores of queries 0 to 3 hold NaN")

    with claim(paths.evaluations("sum")), pytest.raises(LockedError, match="is being written by process"):
        measured(params(project), "nns")
    monkeypatch.setattr(outcomes, "positions", broken)
    with pytest.raises(InputError, match="hold NaN"):
        measured(params(project), "nns")
    assert contents() == before


def test_a_bank_of_its_own_is_named(project):
    assert not measured(params(project, bank="train"), "csls")["transductive"]
    metrics = measured(params(project, bank="train"), "is+rgm")
    assert (metrics["bank"], metrics["transductive"]) == ("train", True)
    used = metrics["parameters"]["image_to_text"]
    assert (used["beta"], used["include_query"], used["mode"]) == (30.0, False, "rows")
    assert used["lambda"] == metrics["tuned"]["image_to_text"]["lambda"]
    assert measured(params(project, bank="train"), "csls") != measured(params(project), "csls")


def test_a_folder_of_the_same_model_is_a_bank(project):
    images, captions = sides()
    folder = project / "elsewhere"
    folder.mkdir()
    for side, name in zip((images, captions), ("images", "captions"), strict=True):
        mine = side.splits == "train"
        cut = Side(side.ids[mine], side.image_ids[mine], side.splits[mine], side.vectors[mine], side.about)
        embeddings.write(folder / f"{name}.parquet", cut)
    from_folder = measured(params(project, bank=str(folder)), "is")
    assert identity.inputs_of(OUT)[str(folder)] == {"vectors": embeddings.digest(folder)}
    from_split = measured(params(project, bank="train"), "is")
    assert str(folder) not in identity.inputs_of(OUT)
    assert (from_folder.pop("bank"), from_split.pop("bank")) == (str(folder), "train")
    assert from_folder == from_split
    for side, name in zip((images, captions), ("images", "captions"), strict=True):
        other = replace(side, about={**side.about, "model_sha256": "1" * 64})
        embeddings.write(folder / f"{name}.parquet", other)
    with pytest.raises(InputError, match=r"model_sha256 is '1111.*; both must come from one model"):
        measured(params(project, bank=str(folder)), "is")


def test_a_residual_above_the_tolerance_is_said(project, warned):
    options = params(project, inference={"sinkhorn": {"tau": 0.01, "max_iterations": 2}})
    metrics = measured(options, "sinkhorn")
    assert metrics["notes"]["image_to_text"]["iterations"] == 2
    assert len(warned) == 2
    assert warned[0].startswith("sinkhorn, image_to_text: stopped after 2 iterations with a residual of")
    measured(params(project), "sinkhorn")
    assert len(warned) == 2


OUT = paths.evaluations("sum")


def contents() -> dict:
    return {path: path.read_bytes() for path in OUT.rglob("*") if path.is_file()}


def anew() -> None:
    """Embedded by another model."""
    images, captions = sides(seed=1)
    about = {**images.about, "model_sha256": "1" * 64}
    write(replace(images, about=about), replace(captions, about=about))


def there() -> set[str]:
    return {path.name for path in OUT.iterdir()} - {identity.NAME}


def test_a_criterion_by_hand_stays_beside_those_of_the_same_vectors_and_removes_those_of_others(project, warned):
    evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    before = (OUT / "nns" / "ranks.parquet").read_bytes()
    evaluate(params(project), "sum", ["is", "csls"], "cpu")
    assert there() == {"nns", "csls", "is"}
    assert (OUT / "nns" / "ranks.parquet").read_bytes() == before
    assert not warned
    identity.require_current(OUT)
    anew()
    evaluate(params(project), "sum", ["csls"], "cpu")
    assert there() == {"csls"}
    assert warned == [
        "data/evaluate/sum: removed is, nns, which were evaluated on other embeddings or settings; "
        "`vse-pipe evaluate --run sum` makes all criteria of grid.inferences"
    ]


def test_criteria_of_other_settings_do_not_stay_beside_new_ones(project, warned):
    evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    evaluate(params(project, ties="optimistic"), "sum", ["csls"], "cpu")
    assert there() == {"csls"}
    assert "removed nns, " in warned[0]


def test_a_criterion_stays_while_its_own_options_do(project, warned):
    evaluate(params(project, inference={}), "sum", ["is", "nns"], "cpu")
    evaluate(params(project, inference={"is": {"beta": 10.0}}), "sum", ["csls"], "cpu")
    assert there() == {"csls", "nns"}
    assert "removed is, " in warned[0]
    evaluate(params(project, inference={"is": {"beta": 10.0}, "csls": {"k": 3}}), "sum", ["is"], "cpu")
    assert there() == {"is", "nns"}


def test_a_call_that_ends_between_two_criteria_leaves_what_was_there(project, monkeypatch):
    evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    before = contents()
    anew()
    whole = evaluation.write

    def killed(folder, *content):
        if folder.name == "csls":
            raise KeyboardInterrupt
        whole(folder, *content)

    monkeypatch.setattr(evaluation, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    assert contents() == before


def test_what_cannot_be_computed_is_left_out_with_the_reason(project, warned):
    write(*sides({"train": 6, "val": 20, "test": 1}))
    written = evaluate(params(project), "sum", ["nns", "is", "csls"], "cpu")
    assert set(written) == {"nns", "csls"}
    assert there() == {"nns", "csls", evaluation.UNMEASURED}
    why = evaluation.read_unmeasured(OUT)["is"]
    assert why.startswith("is: the denominator sums over the other queries and there are none")
    assert warned == [f"evaluate sum: is is left out: {why}"]
    evaluate(params(project), "sum", ["csls"], "cpu")
    assert set(evaluation.read_unmeasured(OUT)) == {"is"}
    with pytest.raises(InputError, match="the denominator sums over the other queries"):
        evaluate(params(project), "sum", ["is"], "cpu")
    write(*sides())
    evaluate(params(project), "sum", ["nns", "is"], "cpu")
    assert there() == {"nns", "is"}
