import pytest
from ruamel.yaml import YAML

from vse_pipe.papers import catalogue, listing
from vse_pipe.papers.overlay import overlay
from vse_pipe.project.registry import Family


@pytest.fixture
def without(monkeypatch):
    """A version without a member."""
    names = Family.names

    def take_away(member):
        monkeypatch.setattr(Family, "names", lambda family: [name for name in names(family) if name != member])

    return take_away


def line(text: str, row: str) -> str:
    return next(line for line in text.splitlines() if line.split()[:1] == [row])


def test_papers_count_rows_not_variants(without):
    found = {one["paper"]: one for one in listing.papers()}
    assert [found["hal-aaai2020"][key] for key in ("rows", "own")] == [34, 24]
    without("memory_bank")
    fewer = {one["paper"]: one for one in listing.papers()}
    assert found["hal-aaai2020"]["runs"] - fewer["hal-aaai2020"]["runs"] >= 3  # 2.4, 2.8, 2.12; 2.24 under c1
    assert found["vsepp"]["runs"] == fewer["vsepp"]["runs"]


def test_a_row_says_whether_it_runs_and_which_variants_of_its_own_do(capsys, without):
    listing.show_rows("hal-aaai2020")
    text = capsys.readouterr().out
    assert line(text, "1.1").rstrip().endswith("runs")
    assert line(text, "1.3").rstrip().endswith("runs, :code")
    assert line(text, "1.7").rstrip().endswith("quoted")
    assert "own rows also :xavier" in text
    without("hal")
    listing.show_rows("hal-aaai2020")
    text = capsys.readouterr().out
    assert "needs loss" in line(text, "1.3")
    assert line(text, "1.2").rstrip().endswith("runs, :code")


def test_figures_as_the_tables_print_them(capsys):
    listing.show_rows("hal-aaai2020")
    assert line(capsys.readouterr().out, "1.1").split()[3:10] == [
        "30.0",
        "59.6",
        "67.7",
        "22.8",
        "49.4",
        "61.4",
        "291.0",
    ]
    listing.show_rows("structure-preserving-cvpr2016")
    assert "43.89" in line(capsys.readouterr().out, "3d-mined")


def test_a_row_for_programs_has_all_of_it():
    row = next(one for one in listing.rows("hal-aaai2020") if one["row"] == "2.3:code")
    assert row["protocol"] == "c2"
    assert row["assumed"].startswith("Table 3 does not list this row")
    assert row["settings"]["train"] == {
        **{"batch_size": 512, "epochs": 13, "grad_clip": 2.0, "embed_size": 1024},
        **{"val_images": 1000, "lr": 1e-3, "lr_update": 8},
    }
    assert row["needs"] == []


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
    assert listing.figure_text(value) == text
