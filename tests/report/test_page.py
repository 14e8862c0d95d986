import hashlib
import html
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from tests.report import project as artefacts
from tests.report.conftest import HOSTILE
from vse_pipe.artifacts import captions, evaluation
from vse_pipe.core.errors import IntegrityError
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.report import page as page_module
from vse_pipe.report import reading, settings
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


@pytest.mark.parametrize("pattern", EXTERNAL)
def test_nothing_is_loaded_from_elsewhere(page, pattern):
    assert not re.search(pattern, page)


@pytest.mark.parametrize(
    "planted",
    [
        '<script src="https://a.b/c.js">',
        '<img alt="" src="//a.b/c.png">',
        "@import url(x)",
        'fetch("https://a.b")',
        "url(http://a.b)",
    ],
)
def test_the_search_for_outside_addresses_finds_them(planted):
    assert any(re.search(pattern, planted) for pattern in EXTERNAL)


def test_the_policy_allows_no_request_and_no_other_script(elements):
    policies = [
        attrs["content"] for attrs, _ in elements.all("meta") if attrs.get("http-equiv") == "Content-Security-Policy"
    ]
    assert len(policies) == 1
    assert policies[0].startswith("default-src 'none'; img-src data:;")
    assert policies[0].count("'sha256-") == 2
    assert "script-src 'unsafe-inline'" not in policies[0]


def test_captions_are_text(page, elements):
    assert HOSTILE not in page
    assert html.escape(HOSTILE, quote=False) in page.replace("&#34;", '"')
    assert not elements.all("img")
    assert len([1 for attrs, _ in elements.all("script") if attrs.get("type") != "application/json"]) == 2


def test_every_picture_says_what_it_shows(elements):
    pictures = [attrs for attrs, _ in elements.all("svg") if attrs.get("class") == "picture"]
    assert len(pictures) > 100
    assert all(attrs["role"] == "img" and attrs["aria-label"].startswith("Picture ") for attrs in pictures)
    plots = [attrs for attrs, _ in elements.all("div") if attrs.get("class") == "plot"]
    hubness, relaxation, changes = 3 * 2 * 2 * len(artefacts.CRITERIA), 3 * 2 * 3, 3 * 2
    assert len(plots) == 1 + 3 + len(artefacts.SWEEPS) + hubness + relaxation + changes
    assert all(attrs["role"] == "img" and len(attrs["aria-label"]) > 30 for attrs in plots)


def test_each_picture_is_embedded_once(page, elements):
    uris = re.findall(r"data:image/webp;base64,[A-Za-z0-9+/=]+", page)
    symbols = {attrs["id"] for attrs, _ in elements.all("symbol")}
    assert len(uris) == len(symbols) <= artefacts.IMAGES
    assert {attrs["href"].removeprefix("#") for attrs, _ in elements.all("use")} == symbols


def test_headings_step_down_one_level_at_a_time(elements):
    levels = [int(tag[1]) for tag, _, _ in elements.found if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))


def test_tables_have_captions_and_scopes(elements):
    assert len(elements.all("table")) == len(elements.all("caption"))
    assert all(attrs.get("scope") in ("col", "row", "colgroup") for attrs, _ in elements.all("th"))


def test_ids_are_unique_and_links_lead_somewhere(elements):
    ids = [attrs["id"] for _, attrs, _ in elements.found if "id" in attrs]
    assert len(ids) == len(set(ids))
    assert {attrs["href"].removeprefix("#") for attrs, _ in elements.all("a")} <= {*ids, "timings.html"}
    labels = {attrs["aria-labelledby"] for _, attrs, _ in elements.found if "aria-labelledby" in attrs}
    assert labels <= set(ids)


def test_right_and_wrong_are_said_in_words(elements):
    items = [attrs["class"] for attrs, _ in elements.all("li") if attrs.get("class") in ("right", "wrong")]
    said = [
        attrs["class"].removeprefix("verdict ")
        for attrs, _ in elements.all("span")
        if attrs.get("class", "").startswith("verdict")
    ]
    assert len(items) > 100
    # The headings of the two tables of failures carry the symbols as well, and so do both cells of a query that a criterion
    # changed.
    changed = [1 for attrs, _ in elements.all("span") if attrs.get("class") in ("kind repaired", "kind broken")]
    assert len(changed) > 20
    assert len(said) == len(items) + 2 * 2 + 2 * len(changed)


def test_size(page):
    assert len(page.encode()) < 3_000_000


@pytest.mark.parametrize(
    "words",
    [
        "at least one correct item among the K best",
        "Every query of the test split ranks all items of that split.",
        "Ties count against the query",
        "transductive",
        "Without such statistics the best result is run hal ranked with",
        "the line passes through the means, the band spans the lowest and the highest",
        "Small figures below: the 95% interval",
        "300.2\u2013433.8",
        "20.1\u201361.5",
        "The largest hubs under nns, and images that have them among their 10 best, nearest first",
        "Image to text: 60 queries, 300 items; text to image: 300 queries, 60 items.",
    ],
)
def test_said_on_the_page(page, words):
    text = re.sub(r"\s+", " ", html.unescape(re.sub(r"<[^>]+>", "", page)))
    assert words in text


class Measured:
    def __init__(self, **figures):
        self.metrics = {"rsum": 1.0, "image_to_text": figures, "bank": "none"}

    def interval_of(self, path):
        return None


@pytest.mark.parametrize(
    ("values", "goal", "expected"),
    [
        ([1.0, 3.0, 2.0], "most", [False, True, False]),
        ([1.0, 3.0, 2.0], "least", [True, False, False]),
        ([-14.0, 0.5, 0.7], "zero", [False, True, False]),
        ([3.01, 3.04, 2.0], "most", [True, True, False]),
        ([1.0, 1.0, 1.0], "most", [False, False, False]),
        ([None, 2.0, 1.0], "least", [False, False, True]),
        ([None, None, None], "most", [False, False, False]),
    ],
)
def test_best_of_a_column(values, goal, expected):
    column = figures.Column("R@1", ("image_to_text", "r@1"), 1, goal)
    evaluations = [Measured(**({} if value is None else {"r@1": value})) for value in values]
    best = figures._best(column, evaluations)
    assert [figures._ranking_cell(column, best, one)["best"] for one in evaluations] == expected


def test_options_are_written_as_in_params_yaml():
    values = {
        "beta": 30.0,
        "k": 10,
        "two_sided": True,
        "lam": None,
        "ks": [1, 5],
        "grid": [1 + step / 4 for step in range(37)],
    }
    assert settings.listed(values) == "beta 30, k 10, two_sided true, lam null, ks [1, 5], grid 1 to 10 (37 values)"


def test_fingerprints_are_those_of_the_files(finished, page):
    section = page[page.index("<h3>Fingerprints</h3>") :]
    rows = re.findall(r'<th scope="row">(.*?)</th><td>(.*?)</td><td class="digest">(\w+)</td>', section)
    digests = {(of, what): digest for of, what, digest in rows}
    prepared = finished / paths.prepared("shapes")
    for name in ("images.parquet", "captions.parquet"):
        assert digests["shapes", name] == hashlib.sha256((prepared / name).read_bytes()).hexdigest()
    assert int(digests["hal", "features"], 16) == 1
    assert int(digests["hal", "texts"], 16) == 2
    assert int(digests["hal", "pairs"], 16) == 3
    weights = [int(digests[run, "weights"], 16) for run in artefacts.RUNS]
    assert weights == [10, 11, 12]


def test_hubs_stand_with_the_queries_they_draw(finished, page):
    """The largest hub among the pictures, its N_10, and captions that have it in their list, one for each."""
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


def test_the_table_of_n_k_counts_every_item(page):
    tables = re.findall(
        r"<caption>Captions by N<sub>(\d+)</sub> and criterion, run hal</caption>.*?<tbody>(.*?)</tbody>",
        page,
        re.DOTALL,
    )
    assert [k for k, _ in tables] == ["10", "1"]
    for _, body in tables:
        rows = [
            [int(cell) for cell in re.findall(r'<td class="number">(\d+)</td>', row)] for row in body.split("</tr>")
        ]
        columns = list(zip(*[row for row in rows if row], strict=True))
        assert [sum(column) for column in columns] == [artefacts.IMAGES * artefacts.CAPTIONS_EACH] * len(
            artefacts.CRITERIA
        )


def summary_of(project, images=400, **measured):
    """The words of the section Summary where the evaluations of `hal` ranked so many images and have other metrics."""
    for inference in artefacts.CRITERIA:
        path = project / paths.evaluated("hal", inference) / evaluation.METRICS
        content = read_json(path)
        content["text_to_image"]["items"] = images
        write_json(path, content | measured)
    results = reading.read(artefacts.params())
    html = page_module.page_environment().get_template("sections/summary.html").render(**figures.summary(results, None))
    return " ".join(re.sub(r"<[^>]*>", " ", html).split())


def test_recall_among_few_items_is_to_be_read_with_care(project):
    assert "whatever the model" not in summary_of(project)
    said = (
        "Read with care. Text to image: only 4 images are ranked; R@1, R@5, R@10 and rsum are large whatever the model."
    )
    assert said in summary_of(project, images=4)


def test_evaluations_that_do_not_say_of_which_data_they_are(project):
    assert "Not comparable" not in summary_of(project)
    assert "made on different states of the data set shapes" in summary_of(project, data=None)


def test_evaluations_of_other_data_are_refused(project):
    with pytest.raises(
        IntegrityError, match=r"hal/nns: made from other images or captions of split test.*evaluate@hal`"
    ):
        summary_of(project, data="another")


def test_a_page_without_a_title_of_its_own_names_the_data_sets():
    given = artefacts.params(title=None)
    assert page_module.title(given) == "vse-pipe on the shapes data set"
    other = replace(given, runs={**given.runs, "own": replace(given.runs["hal"], dataset="mine")})
    assert page_module.title(other) == "vse-pipe on the shapes and mine data sets"
    assert page_module.title(artefacts.params()) == "Shapes, three losses"
