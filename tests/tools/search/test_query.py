"""The grammar of queries: what is a sentence stays one, and what is written is read back."""

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from vse_pipe.core.errors import UsageError
from vse_pipe.tools.search import query
from vse_pipe.tools.search.query import IMAGE, PHOTO, TEXT, Term, parse

WORDS = st.text(st.characters(codec="utf-8", exclude_characters="+-"), min_size=1)
NUMBERS = st.floats(0.01, 1000).map(lambda number: float(f"{number:.2f}"))


def naive_operators(text: str) -> list[str]:
    """The + and - that stand between two other things."""
    tokens = text.split()
    return [token for place, token in enumerate(tokens) if token in "+-" and 0 < place < len(tokens) - 1]


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("+-+- \"':2"), max_size=60))
@example("a well-known dog, 50+ years old: 3:2")
@example("-x --k 3")
@example("- fruit")
@example("dog +")
@example('a 12" record')
def test_a_sentence_without_operators_between_spaces_is_unchanged(text):
    if naive_operators(text):
        return
    assert parse(text) == (Term(TEXT, text),)


@st.composite
def written(draw):
    """A query and what it means."""
    kind = draw(st.sampled_from([TEXT, PHOTO, IMAGE]))
    value = draw(st.text(st.characters(codec="utf-8", exclude_characters='"'), min_size=1, max_size=12))
    if kind == PHOTO:
        value = re.sub(r"[\s+-]+", "_", f"p{value}") + draw(st.sampled_from([".jpg", ".PNG"]))
    weight = draw(NUMBERS | st.just(1.0))
    named = {TEXT: f'"{value}"', PHOTO: value, IMAGE: f'image:"{value}"'}[kind]
    return Term(kind, value, weight), named + ("" if weight == 1 else f":{weight}")


@given(st.lists(st.tuples(written(), st.booleans()), min_size=2, max_size=6), st.sampled_from([" ", "\t", "  "]))
def test_what_is_written_is_read_back(listed, space):
    listed = [(part, text, negative and place > 0) for place, ((part, text), negative) in enumerate(listed)]
    if len({(part.kind, part.value) for part, _, _ in listed}) < len(listed):
        return
    whole = "".join(f"{space}{'-' if negative else '+'}{space}{text}" for _, text, negative in listed)
    wanted = tuple(Term(one.kind, one.value, -one.weight if negative else one.weight) for one, _, negative in listed)
    assert parse(whole) == wanted


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


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("+-+- \"':2"), min_size=1, max_size=60))
@example('a "x" - y.jpg:2')
def test_a_literal_text_is_one_part_whatever_it_holds(text):
    (part,) = parse(query.literal(text))
    assert (part.kind, part.weight) == (TEXT, 1)
    assert part.value in (text, text.replace('"', ""))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("dog + + cat", "nothing stands behind a + of the query"),
        ("dog + cat -", "nothing stands behind a - of the query"),
        ("dog:0 + cat", "'dog:0': a weight is above 0 and at most 1000"),
        ("dog:-2 + cat", "'dog:-2': a weight is above 0"),
        (f"dog:{'9' * 400} + cat", "a weight is above 0 and at most 1000"),
        ('"dog + cat', "a part that begins with a double quote ends with one"),
        ('"dog"s + cat', "a part that begins with a double quote ends with one"),
        ("- dog - cat", "everything in the query is taken away"),
        ("dog + cat - dog:2", "'dog' is both asked for and taken away"),
        (" + ".join("abcdefghijklmnopqrstuvwxyz0123456789"), "a query of 36 parts; 32 are the most"),
    ],
)
def test_what_cannot_be_read_is_one_line(text, message):
    with pytest.raises(UsageError) as raised:
        parse(text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_web_page_opens_no_file():
    with pytest.raises(UsageError, match=r"'/etc/x.png': no file is opened by its name here"):
        parse("dog + /etc/x.png", files=False)
    assert parse('dog + "/etc/x.png"', files=False)[1].kind == TEXT


def test_it_is_told_as_it_was_understood():
    assert query.described(parse("dog:2 + pool.jpg - image:7")) == "2 x 'dog' + picture 'pool.jpg' - image '7'"
    assert query.described(parse("- a + b")) == "- 'a' + 'b'"
    assert query.described((Term(IMAGE, "7"),)) == "image 7"


@pytest.mark.parametrize(
    ("text", "to", "wanted"),
    [
        ("dog", None, query.TO_IMAGES),
        ("dog", "captions", query.TO_CAPTIONS),
        ("dog + x.jpg", None, query.TO_IMAGES),
        ("image:3 + x.jpg", None, query.TO_CAPTIONS),
        ("image:3 + x.jpg", "images", query.TO_IMAGES),
    ],
)
def test_what_is_found(text, to, wanted):
    assert query.direction(parse(text), to) == wanted
    with pytest.raises(UsageError, match="search for images or captions, not for 'sounds'"):
        query.direction(parse(text), "sounds")
    assert query.direction(parse(text), to, captions=0) == (query.TO_CAPTIONS if to == "captions" else query.TO_IMAGES)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("pool.jpg", "pool.jpg"),
        (" my pictures/POOL.JPG ", "my pictures/POOL.JPG"),
        ("a dog", None),
        ("dog + pool.jpg", None),
        ('"pool.jpg"', None),
        ("pool.jpg near a dog", None),
    ],
)
def test_the_name_of_a_picture_alone_is_told(text, name):
    assert query.picture_name(text) == name
