"""The page as a browser without scripts reads it."""

from html.parser import HTMLParser

import pytest

from tests.search.serve.standin import HOSTILE, MATCHES, photo
from vse_pipe.search.query import Limits


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

    def all(self, tag: str, key: str = "", holds: str = "") -> list:
        """The attributes of these elements; key: this one, of those that have it and where it holds a text."""
        found = [attributes for name, attributes in self.found if name == tag]
        return [one[key] for one in found if key in one and holds in one[key]] if key else found


def get(client, address: str = "/", status: int = 200, **asked) -> Reader:
    answer = client.get(address, params=asked or None)
    assert (answer.status_code, "Traceback" in answer.text) == (status, False), answer.text
    return Reader(answer.text)


def test_the_empty_page_has_both_forms_and_no_result(client, engines):
    page = get(client)
    by_text, by_photo = page.all("form")
    assert (by_text["method"], by_photo["method"], by_photo["enctype"]) == ("get", "post", "multipart/form-data")
    assert page.all("input", "name") == ["text", "k", "where", "photo", "k", "where"]
    assert page.all("select", "name") == ["inference", "to", "inference", "to"]
    assert page.all("img") == page.all("li") == page.all("script") == []
    assert "5 images, 5 captions" in page.text
    assert engines["nns"].calls == []


def test_a_sentence_gives_a_gallery_in_order_and_unknown_words_and_notes(client, engines):
    page = get(client, text="green square", k="3")
    assert engines["nns"].calls == [("text", "green square", 4)]
    alts = ["a green square", HOSTILE, "a blue square"]
    assert (page.all("img", "src"), page.all("img", "alt")) == (["/picture/17", "/picture/7", "/picture/27"], alts)
    assert "0.900" in page.text
    assert "3 results under nns in 12 ms" in " ".join(page.text.split())
    assert page.all("input")[0]["value"] == "green square"
    assert [one["value"] for one in page.all("input") if one["name"] == "k"] == ["3", "3"]
    page = get(client, text="purple green")
    assert "The model has not seen, and so left out: purple" in page.text
    assert "a note" in page.text
    assert "a note" not in get(client, text="green").text


def test_captions_and_queries_are_text_and_the_only_script_is_ours(client):
    page = get(client, text=HOSTILE)
    assert (page.all("script"), page.all("img", "onerror")) == ([], [])
    assert page.text.count(HOSTILE) == 3  # the title, the heading and the first picture's caption
    assert page.all("input")[0]["value"] == HOSTILE
    assert get(client, text="blue", k="2").all("script", "src") == ["/more.js"]
    answer = client.get("/more.js")
    assert answer.headers["content-type"].startswith("text/javascript")
    assert "script-src 'self';" in answer.headers["content-security-policy"]


def test_links_lead_from_a_result_to_a_search_with_its_picture_and_with_its_caption(client, engines):
    links = get(client, text="blue", k="5").all("a", "href", "image_id")
    # The fifth image has no picture.
    assert (links[0], len(links)) == ("/?image_id=27&k=5&inference=nns", 4)
    second = get(client, links[0])
    assert engines["nns"].calls[-1] == ("image_id", 27, 6)
    assert second.all("img")[0] == second.all("img")[0] | {"src": "/picture/27", "alt": "the picture searched with"}
    assert second.text.count("its own") == 1
    client.get(second.all("a", "href", "text=")[0])
    assert engines["nns"].calls[-1] == ("text", HOSTILE, 6)


def test_a_photo_is_searched_with_and_shown_beside_its_results(client, engines):
    content = photo()
    answer = client.post("/", data={"k": "2", "inference": "csls"}, files={"photo": ("../x.jpg", content)})
    assert (answer.status_code, engines["csls"].calls) == (200, [("photo", content, 3)])
    first, *others = Reader(answer.text).all("img", "src")
    assert first.startswith("data:image/webp;base64,")
    assert others == ["/picture/7", "/picture/17"]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"text": "<b>red</b>", "k": "1000"}, "k: "),
        ({"text": "red", "inference": "<i>"}, "unknown inference '<i>'"),
        ({"image_id": "99"}, "image 99 is not in the test split"),
        ({"text": "red + /etc/shadow.png"}, "no file is opened by its name here"),
    ],
)
def test_a_wrong_value_is_status_400_and_a_sentence_in_the_page(client, engines, asked, message):
    page = get(client, status=400, **asked)
    assert (message in page.text, "alert" in page.all("p", "role")) == (True, True)
    assert (page.all("input")[0]["value"], engines["nns"].calls) == (asked.get("text", ""), [])


def test_results_are_leafed_through_by_links_that_keep_what_was_asked(client, engines):
    first = get(client, text="blue", k="1", where="file=re", to="images")
    (more,) = first.all("a", "href", "offset=")
    assert more == "/?text=blue&to=images&offset=1&k=1&inference=nns&where=file%3Dre"
    second = get(client, more)
    assert first.all("ol", "start") + second.all("ol", "start") == ["1", "2"]
    assert first.all("img", "src") + second.all("img", "src") == ["/picture/7", "/picture/17"]
    assert engines["nns"].wanted == Limits(2, "images", ("file=re",), 1)
    last = get(client, *second.all("a", "href", "offset="))
    assert "image 47: no picture" in last.text
    assert last.all("script") == last.all("a", "href", "offset=") == []


def test_parts_and_conditions_are_shown(client, engines):
    page = get(client, text="green:2 - red", where=["file=e", "file=re"])
    words = " ".join(page.text.split())
    assert [one for one in ("with green × 2 without red", "of 3 where file=e, file=re") if one not in words] == []
    boxes = {one["name"]: one["value"] for one in page.all("input") if one["name"] in ("text", "where")}
    assert boxes == {"text": "green:2 - red", "where": "file=re"}
    assert page.all("input", "name").count("where") == 4
    assert all("open" in one for one in page.all("details") if one.get("class") == "narrow")


def test_a_caption_is_searched_with_as_it_stands(client, engines):
    engines["nns"]._text = {"red": 'a - "b" c', "green": 'he said "a - b" at 10:30'}.get
    page = get(client, image_id="7", k="2")
    links = [one["href"] for one in page.all("a") if one.get("aria-label", "").startswith("Search with this caption")]
    for link, text in zip(links, ("a - b c", 'he said "a - b" at 10:30'), strict=True):
        client.get(link)
        assert engines["nns"].calls[-1][:2] == ("text", text)


def test_words_are_drawn_over_each_picture_that_there_is(client):
    page = get(client, text="matched grey", k="2")
    assert page.all("link", "href")[-1] == "/words.css"
    assert client.get("/words.css").headers["content-type"].startswith("text/css")
    # The first hit has no picture, and a mark is no word.
    assert page.all("input", "name", "words-") == ["words-2"] * 3
    assert page.all("svg", "viewbox") == ["0 0 900 600"] * 2
    corners = [[float(rect[key]) for key in ("x", "y", "width", "height")] for rect in page.all("rect")[::2]]
    assert corners == [[90, 60, 360, 240], [0, 300, 900, 300]]
    assert client.get("/api/search", params={"text": "matched grey", "k": 2}).json()["regions"] == [MATCHES] * 2
    assert not get(client, text="grey").all("fieldset")
