"""The page as a browser without scripts reads it."""

import io
import re
from html.parser import HTMLParser

import pytest
from PIL import Image
from starlette.testclient import TestClient

from tests.tools.serve.standin import HOSTILE
from vse_pipe.tools.search.query import Limits
from vse_pipe.tools.serve.app import SIDE, Thumbnails, create


class Reader(HTMLParser):
    """Every element with its attributes, and the text outside of tags."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data

    def all(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.found if name == tag]


def photo() -> bytes:
    out = io.BytesIO()
    Image.new("RGB", (300, 200), "teal").save(out, "JPEG")
    return out.getvalue()


def get(client, **asked) -> Reader:
    answer = client.get("/", params=asked)
    assert answer.status_code == 200, answer.text
    return Reader(answer.text)


def test_the_empty_page_has_both_forms_and_no_result(client, engines):
    page = get(client)
    by_text, by_photo = page.all("form")
    assert (by_text["method"], by_photo["method"], by_photo["enctype"]) == ("get", "post", "multipart/form-data")
    narrow = ["where", "group", "min_probability"]
    assert [one["name"] for one in page.all("input")] == ["text", "k", *narrow, "photo", "k", *narrow]
    assert [one["name"] for one in page.all("select")] == ["inference", "to", "inference", "to"]
    assert page.all("img") == page.all("li") == page.all("script") == []
    assert "5 images, 5 captions" in page.text
    assert engines["nns"].calls == []


def test_a_sentence_gives_a_gallery_in_order(client, engines):
    page = get(client, text="green square", k="3")
    assert engines["nns"].calls == [("text", "green square", 4)]
    assert [(one["src"], one["alt"]) for one in page.all("img")] == [
        ("/picture/17", "a green square"),
        ("/picture/7", HOSTILE),
        ("/picture/27", "a blue square"),
    ]
    assert "0.900" in page.text
    assert "3 results under nns in 12 ms" in " ".join(page.text.split())
    assert page.all("input")[0]["value"] == "green square"
    assert [one["value"] for one in page.all("input") if one["name"] == "k"] == ["3", "3"]


def test_captions_and_queries_are_text_and_never_markup(client):
    page = get(client, text=HOSTILE)
    assert page.all("script") == []
    assert all("onerror" not in one for one in page.all("img"))
    assert page.text.count(HOSTILE) == 3  # the title, the heading and the first picture's caption
    assert page.all("input")[0]["value"] == HOSTILE


def test_unknown_words_and_notes_are_shown(client):
    page = get(client, text="purple green")
    assert "The model has not seen, and so left out: purple" in page.text
    assert "a note" in page.text
    assert "a note" not in get(client, text="green").text


def test_another_criterion_is_asked_and_stays_chosen(client, engines):
    page = get(client, text="red", inference="csls", k="2")
    assert engines["nns"].calls == []
    assert engines["csls"].calls == [("text", "red", 3)]
    options = [one for one in page.all("option") if "value" not in one]
    assert ["selected" in one for one in options] == [False, True, False, True]
    assert page.all("ol")
    assert "/?image_id=7&k=2&inference=csls" in [one["href"] for one in page.all("a")]


def test_links_lead_from_a_result_to_a_search_with_its_picture_and_with_its_caption(client, engines):
    first = get(client, text="blue", k="5")
    links = [one["href"] for one in first.all("a") if "image_id" in one["href"]]
    assert links[0] == "/?image_id=27&k=5&inference=nns"
    assert len(links) == 4  # the fifth image has no picture
    answer = client.get(links[0])
    assert engines["nns"].calls[-1] == ("image_id", 27, 6)
    second = Reader(answer.text)
    assert second.all("img")[0] == second.all("img")[0] | {"src": "/picture/27", "alt": "the picture searched with"}
    assert second.text.count("its own") == 1
    captions = [one["href"] for one in second.all("a") if "text=" in one["href"]]
    client.get(captions[0])
    assert engines["nns"].calls[-1] == ("text", HOSTILE, 6)


def test_an_image_without_a_picture_is_said_and_not_asked_for(client):
    page = get(client, text="grey", k="1")
    assert page.all("img") == []
    assert "image 47: no picture" in page.text


def test_a_photo_is_searched_with_and_shown_beside_its_results(client, engines):
    content = photo()
    answer = client.post("/", data={"k": "2", "inference": "csls"}, files={"photo": ("../x.jpg", content)})
    assert answer.status_code == 200
    assert engines["csls"].calls == [("photo", content, 3)]
    shown = Reader(answer.text).all("img")
    assert shown[0]["src"].startswith("data:image/webp;base64,")
    assert [one["src"] for one in shown[1:]] == ["/picture/7", "/picture/17"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"text": " "}, "type a sentence"),
        ({"text": "<b>red</b>", "k": "1000"}, "k must be a whole number from 1 to 100, got '1000'"),
        ({"text": "red", "inference": "<i>"}, "inference '<i>' is not served here"),
        ({"image_id": "99"}, "image 99 is not in the test split"),
    ],
)
def test_a_wrong_value_is_status_400_and_a_sentence_in_the_page(client, asked, message):
    answer = client.get("/", params=asked)
    assert answer.status_code == 400
    page = Reader(answer.text)
    assert message in page.text
    assert any(one.get("role") == "alert" for one in page.all("p"))
    assert page.all("input")[0]["value"] == asked.get("text", "")
    assert "Traceback" not in answer.text


def test_an_address_that_is_not_there_is_the_page_with_status_404(client):
    answer = client.get("/nothing/here")
    assert answer.status_code == 404
    assert len(Reader(answer.text).all("form")) == 2


def test_ids_that_are_text_find_their_pictures(engines):
    for engine in engines.values():
        engine.ids, engine.named = {name: f"a/{name} & 1.png" for name in engine.ids}, True
    named = TestClient(create(engines), base_url="http://127.0.0.1:8000")
    page = named.get("/", params={"text": "green"}).text
    (address, *_) = re.findall(r'src="(/picture/[^"]*)"', page)
    assert address == "/picture/a/green%20%26%201.png"
    assert named.get(address).headers["content-type"] == "image/webp"
    assert named.get("/picture/a/none.png").status_code == 404
    again = re.findall(r'href="(/\?image_id=[^"]*)"', page)[0].replace("&amp;", "&")
    assert "Captions nearest to image a/green &amp; 1.png" in named.get(again).text


def test_results_are_leafed_through_by_links_that_keep_what_was_asked(client, engines):
    first = get(client, text="blue", k="1", where="re", to="images")
    (more,) = [one["href"] for one in first.all("a") if "offset=" in one["href"]]
    assert more == "/?text=blue&to=images&offset=1&k=1&inference=nns&where=re"
    second = Reader(client.get(more).text)
    assert [one["start"] for page in (first, second) for one in page.all("ol")] == ["1", "2"]
    assert [one["src"] for page in (first, second) for one in page.all("img")] == ["/picture/7", "/picture/17"]
    assert engines["nns"].wanted == Limits(2, "images", "re", None, 1)
    (third,) = [one["href"] for one in second.all("a") if "offset=" in one["href"]]
    last = Reader(client.get(third).text)
    assert "image 47: no picture" in last.text
    assert last.all("script") == [one for one in last.all("a") if "offset=" in one["href"]] == []


def test_without_grouping_every_result_comes_once_and_in_order(client):
    ranks, address = [], "/api/search?text=blue&k=2"
    while address is not None:
        told = client.get(address).json()
        ranks += [(hit["rank"], hit["image_id"]) for hit in told["hits"]]
        address = None if told["next"] is None else f"/api/search?text=blue&k=2&offset={told['next']}"
    assert [rank for rank, _ in ranks] == [1, 2, 3, 4, 5]
    assert len({number for _, number in ranks}) == 5


def test_beyond_the_last_result_nothing_is_found_and_no_link_is_shown(client):
    page = get(client, text="blue", offset="9000")
    assert "No further results." in page.text
    assert not [one for one in page.all("a") if "offset=" in one["href"]]


def test_parts_conditions_and_what_is_alike_are_shown(client, engines):
    page = get(client, text="green:2 - red", where="e", group="0.95")
    words = " ".join(page.text.split())
    assert "with green × 2 without red" in words
    assert "of 4 where e" in words
    assert "1 alike" in words
    assert engines["nns"].wanted.group == 0.95
    boxes = {one["name"]: one["value"] for one in page.all("input") if one["name"] in ("text", "where", "group")}
    assert boxes == {"text": "green:2 - red", "where": "e", "group": "0.95"}
    assert all("open" in one for one in page.all("details") if one.get("class") == "narrow")


def test_only_what_is_probable_enough_is_shown_and_nothing_is_an_answer(client, engines):
    page = get(client, text="green", min_probability="0.5")
    assert engines["nns"].wanted == Limits(11, None, None, None, 0, True, 0.5)
    assert "90% sure" in " ".join(page.text.split())
    assert "Nothing fits with a probability of 0.95 or more." in get(client, text="green", min_probability=".95").text
    assert "sure" not in get(client, text="green").text


@pytest.mark.parametrize("least", ["0.123456789", "0.00001", ".5", "1"])
def test_the_link_to_more_holds_what_was_asked(client, engines, least):
    page = get(client, text="green", k="1", group=least)
    (link,) = [one["href"] for one in page.all("a") if "offset=" in one["href"]]
    assert client.get(link).status_code == 200
    assert engines["nns"].wanted.group == float(least)


def test_a_caption_is_searched_with_as_it_stands(client, engines):
    engines["nns"]._text = {"red": 'a - "b" c', "green": 'he said "a - b" at 10:30'}.get
    page = get(client, image_id="7", k="2")
    links = [one["href"] for one in page.all("a") if one.get("aria-label", "").startswith("Search with this caption")]
    for link, text in zip(links, ("a - b c", 'he said "a - b" at 10:30'), strict=True):
        client.get(link)
        assert engines["nns"].calls[-1][:2] == ("text", text)


def test_groups_of_too_many_items_are_refused(engines):
    for engine in engines.values():
        engine.counts = {"images": 10**6, "captions": 5}
    bare = TestClient(create(engines), base_url="http://127.0.0.1:8000")
    asked = {"text": "blue", "group": "0.9", "k": "25"}
    assert bare.get("/api/search", params={**asked, "offset": "25"}).status_code == 200
    refused = bare.get("/api/search", params={**asked, "offset": "26"})
    assert refused.status_code == 400
    assert refused.json()["error"] == "grouped, the first 50 results among 1,000,000 can be asked for, not those to 51"


def test_a_file_of_the_server_cannot_be_asked_with(client, engines):
    answer = client.get("/", params={"text": "red + /etc/shadow.png"})
    assert answer.status_code == 400
    assert "no file is opened by its name here" in Reader(answer.text).text
    assert engines["nns"].calls == []


def test_pictures_like_a_picture_and_a_collection_without_captions(client, engines):
    assert "Images nearest to image 7" in " ".join(get(client, image_id="7", to="images").text.split())
    for engine in engines.values():
        engine.counts = {"images": 5, "captions": 0}
    bare = TestClient(create(engines), base_url="http://127.0.0.1:8000")
    page = Reader(bare.get("/", params={"image_id": "7"}).text)
    assert "Images nearest to image 7" in " ".join(page.text.split())
    assert "0 captions" not in page.text
    assert "captions" not in [one.get("value") for one in page.all("option")]


def test_the_script_is_ours_and_the_only_one(client):
    (script,) = get(client, text="blue", k="2").all("script")
    assert script["src"] == "/more.js"
    answer = client.get("/more.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "script-src 'self';" in answer.headers["content-security-policy"]


def png(width: int, height: int) -> bytes:
    out = io.BytesIO()
    Image.effect_noise((width, height), 60).convert("RGB").save(out, "PNG")
    return out.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    for number in range(4):
        (folder / f"{number}.png").write_bytes(png(600, 300))
    (folder / "7.png").write_bytes(b"no picture")
    return folder


def finder(folder, asked: list):
    def find(number: int):
        asked.append(number)
        return folder / f"{number}.png" if number < 9 else None

    return find


def test_a_thumbnail_is_a_small_webp_of_the_same_proportions(folder):
    made = Thumbnails(finder(folder, [])).get(0)
    with Image.open(io.BytesIO(made)) as opened:
        assert (opened.format, opened.size) == ("WEBP", (SIDE, SIDE // 2))


def test_what_is_no_picture_has_none(folder):
    thumbnails = Thumbnails(finder(folder, []))
    assert [thumbnails.get(number) for number in (7, 8, 9)] == [None] * 3  # unreadable, no file, no such image


def test_the_cache_answers_again_and_forgets_the_least_recently_used(folder):
    size = len(Thumbnails(finder(folder, [])).get(0))
    asked = []
    thumbnails = Thumbnails(finder(folder, asked), budget=int(size * 3.5))
    for number in (0, 1, 2, 0, 3):  # 3 pushes out 1, since 0 was asked for again
        thumbnails.get(number)
    assert asked == [0, 1, 2, 3]
    thumbnails.get(0)
    assert asked == [0, 1, 2, 3]
    thumbnails.get(1)
    assert asked == [0, 1, 2, 3, 1]


def test_a_picture_larger_than_the_cache_is_answered_and_not_kept(folder):
    asked = []
    thumbnails = Thumbnails(finder(folder, asked), budget=10)
    assert thumbnails.get(0) == thumbnails.get(0)
    assert asked == [0, 0]


def test_a_picture_inside_a_shard_has_a_thumbnail(tmp_path):
    content = png(60, 30)
    (tmp_path / "t.tar").write_bytes(b"#" * 512 + content + b"#" * 99)
    address = tmp_path / f"t.tar::512:{len(content)}::a.png"
    with Image.open(io.BytesIO(Thumbnails(lambda number: address).get(1))) as opened:
        assert opened.size == (60, 30)


def test_a_picture_that_cannot_be_read_has_none(tmp_path):
    assert Thumbnails(lambda number: tmp_path).get(1) is None  # a folder
