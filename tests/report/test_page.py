"""The page of the report: its structure, its words, its tables, its pictures, and nothing from elsewhere."""

import hashlib
import html
import io
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest
from PIL import Image

from tests.report import project as base
from tests.report.conftest import HOSTILE
from tests.sealed import made_anew
from vse_pipe.artifacts import captions, evaluation
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.report import page as page_module
from vse_pipe.report import reading
from vse_pipe.report.pictures import data_uri, thumbnail
from vse_pipe.report.sections import figures

EXTERNAL = [
    r'<(script|img|link|iframe|source|image|use|object|embed|video|audio)[^>]*\b(src|href|data|srcset)="?\s*(https?:)?//',
    r"@import\s+(url\(|[\"'])",
    r"url\(\s*[\"']?(https?:)?//",
    r"fetch\(\s*[\"'`](https?:)?//",
]


class Elements(HTMLParser):
    """(tag, attributes, text that follows) of every element."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.found.append((tag, dict(attrs), []))

    handle_startendtag = handle_starttag

    def handle_data(self, data):
        if self.found:
            self.found[-1][2].append(data)

    def all(self, *tags):
        return [(attrs, "".join(text)) for tag, attrs, text in self.found if tag in tags]


@pytest.fixture(scope="module")
def elements(page):
    return Elements(page)


def test_nothing_is_loaded_from_elsewhere_and_no_other_script_is_allowed(page, elements):
    assert [pattern for pattern in EXTERNAL if re.search(pattern, page)] == []
    assert len(page.encode()) < 3_000_000
    planted = ['<script src="https://a.b/c.js">', '<img alt="" src="//a.b/c.png">', 'fetch("https://a.b")']
    for text in (*planted, "@import url(x)", "url(http://a.b)"):
        assert any(re.search(pattern, text) for pattern in EXTERNAL), text
    metas = [attrs for attrs, _ in elements.all("meta")]
    (policy,) = [one["content"] for one in metas if one.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; img-src data:;")
    assert policy.count("'sha256-") == 2
    assert "script-src 'unsafe-inline'" not in policy


def test_captions_are_text_and_pictures_are_embedded_once_and_say_what_they_show(page, elements):
    assert HOSTILE not in page
    assert html.escape(HOSTILE, quote=False) in page.replace("&#34;", '"')
    assert not elements.all("img")
    assert len([1 for attrs, _ in elements.all("script") if attrs.get("type") != "application/json"]) == 2
    pictures = [attrs for attrs, _ in elements.all("svg") if attrs.get("class") == "picture"]
    assert len(pictures) > 100
    assert all(attrs["role"] == "img" and attrs["aria-label"].startswith("Picture ") for attrs in pictures)
    plots = [attrs for attrs, _ in elements.all("div") if attrs.get("class") == "plot"]
    hubness, relaxation, changes = 3 * 2 * 2 * len(base.CRITERIA), 3 * 2 * 3, 3 * 2
    assert len(plots) == 1 + 3 + len(base.SWEEPS) + hubness + relaxation + changes
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 30 for attrs in plots)
    uris = re.findall(r"data:image/webp;base64,[A-Za-z0-9+/=]+", page)
    symbols = {attrs["id"] for attrs, _ in elements.all("symbol")}
    assert len(uris) == len(symbols) <= base.IMAGES
    assert {attrs["href"].removeprefix("#") for attrs, _ in elements.all("use")} == symbols


def test_headings_tables_ids_links_and_words_of_the_page(elements, page):
    levels = [int(tag[1]) for tag, _, _ in elements.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    assert len(elements.all("table")) == len(elements.all("caption"))
    assert all(attrs.get("scope") in ("col", "row", "colgroup") for attrs, _ in elements.all("th"))
    ids = [attrs["id"] for _, attrs, _ in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"].removeprefix("#") for attrs, _ in elements.all("a")} <= {*ids, "timings.html"}
    labels = {attrs["aria-labelledby"] for _, attrs, _ in elements.found if "aria-labelledby" in attrs}
    assert labels <= set(ids)
    items = [attrs["class"] for attrs, _ in elements.all("li") if attrs.get("class") in ("right", "wrong")]
    spans = [attrs.get("class", "") for attrs, _ in elements.all("span")]
    said = [kind for kind in spans if kind.startswith("verdict")]
    assert len(items) > 100
    # Headings of the two tables of failures carry the symbols too, and so do both cells of a query that is changed.
    changed = [kind for kind in spans if kind in ("kind repaired", "kind broken")]
    assert len(changed) > 20
    assert len(said) == len(items) + 2 * 2 + 2 * len(changed)
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page)))
    assert "Image to text: 60 queries, 300 items; text to image: 300 queries, 60 items." in text
    assert "300.2\u2013433.8" in text


def test_fingerprints_hubs_and_the_table_of_n_k_are_those_of_the_files(finished, page):
    section = page[page.index("<h3>Fingerprints</h3>") :]
    rows = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td><td class="digest">(\w+)</td>', section)
    digests = {(of, what): digest for of, what, digest in rows}
    prepared = finished / paths.prepared("shapes")
    for name in ("images", "captions"):
        assert digests["shapes", name] == hashlib.sha256((prepared / f"{name}.parquet").read_bytes()).hexdigest()
    assert int(digests["hal", "features"], 16) == 1
    assert int(digests["hal", "texts"], 16) == 2
    assert int(digests["hal", "pairs"], 16) == 3
    weights = [int(digests[run, "weights"], 16) for run in base.RUNS]
    assert weights == [10, 11, 12]
    # The largest hub among the pictures, its N_10, and captions that have it in their list, one for each.
    folder = finished / paths.evaluated("hal", "nns")
    occurrence = evaluation.read_occurrence(folder).to_pandas()
    items = occurrence[occurrence["direction"] == "text_to_image"]
    hub = items.sort_values(["n_10", "item_id"], ascending=[False, True]).iloc[0]
    ranks = evaluation.read_ranks(folder).to_pandas()
    texts = captions.read(finished / paths.prepared("shapes")).to_pandas().set_index("caption_id")
    own = ranks[(ranks["direction"] == "text_to_image") & ranks["top"].map(lambda top: hub["item_id"] in top)]
    assert len(own) == hub["n_10"]
    section = page[page.index('id="hubness"') :]
    listed = section[section.index("and captions that have them among their 10 best") :]
    first = listed[listed.index('<div class="hub">') : listed.index("</li>\n<li>\n<div")]
    assert f"N<sub>10</sub> {hub['n_10']}" in first
    assert f'aria-label="Picture {hub["item_id"]}: ' in first
    shown = [html.unescape(text) for text in re.findall(r'<span class="caption" dir="auto">(.*?)</span>', first)]
    assert len(shown) == 6
    assert set(shown) <= {texts.at[number, "text"] for number in own["query_id"]}
    assert f"and {hub['n_10'] - 6} more" in first
    caption = r"<caption>Captions by N<sub>(\d+)</sub> and criterion, run hal</caption>"
    tables = re.findall(rf"{caption}.*?<tbody>(.*?)</tbody>", page, re.DOTALL)
    assert [k for k, _ in tables] == ["10", "1"]
    for _, body in tables:
        cells = [re.findall(r'<td class="number">(\d+)</td>', row) for row in body.split("</tr>")]
        rows = [[int(cell) for cell in row] for row in cells]
        columns = list(zip(*[row for row in rows if row], strict=True))
        assert [sum(column) for column in columns] == [base.IMAGES * base.CAPTIONS_EACH] * len(base.CRITERIA)


def summary_of(project, images=400, **measured):
    """The words of the section Summary where the evaluations of `hal` ranked so many images and have other metrics."""
    for inference in base.CRITERIA:
        path = project / paths.evaluated("hal", inference) / evaluation.METRICS
        content = read_json(path)
        content["text_to_image"]["items"] = images
        write_json(path, content | measured)
    results = reading.read(base.params())
    template = page_module.page_environment().get_template("sections/summary.html")
    html = template.render(**figures.summary(results, None), unconverged=results.unconverged)
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_evaluations_of_few_items_or_of_unknown_data_are_to_be_read_with_care_and_others_refused(project):
    assert "whatever the model" not in summary_of(project)
    said = "Read with care. Text to image: only 4 images are ranked; R@1, R@5, R@10 and rsum are large whatever the "
    assert f"{said}model." in summary_of(project, images=4)
    assert "Not comparable" not in summary_of(project)
    assert "made on different states of the data set shapes" in summary_of(project, data=None)
    made_anew(paths.prepared("shapes"), test="0")
    refused = r"evaluate/sum: made from other images or captions of split test.*evaluate --run sum`"
    with pytest.raises(IntegrityError, match=refused):
        summary_of(project)


def encoded(size, mode="RGB", kind="PNG", **options):
    out = io.BytesIO()
    Image.new(mode, size, 1).save(out, kind, **options)
    return out.getvalue()


def opened(webp):
    return Image.open(io.BytesIO(webp))


SIZES = [((400, 200), 100, (100, 50)), ((200, 400), 64, (32, 64)), ((30, 20), 100, (30, 20))]


@pytest.mark.parametrize("mode", ["RGB", "CMYK", "P", "L", "RGBA", "I;16"])
@pytest.mark.parametrize(("size", "side", "expected"), SIZES)
def test_a_thumbnail_keeps_proportions_and_is_of_colours_of_any_mode(size, side, expected, mode):
    small = opened(thumbnail(encoded(size, mode, "JPEG" if mode == "CMYK" else "PNG"), side))
    assert (small.size, small.format, small.mode) == (expected, "WEBP", "RGB")


def test_a_thumbnail_is_upright_and_no_program_is_started_for_it(monkeypatch):
    exif = Image.Exif()
    exif[0x0112] = 6
    assert opened(thumbnail(encoded((80, 40), kind="JPEG", exif=exif), 40)).size == (20, 40)
    assert data_uri(b"\0\1") == "data:image/webp;base64,AAE="
    # Pillow draws EPS with Ghostscript; what a data set holds must not decide that.
    started = []
    monkeypatch.setattr("subprocess.check_call", lambda *given, **_: started.append(given))
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    assert Image.open(io.BytesIO(eps)).format == "EPS"  # it would
    assert thumbnail(eps, 32) is None
    assert not started

    def broken(image):
        raise IndexError("index out of range")

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", broken)
    assert thumbnail(encoded((40, 40)), 32) is None
