"""What cannot be paired is refused with what differs."""

import pyarrow as pa
import pytest

from tests.tools.compare.project import evaluation
from vse_pipe.core.errors import InputError
from vse_pipe.ranking import comparison
from vse_pipe.ranking.comparison import Compared


def _changed(one: Compared, table: str, column: str, row: int, value: int) -> Compared:
    tables = {"ranks": one.ranks, "occurrence": one.occurrence}
    values = tables[table][column].to_pylist()
    values[row] = value
    place = tables[table].column_names.index(column)
    tables[table] = tables[table].set_column(place, column, pa.array(values, tables[table][column].type))
    return Compared("other", one.metrics, **tables)


def test_the_same_queries_pair_whatever_their_order_and_figures():
    a, b = evaluation(seed=1), evaluation(seed=2, quality=0.9)
    comparison.check(a, Compared("b", b.metrics, b.ranks[::-1], b.occurrence[::-1]))


@pytest.mark.parametrize(("key", "value"), [("split", "val"), ("protocol", "folds"), ("ties", "average")])
def test_another_protocol_is_refused(key, value):
    a, b = evaluation("a"), evaluation("b", {key: value})
    message = f"a and b cannot be compared: {key} is '{a.metrics[key]}' in the first, '{value}' in the second"
    with pytest.raises(InputError, match=message):
        comparison.check(a, b)


def test_figures_of_other_data_are_refused(capsys):
    """A clone may hold evaluations of the demo with as many images as one's own data, and the same running numbers."""
    a, b = evaluation("a", {"data": "1f"}), evaluation("b", {"data": "2e"})
    with pytest.raises(
        InputError, match=r"a and b cannot be compared: measured on other data \(1f in the first, 2e in"
    ):
        comparison.check(a, b)
    comparison.check(a, evaluation("c", {"data": "1f"}))
    assert capsys.readouterr().err == ""
    for sides in ((a, evaluation("old")), (evaluation("old"), a)):
        comparison.check(*sides)
        assert capsys.readouterr().err.startswith("warning: old does not say which data it was measured on")


def test_another_bank_is_allowed():
    comparison.check(evaluation(), evaluation("b", {"bank": "test"}))


def test_missing_queries_are_counted_and_the_first_is_named():
    a = evaluation("a", images=3, captions=1)
    b = Compared("b", a.metrics, a.ranks[1:], a.occurrence)
    first = a.ranks["query_id"][0]
    message = "6 and 5 queries, of which 1 are on one side only; image_to_text fold 0 query_id"
    with pytest.raises(InputError, match=f"{message} {first} is only in the first"):
        comparison.check(a, b)
    with pytest.raises(InputError, match=f"query_id {first} is only in the second"):
        comparison.check(b, a)


def test_a_query_of_another_fold_is_another_query():
    a = evaluation("a")
    with pytest.raises(InputError, match="80 and 80 queries"):
        comparison.check(evaluation(captions=1), _changed(evaluation(captions=1), "ranks", "fold", 0, 1))
    assert len(a.ranks) == 40 + 79


def test_a_caption_of_another_image_is_refused():
    a = evaluation("a")
    last = a.ranks["query_id"][-1]
    owner = a.ranks["image_id"][-1].as_py()
    other = _changed(a, "ranks", "image_id", len(a.ranks) - 1, 5)
    message = "1 queries belong to other images, the first is text_to_image fold 0 query_id"
    with pytest.raises(InputError, match=f"{message} {last} of images {owner}, 5"):
        comparison.check(a, other)


def test_other_items_to_choose_from_are_refused():
    a = evaluation("a")
    with pytest.raises(InputError, match=r"119 and 119 items, of which 2 .* item_id \d+ is only in the (first|second)"):
        comparison.check(a, _changed(a, "occurrence", "item_id", 0, 5))


def test_a_query_that_is_there_twice_is_refused():
    a = evaluation("a")
    twice = _changed(a, "ranks", "query_id", 0, a.ranks["query_id"][1].as_py())
    with pytest.raises(InputError, match=r"other: image_to_text fold 0 query_id \d+ is there more than once"):
        comparison.check(a, twice)


def test_the_same_numbers_of_other_texts_are_refused():
    """Files whose ids are text are numbered as they come."""
    a, b = evaluation("a"), evaluation("b")
    texts = pa.array([f"query {place}" for place in range(len(a.ranks))])
    moved = pa.array([*texts.to_pylist()[1:], "another"])
    same, other = (
        Compared(one.name, one.metrics, one.ranks.append_column("query_name", column), one.occurrence)
        for one, column in ((a, texts), (b, moved))
    )
    comparison.check(same, same)
    for sides in ((same, other), (same, b), (b, same)):
        with pytest.raises(InputError, match="rows come in the same order"):
            comparison.check(*sides)
