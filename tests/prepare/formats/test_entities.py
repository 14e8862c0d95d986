"""Flickr30k Entities: phrases where the authors' interface finds them, the boxes that enclose those of a chain."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tests import bombs
from tests.naive.data import entities_sentence
from tests.prepare._data import entities, marked, one_line, prepare, read
from vse_pipe.artifacts import captions, regions
from vse_pipe.core.errors import InputError, MissingResource
from vse_pipe.prepare.formats.entities import parse
from vse_pipe.prepare.formats.entities import read_annotation as annotation

LINES = [
    "[/EN#1/people Two young guys] with [/EN#2/bodyparts shaggy hair] look at [/EN#3/bodyparts/other their hands] .",
    "[/EN#1/people They] , [/EN#0/notvisual who] stand in [/EN#8/scene the yard] , hold [/EN#9/other nothing] and [/EN#4/other it]",
]
BOXES = {(1,): (2, 1, 4, 3), (1, 2): (3, 2, 8, 3), (3,): (5, 5, 5, 6), (8,): "scene", (9,): "nobndbox"}
COLUMNS = ["phrase_id", "caption_id", "image_id", "chain", "start", "text", "type", "x1", "y1", "x2", "y2", "split"]


def pair(folder: Path, lines: list[str] = LINES, boxes: dict = BOXES, **options) -> Path:
    """Two pictures, of which the second is fine."""
    other = ("test", ["a [/EN#7/animals dog]"], marked(22, {(7,): (1, 1, 8, 6)}))
    return entities(folder, {11: ("train", lines, marked(11, boxes, **options)), 22: other})


@pytest.mark.parametrize("name", ["000000000011", "11.jpg"])
def test_lists_may_hold_padded_ids_names_and_blank_lines(tmp_path, name):
    raw = pair(tmp_path)
    for file in raw.rglob("11.*"):
        file.rename(file.with_stem(name.removesuffix(".jpg")))
    (raw / "train.txt").write_text(f"\n{name}\n\n")
    found = read("entities", raw, tmp_path).images
    assert found["image_id"].to_pylist() == [11, 22]
    assert found["file"].to_pylist() == [name.removesuffix(".jpg") + ".jpg", "22.jpg"]


def edges(row: dict) -> list[int]:
    return [int(row[edge]) for edge in ("x1", "y1", "x2", "y2")]


def test_phrases_have_the_box_around_all_of_their_chain(tmp_path):
    source = read("entities", pair(tmp_path), tmp_path)
    pictured = source.images.select(["image_id", "file", "split", "width", "height"]).to_pylist()
    assert [tuple(row.values()) for row in pictured] == [(11, "11.jpg", "train", 8, 6), (22, "22.jpg", "test", 8, 6)]
    said = [
        "Two young guys with shaggy hair look at their hands .",
        "They , who stand in the yard , hold nothing and it",
    ]
    assert source.captions["text"].to_pylist() == [*said, "a dog"]
    assert [tuple(row.values()) for row in source.phrases.select(COLUMNS).to_pylist()] == [
        (0, 0, 11, 1, 0, "Two young guys", "people", 1, 0, 7, 2, "train"),
        (1, 0, 11, 2, 20, "shaggy hair", "bodyparts", 2, 1, 7, 2, "train"),
        (2, 0, 11, 3, 40, "their hands", "bodyparts/other", 4, 4, 4, 5, "train"),
        (3, 1, 11, 1, 0, "They", "people", 1, 0, 7, 2, "train"),
        (4, 2, 22, 7, 2, "dog", "animals", 0, 0, 7, 5, "test"),
    ]
    assert regions.box_problems(source.phrases, "phrase_id") == []


def test_the_stage_writes_them_and_says_what_has_no_box(folder, capsys):
    boxes = {(1,): (0, 1, 9, 6), (8,): "scene", (9,): "nobndbox"}
    pair(Path("raw"), [*LINES, "again [/EN#8/scene there] [/EN#5/people ]"], boxes)
    out = prepare("entities", "raw")
    assert captions.read(out).num_rows == 4
    assert regions.read_phrases(out)["text"].to_pylist() == ["Two young guys", "They", "dog"]
    said = capsys.readouterr().err.replace("\n", " ")
    assert "raw: 3 phrases have a box; left out: 8; 1 boxes reached over an edge" in said
    assert "train 1 images / 3 captions / 2 phrases, test 1 images" in said


@pytest.mark.parametrize(("size", "wanted"), [((5, 9), None), ((9, 5), "11.jpg: 5 x 9 pixels upright, but")])
def test_boxes_are_those_of_the_upright_picture(tmp_path, size, wanted):
    pair(tmp_path, ["[/EN#1/other a box]"], {(1,): (2, 3, 4, 4)}, size=size)
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.new("RGB", (9, 5)).save(tmp_path / "flickr30k-images/11.jpg", "PNG", exif=exif)
    if wanted:
        with one_line(wanted):
            read("entities", tmp_path, tmp_path)
    else:
        assert edges(read("entities", tmp_path, tmp_path).phrases.to_pylist()[0]) == [1, 2, 3, 3]


WORDS = st.text("aE\u00e9\u732b\U0001f408.,'#:-0N", min_size=1, max_size=4)
SOME = st.lists(WORDS, min_size=1, max_size=3)
PHRASES = st.tuples(st.integers(0, 10**17), SOME, SOME)


@settings(max_examples=20)
@given(st.lists(WORDS | PHRASES, min_size=1))
def test_sentences_are_cut_as_by_the_authors(pieces):
    marks = [one if isinstance(one, str) else f"[/EN#{one[0]}/{'/'.join(one[1])} {' '.join(one[2])}]" for one in pieces]
    text, found = parse(" ".join(marks), "x")
    expected, named = entities_sentence(" ".join(marks))
    assert text == expected
    assert [(p.text, str(p.chain), p.kind.split("/")) for p in found] == [one[1:] for one in named]
    assert [len(text[: phrase.start].split(" ")) - 1 for phrase in found] == [first for first, *_ in named]
    assert all(text[phrase.start :].startswith(phrase.text) for phrase in found)


@pytest.mark.parametrize(("line", "mark"), [
    ("a [/EN#1/people man", "[/EN#1/people man"),
    ("[/EN#1/people a [/EN#2/other hat] man]", "[/EN#1/people a "),
    ("a [ man", "[ man"),
    *((line, line) for line in ("[/EN#1 a man]", "[/EN#x/people a man]", "/EN#1/people a man]")),
])  # fmt: skip
def test_marks_that_are_not_whole(tmp_path, line, mark):
    pair(tmp_path, [LINES[0], line])
    with one_line(f"{tmp_path}/Sentences/11.txt line 2: {mark!r} is no whole mark; expected [/EN#"):
        read("entities", tmp_path, tmp_path)


def _xml(boxes: dict, **options):
    return lambda folder: pair(folder, boxes=boxes, **options) and None


def _file(name: str, content: str | bytes | None):
    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())

    return spoil


ANNOTATION = "Annotations/11.xml"
BAD = {
    "outside": (_xml({(1, 2): (9, 1, 12, 3)}), "11.xml: no annotation of a picture (the box 9, 1, 12, 3 ends before it begins, or lies outside"),
    "fraction": (_xml({(1,): (1, 1, "4.5", 3)}), "bndbox/xmax '4.5' is not a whole number"),
    "chain": (_xml({("a man",): (1, 1, 2, 2)}), "name 'a man' is not a whole number"),
    "other size": (_xml(BOXES, size=(16, 12)), "flickr30k-images/11.jpg: 8 x 6 pixels upright, but its annotations are of 16 x 12"),
    "no size": (_file(ANNOTATION, "<annotation/>"), "size/width '' is not a whole number"),
    "no xml": (_file(ANNOTATION, "GIF89a"), "11.xml: no annotation of a picture (syntax error"),
    "encoding": (_file(ANNOTATION, '<?xml version="1.0" encoding="rot13"?><a/>'), "11.xml: no annotation of a picture"),
    "external": (_file(ANNOTATION, '<!DOCTYPE a SYSTEM "file:///etc/passwd"><a/>'), "size/width '' is not"),
    "no annotation": (_file(ANNOTATION, None), "11.xml: no such file"),
    "no picture": (_file("flickr30k-images/11.jpg", None), "train.txt line 1: 11.jpg does not exist"),
    "latin 1": (_file("Sentences/11.txt", b"caf\xe9\n"), "11.txt line 1: not UTF-8"),
    "two splits": (_file("val.txt", "11\n"), "val.txt line 1: picture '11' was given to"),
    "no number": (_file("val.txt", "../x\n"), "val.txt line 1: '../x' is no picture's id; expected a number"),
    "more than int64": (_file("val.txt", "9" * 23 + "\n"), f"val.txt line 1: '{'9' * 23}' is no picture's id"),
    "no boxes": (lambda folder: entities(folder, {11: ("train", LINES, marked(11, {(8,): "scene"}))}) and None, "raw: no phrase of the captions has a box"),
}  # fmt: skip


@pytest.mark.parametrize(("spoil", "message"), BAD.values(), ids=BAD)
def test_bad_input_ends_in_one_line_and_writes_nothing(folder, spoil, message):
    spoil(pair(Path("raw")))
    with one_line(message, (InputError, MissingResource)):
        prepare("entities", "raw")
    assert list(Path("data/prepare").iterdir()) == []


@pytest.mark.parametrize("kind", ["entities", "attributes", "parameter entity"])
def test_xml_that_expands_without_end_is_refused_before_it_does(tmp_path, kind):
    laughs = "".join(f'<!ENTITY l{k} "{f"&l{k - 1};" * 10}">' for k in range(1, 12))
    inside = {
        "entities": f'<!ENTITY l0 "ha">{laughs}',
        "attributes": f"<!ATTLIST a b CDATA '{'x' * 100}'>",
        "parameter entity": '<!ENTITY % p SYSTEM "x"> %p;',
    }[kind]
    path = tmp_path / "11.xml"
    path.write_text(f"<!DOCTYPE a [{inside}]><a>&l11;</a>")
    ended, peak = bombs.in_child(lambda: annotation(path))
    assert ended.startswith(f"InputError: {path}: no annotation of a picture")
    assert peak < 200  # expat ends it
