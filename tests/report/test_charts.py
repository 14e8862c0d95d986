import numpy as np
import pandas as pd
import pytest
import vl_convert

from pipeline.report import charts


@pytest.fixture
def histories():
    return {
        "sum": pd.DataFrame({"epoch": [1, 2, 3], "val_rsum": [10.0, 30.0, 20.0], "loss": [3.0, 2.0, 1.0]}),
        "a.b-c": pd.DataFrame({"epoch": [1, 2], "val_rsum": [5.0, 6.0], "loss": [0.0, 0.0]}),
    }


def labels(spec):
    return vl_convert.vegalite_to_svg(spec)


def test_the_kept_epoch_is_the_best(histories):
    rows = charts.validation(histories)["data"]["values"]
    assert [(row["run"], row["epoch"]) for row in rows if row["kept"]] == [("sum", 2), ("a.b-c", 2)]


def test_one_legend_entry_a_run(histories):
    drawn = labels(charts.validation(histories))
    assert [drawn.count(f">{run}<") for run in histories] == [1, 1]


def test_a_loss_of_zero_is_drawn(histories):
    assert "<path" in labels(charts.training(histories["a.b-c"]))


@pytest.mark.parametrize("largest", [0, 5, 23, 24, 205, 9999])
def test_bins_cover_every_item(largest):
    n = pd.Series([0, 0, largest // 2, largest])
    spec = charts.occurrence(n, n, largest, charts.fullest(n, largest))
    bars, outline = (layer["data"]["values"] for layer in spec["layer"])
    assert sum(bar["items"] for bar in bars) == len(n)
    assert len(bars) <= 24
    assert outline[-1]["items"] < 1
    assert bars[-1]["to"] <= spec["layer"][0]["encoding"]["x"]["scale"]["domain"][1]
    assert "<path" in labels(spec)


def test_no_address_of_a_schema_and_no_theme(histories):
    assert not {"$schema", "config"} & set(charts.validation(histories))


def test_the_library_matches_what_altair_writes():
    assert "vegaEmbed" in charts.library()
    assert charts.library() is charts.library()


def test_fullest():
    assert charts.fullest(pd.Series(np.array([0, 1, 1, 7])), 7) == 2
