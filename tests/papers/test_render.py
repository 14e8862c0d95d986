import pytest
from ruamel.yaml import YAML

from vse_pipe.papers import catalogue, listing
from vse_pipe.papers.overlay import overlay


def test_text_is_the_overlay_and_its_heading_comments():
    entry = catalogue.find("hal-aaai2020", "2.3")
    found = overlay("hal-aaai2020", "2.3")
    text = listing.text(entry, found)
    assert YAML(typ="safe").load(text) == {"replace": "nodes", **found}
    comments = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("#")]
    assert comments == listing.heading(entry)
    assert "Table 2, row 2.3" in comments[0]
    assert comments[1] == "GRU+VGG19 HAL; MS-COCO c2: mean over five folds of 1,000 test images"
    assert comments[-1].startswith("assumed: Table 3 does not list this row")


def test_published_figures_a_direction_a_line():
    assert listing.published(catalogue.find("vsepp", "1.2")) == [
        "published i2t: R@1 46.7, R@10 88.9, Med r 2.0",
        "published t2i: R@1 37.9, R@10 85.9, Med r 2.0",
    ]
    assert listing.published(catalogue.find("hal-rgm-emnlp", "1.1"))[-1] == "published: rsum 291.0, hs-sum 10.77"


def test_a_note_and_further_tables_are_named():
    heading = listing.heading(catalogue.find("vsepp", "1.3"))
    assert heading[-1] == "note: R@10 below R@5, as printed"
    assert "Table 4 and 3, row 4.2" in listing.heading(catalogue.find("hal-rgm-emnlp", "4.2"))[0]


@pytest.mark.parametrize(("value", "text"), [(30.0, "30.0"), (43.89, "43.89"), (0.1, "0.1"), (40.5, "40.5")])
def test_figures_have_the_decimals_of_the_tables(value, text):
    assert listing.shown(value) == text
