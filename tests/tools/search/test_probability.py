"""Probabilities of a match: fitted on val by the loops of tests.naive.calibrated, and what they leave."""

import numpy as np
import pytest

from tests.naive import calibrated as naive
from tests.tools.search.project import SPLITS
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.tools.search.narrow import Wanted
from vse_pipe.tools.search.query import IMAGE, TEXT, TO_CAPTIONS, TO_IMAGES, Term, parse

SENTENCE = (Term(TEXT, "a red disc"),)
EVERY = Wanted(10**4, probability=True)


@pytest.mark.parametrize(("run", "criterion"), [("sum", "nns"), ("sum", "csls"), ("scan", "nns"), ("both", "is")])
def test_it_is_isotonic_regression_on_the_best_ten_of_the_val_queries(opened, run, criterion):
    engine, val = opened(run, criterion), opened(run, criterion, "val")
    ids = val._network.ids
    rows, correct = [], []
    texts = [val._catalogue.text(number) for number in ids.caption_ids.tolist()]
    for text, image in zip(texts, ids.caption_images.tolist(), strict=True):
        found = {hit.image_id: hit.score for hit in val.by_text(text, 10**4).hits}
        rows.append([found[number] for number in ids.image_ids.tolist()])
        correct.append({ids.image_ids.tolist().index(image)})
    pairs = naive.candidates(rows, correct)
    answer = engine.ask(SENTENCE, EVERY)
    about = answer.calibration
    assert (about["queries"], about["pairs"], about["split"], about["method"]) == (
        len(rows),
        len(pairs),
        "val",
        "isotonic",
    )
    assert about["base_rate"] == pytest.approx(np.mean([matched for _, matched, _ in pairs]), abs=1e-6)
    wanted = naive.isotonic([round(score, 5) for score, _, _ in pairs], [matched for _, matched, _ in pairs])
    curve = engine.calibration(TO_IMAGES)
    near = np.abs(curve(np.array(list(wanted))) - np.array(list(wanted.values())))
    # scores of a query computed alone differ in their last bits, which moves knots between equal neighbours
    assert np.median(near) < 1e-3
    assert [hit.probability for hit in answer.hits] == sorted((hit.probability for hit in answer.hits), reverse=True)


@pytest.mark.parametrize("method", ["isotonic", "platt"])
@pytest.mark.parametrize("group", [None, 0.9])
def test_a_threshold_keeps_what_is_sure_enough(opened, method, group):
    engine = opened("sum", "csls", "all", evaluate={"calibrate": method})
    everything = engine.ask(SENTENCE, EVERY)
    assert everything.calibration["method"] == method
    least = sorted(hit.probability for hit in everything.hits)[len(SPLITS) // 2]
    wanted = [hit.image_id for hit in everything.hits if hit.probability >= least]
    found = engine.ask(SENTENCE, Wanted(10**4, least=least, group=group))
    assert {number for hit in found.hits for number in (hit.image_id, *hit.alike)} <= set(wanted)
    assert sum(1 + hit.alike_count for hit in found.hits) == len(wanted)
    assert found.narrowed == {"min_probability": least} | ({} if group is None else {"group": group})
    assert engine.ask(SENTENCE, Wanted(least=1.0)).hits == () or method == "isotonic"


def test_it_is_kept_and_both_directions_have_their_own(opened):
    engine = opened("sum", "is")
    assert not engine.calibration(TO_IMAGES).about["kept"]
    assert not engine.calibration(TO_CAPTIONS).about["kept"]
    again = opened("sum", "is")
    for direction in (TO_IMAGES, TO_CAPTIONS):
        found = again.calibration(direction)
        assert found.about["kept"]
        np.testing.assert_array_equal(found.curve.knots, engine.calibration(direction).curve.knots)
    assert not opened("sum", "is", evaluate={"calibrate": "platt"}).calibration(TO_IMAGES).about["kept"]
    hit = again.ask((Term(IMAGE, "5"),), Wanted(1, probability=True)).hits[0]
    assert 0 <= hit.probability <= 1


def test_where_it_means_nothing_it_is_refused(opened):
    engine = opened()
    for parts, wanted in ((parse("a red disc + a box"), EVERY), (SENTENCE, Wanted(to="captions", least=0.5))):
        with pytest.raises(UsageError, match="a probability of a match is that of one sentence and an image"):
            engine.ask(parts, wanted)
    with pytest.raises(UsageError, match=r"--min-probability is from 0 to 1, got 1\.5"):
        engine.ask(SENTENCE, Wanted(least=1.5))
    assert engine.ask(SENTENCE).hits[0].probability is None


def test_val_that_would_be_corrected_by_itself_is_refused(opened):
    changed = {"evaluate": {"bank": "val"}}
    with pytest.raises(UsageError, match=r"evaluate\.bank=val would correct those queries by themselves"):
        opened("sum", "csls", **changed).ask(SENTENCE, EVERY)
    assert opened("sum", **changed).ask(SENTENCE, EVERY).hits[0].probability is not None


def test_sums_over_banks_of_other_sizes_are_warned_of(opened, capsys):
    opened("sum", "is").ask(SENTENCE, EVERY)
    assert "is sums over the queries of its bank, 20 for what is searched and 16 where" in capsys.readouterr().err
    opened("sum", "is", evaluate={"bank": "train"}).ask(SENTENCE, EVERY)
    opened("sum", "csls").ask(SENTENCE, EVERY)
    assert "sums over" not in capsys.readouterr().err


def test_without_val_it_says_what_is_missing(opened, monkeypatch):
    engine = opened()

    def of(split):
        raise InputError(f"nothing of split '{split}'; embed it")

    monkeypatch.setattr(engine._network, "of", of)
    with pytest.raises(
        InputError, match="a probability of a match is learnt from val: nothing of split 'val'; embed it"
    ):
        engine.ask(SENTENCE, EVERY)
