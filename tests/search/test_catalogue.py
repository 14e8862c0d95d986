"""What a search is asked: conditions, the run that answers, and parts of a query."""

import re

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.search import project as artefacts
from vse_pipe.artifacts import evaluation, images
from vse_pipe.artifacts.catalogue import Catalogue
from vse_pipe.commands._project import default_run
from vse_pipe.core import tables
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.files import read_json, write_json
from vse_pipe.pictures import images as pictures
from vse_pipe.project import paths
from vse_pipe.search import query
from vse_pipe.search.query import IMAGE, PHOTO, TEXT, Term, parse


def catalogue(root, *files: str, splits: tuple = ("test",)) -> Catalogue:
    """Of images 1, 2, ... in these files."""
    n = len(files)
    columns = [range(1, n + 1), files, splits, [2] * n, [2] * n, ["x"] * n]
    images.write(root, pa.table([*map(list, columns)], schema=images.SCHEMA), str(root))
    return Catalogue(root, tables.read(root / images.NAME, images.SCHEMA), pa.table({}))


def test_a_picture_inside_a_shard(tmp_path):
    (tmp_path / "t.tar").write_bytes(b"before, picture, after")
    assert pictures.page_bytes(catalogue(tmp_path, "t.tar::8:7::a.jpg").path(1)) == b"picture"
    (tmp_path / "t.tar").unlink()
    assert catalogue(tmp_path, "t.tar::8:7::a.jpg").path(1) is None
    with pytest.raises(InputError, match="lies outside its root"):
        catalogue(tmp_path, "../t.tar::8:7::a.jpg").path(1)


@pytest.mark.parametrize(
    ("conditions", "ids"),
    [
        (["split=test"], [1, 3]),
        (["split = test", "file=it's = c.jpg"], [3]),
        (["width=2"], [1, 2, 3]),
        (["image_id=2"], [2]),
        (["width=-2"], []),
        ([], [1, 2, 3]),
    ],
)
def test_conditions_all_hold(tmp_path, conditions, ids):
    tiny = catalogue(tmp_path, "a.jpg", "b.jpg", "it's = c.jpg", splits=("test", "val", "test"))
    assert tiny.fitting(conditions).tolist() == ids


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("widht=5", "with a column of image_id, file, split, width"),
        ("width > 5", "expected COLUMN=VALUE"),
        ("width=wide", "column width is int32"),
    ],
)
def test_a_condition_that_cannot_be_read_is_one_line(tmp_path, condition, message):
    with pytest.raises(UsageError, match=message) as raised:
        catalogue(tmp_path, "a.jpg").fitting([condition])
    assert "\n" not in str(raised.value)


def _write(inference: str, **sums: float) -> None:
    """Evaluations of these runs."""
    for run, rsum in sums.items():
        write_json(paths.evaluated(run, inference) / evaluation.METRICS, {"rsum": rsum})


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return artefacts.params(tmp_path)


def test_the_best_rsum_under_the_criterion_is_chosen_among_the_runs_of_params(params, tmp_path, monkeypatch):
    monkeypatch.setattr(evaluation, "read_metrics", lambda folder: read_json(folder / evaluation.METRICS))
    with pytest.raises(UsageError, match=r"search which run\? give --run: sum, ordered, bags"):
        default_run(params, "nns")
    _write("nns", sum=3.0, both=7.5, gone=99.0)
    _write("csls", sum=9.0)
    assert default_run(params, "nns") == ("both", "the best rsum of 2 runs under nns, 7.5")
    assert default_run(params, "csls")[0] == "sum"
    runs = {"sum": artefacts.RUNS["sum"]}
    assert default_run(artefacts.params(tmp_path, runs=runs, ensembles={}), "nns") == ("sum", "the only run")


@st.composite
def written(draw):
    """A query and what it means."""
    kind = draw(st.sampled_from([TEXT, PHOTO, IMAGE]))
    value = draw(st.text(st.characters(codec="utf-8", exclude_characters='"'), min_size=1, max_size=12))
    if kind == PHOTO:
        value = re.sub(r"[\s+-]+", "_", f"p{value}") + draw(st.sampled_from([".jpg", ".PNG"]))
    weight = draw(st.floats(0.01, 1000).map(lambda number: float(f"{number:.2f}")) | st.just(1.0))
    named = {TEXT: f'"{value}"', PHOTO: value, IMAGE: f'image:"{value}"'}[kind]
    return Term(kind, value, weight), named + ("" if weight == 1 else f":{weight}")


@given(st.lists(st.tuples(written(), st.booleans()), min_size=2, max_size=6), st.sampled_from([" ", "\t", "  "]))
def test_what_is_written_is_read_back(listed, space):
    listed = [(part, text, negative and place > 0) for place, ((part, text), negative) in enumerate(listed)]
    if len({(part.kind, part.value) for part, _, _ in listed}) == len(listed):
        whole = "".join(f"{space}{'-' if negative else '+'}{space}{text}" for _, text, negative in listed)
        wanted = [Term(one.kind, one.value, -one.weight if negative else one.weight) for one, _, negative in listed]
        assert list(parse(whole)) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("dog:2 + pool.jpg - fruit", [(TEXT, "dog", 2), (PHOTO, "pool.jpg", 1), (TEXT, "fruit", -1)]),
        ("- fruit + a red dog", [(TEXT, "fruit", -1), (TEXT, "a red dog", 1)]),
        ('"a dog - running"', [(TEXT, "a dog - running", 1)]),
        ('"a - b":2', [(TEXT, "a - b", 2)]),
        ('image:"a - b"', [(IMAGE, "a - b", 1)]),
        ('he said "a - b" at 10:30', [(TEXT, 'he said "a - b" at 10:30', 1)]),
        ('a "x - y" near pool.jpg', [(TEXT, 'a "x - y" near pool.jpg', 1)]),
        ('- "a - b"', [(TEXT, '- "a - b"', 1)]),
        ('"at 10:30" + image:7:0.5', [(TEXT, "at 10:30", 1), (IMAGE, "7", 0.5)]),
        ("image:a/b.jpg - well-known C++", [(IMAGE, "a/b.jpg", 1), (TEXT, "well-known C++", -1)]),
        ('a sign "a - b" + dog', [(TEXT, 'a sign "a - b"', 1), (TEXT, "dog", 1)]),
        ('12" disc + "x.jpg"', [(TEXT, '12" disc', 1), (TEXT, "x.jpg", 1)]),
        ('"pool.jpg"', [(TEXT, "pool.jpg", 1)]),
        ("pool.jpg:.5 + dog", [(PHOTO, "pool.jpg", 0.5), (TEXT, "dog", 1)]),
    ],
)
def test_examples(text, wanted):
    assert [(part.kind, part.value, part.weight) for part in parse(text)] == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog + + cat", "nothing stands behind a + of the query"),
        ("dog:0 + cat", "'dog:0': a weight is above 0 and at most 1000"),
        ('"dog + cat', "a part that begins with a double quote ends with one"),
        ("- dog - cat", "everything in the query is taken away"),
        (" + ".join("abcdefghijklmnopqrstuvwxyz0123456789"), "a query of 36 parts; 32 are the most"),
    ],
)
def test_query_what_cannot_be_read_is_one_line(text, message):
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert (message in str(raised.value), "\n" in str(raised.value)) == (True, False), raised.value


def test_a_web_page_opens_no_file_and_a_query_is_told_as_it_was_understood():
    with pytest.raises(UsageError, match=r"'/etc/x.png': no file is opened by its name here"):
        parse("dog + /etc/x.png", files=False)
    assert parse('dog + "/etc/x.png"', files=False)[1].kind == TEXT
    assert query.described(parse("dog:2 + pool.jpg - image:7")) == "2 x 'dog' + picture 'pool.jpg' - image '7'"
    assert (query.described(parse("- a + b")), query.described((Term(IMAGE, "7"),))) == ("- 'a' + 'b'", "image 7")
