"""Corrections are kept between searches; probabilities of a match are fitted on val by the loops of tests.naive.evaluate."""

import numpy as np
import pytest

from tests.naive import evaluate as naive
from tests.tools.search.project import SPLITS
from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.project import paths
from vse_pipe.tools.search.query import IMAGE, TEXT, TO_CAPTIONS, TO_IMAGES, Limits, Term, parse

SENTENCE = (Term(TEXT, "a red disc"),)
EVERY = Limits(10**4, probability=True)


def _turned(path):
    """The same file with the vectors in another order."""
    side = embeddings.read(path)
    embeddings.write(path, Side(side.ids, side.image_ids, side.splits, side.vectors[::-1].copy(), side.about))


def test_a_correction_is_computed_once_and_kept(opened):
    first, second = opened("sum", "csls"), opened("sum", "csls")
    assert first.by_text("a red disc").hits == second.by_text("a red disc").hits
    made, kept = first.correction(TO_IMAGES).about, second.correction(TO_IMAGES).about
    assert (made["kept"], kept["kept"]) == (False, True)
    assert {**made, "kept": True} == kept
    assert (kept["bank"], kept["queries"], kept["items"]) == ("test", 20, 10)


def test_other_parameters_split_or_bank_are_computed_anew(opened):
    opened("sum", "csls").correction(TO_IMAGES)
    changes = [{"inference": {"csls": {"k": 3}}}, {"evaluate": {"bank": "val"}}]
    assert not any(opened("sum", "csls", **one).correction(TO_IMAGES).about["kept"] for one in changes)
    assert not opened("sum", "csls", "val").correction(TO_IMAGES).about["kept"]


def test_a_stale_correction_is_computed_anew(opened):
    before = opened("sum", "csls").correction(TO_IMAGES)
    _turned(paths.embedded("sum") / embeddings.CAPTIONS)
    after = opened("sum", "csls").correction(TO_IMAGES)
    assert after.about["kept"] is False
    assert not np.array_equal(before.bias, after.bias)


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}"])
def test_a_damaged_file_is_said_and_made_again(opened, capsys, content):
    before = opened("sum", "csls").correction(TO_IMAGES)
    (path,) = paths.searched("sum").iterdir()
    path.write_bytes(content)
    np.testing.assert_array_equal(opened("sum", "csls").correction(TO_IMAGES).bias, before.bias)
    assert "damaged" in capsys.readouterr().err
    assert opened("sum", "csls").correction(TO_IMAGES).about["kept"]


def test_a_folder_that_cannot_be_written_is_a_warning(opened, capsys):
    paths.searched("sum").parent.mkdir()
    paths.searched("sum").write_bytes(b"")
    assert opened("sum", "csls").by_text("a red disc").hits
    assert "cannot be kept" in capsys.readouterr().err


def test_files_that_change_while_they_are_searched_are_refused(opened):
    engine = opened("sum", "csls")
    _turned(paths.embedded("sum") / embeddings.CAPTIONS)
    with pytest.raises(IntegrityError, match=r"captions\.parquet: written anew while it was read"):
        engine.correction(TO_IMAGES)
    with pytest.raises(IntegrityError, match=r"captions\.parquet: written anew while it was read"):
        engine.ask((Term(IMAGE, "5"),))  # of another split than is searched
    assert not paths.searched("sum").exists()


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
    found = engine.ask(SENTENCE, Limits(10**4, least=least, group=group))
    assert {number for hit in found.hits for number in (hit.image_id, *hit.alike)} <= set(wanted)
    assert sum(1 + hit.alike_count for hit in found.hits) == len(wanted)
    assert found.narrowed == {"min_probability": least} | ({} if group is None else {"group": group})
    assert engine.ask(SENTENCE, Limits(least=1.0)).hits == () or method == "isotonic"


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
    hit = again.ask((Term(IMAGE, "5"),), Limits(1, probability=True)).hits[0]
    assert 0 <= hit.probability <= 1


def test_where_it_means_nothing_it_is_refused(opened):
    engine = opened()
    for parts, wanted in ((parse("a red disc + a box"), EVERY), (SENTENCE, Limits(to="captions", least=0.5))):
        with pytest.raises(UsageError, match="a probability of a match is that of one sentence and an image"):
            engine.ask(parts, wanted)
    with pytest.raises(UsageError, match=r"--min-probability is from 0 to 1, got 1\.5"):
        engine.ask(SENTENCE, Limits(least=1.5))
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

    monkeypatch.setattr(engine._network, "on_split", of)
    with pytest.raises(
        InputError, match="a probability of a match is learnt from val: nothing of split 'val'; embed it"
    ):
        engine.ask(SENTENCE, EVERY)
