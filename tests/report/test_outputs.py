import json
import math
from pathlib import Path

import pandas as pd
import pytest

from tests.report import project as artefacts
from vse_pipe.artifacts import evaluation
from vse_pipe.project import paths


def leaves(node, address=()):
    if isinstance(node, dict):
        for key, value in node.items():
            yield from leaves(value, (*address, key))
    else:
        yield address, node


@pytest.fixture(scope="module")
def metrics(finished):
    return json.loads((finished / "reports/metrics.json").read_text())


def test_metrics_hold_what_evaluate_measured(finished, metrics):
    assert {run: list(metrics[run]) for run in metrics} == {
        run: sorted([*artefacts.CRITERIA, "data"]) for run in sorted(artefacts.RUNS)
    }
    for run in artefacts.RUNS:
        for inference in artefacts.CRITERIA:
            measured = evaluation.read_metrics(finished / paths.evaluated(run, inference))
            expected = {(name,): measured[name] for name in ("rsum", "hs_sum")}
            expected |= {(side, "r@1"): measured[side]["r@1"] for side in evaluation.DIRECTIONS}
            assert dict(leaves(metrics[run][inference])) == pytest.approx(expected, abs=5e-5)


def test_one_changed_value_is_a_table_that_is_read(metrics):
    """A value that is changed changes every figure of its run: four a criterion."""
    assert len(list(leaves(metrics["hal"]))) == 4 * len(artefacts.CRITERIA) + 1


def test_metrics_are_finite_numbers_and_never_times(metrics):
    found = [(address, value) for address, value in leaves(metrics) if address[1:] != ("data",)]
    assert len(found) == len(list(leaves(metrics))) - len(artefacts.RUNS)
    assert all(isinstance(value, int | float) and math.isfinite(value) for _, value in found)
    assert not [address for address, _ in found if "seconds" in address[-1] or address[-1] in ("queries", "items")]


def test_figures_name_the_data_they_belong_to(finished, metrics):
    assert {metrics[run]["data"] for run in artefacts.RUNS} == {artefacts.data(finished / paths.DATA)}


def test_keys_are_sorted(finished):
    text = (finished / "reports/metrics.json").read_text()
    assert text == json.dumps(json.loads(text), indent=2, sort_keys=True) + "\n"


def plot(finished, name):
    return pd.read_csv(finished / f"reports/plots/{name}.csv")


def test_rsum(finished, metrics):
    table = plot(finished, "rsum")
    assert list(table.columns) == ["run", "inference", "rsum"]
    assert {(row.run, row.inference): row.rsum for row in table.itertuples()} == {
        (run, inference): metrics[run][inference]["rsum"] for run in metrics for inference in artefacts.CRITERIA
    }


def test_history(finished):
    table = plot(finished, "history")
    assert list(table.columns) == ["run", "epoch", "val_rsum", "loss"]
    assert table.groupby("run", sort=False)["epoch"].apply(list).to_dict() == {
        run: list(range(1, 16)) for run in artefacts.RUNS
    }


def test_occurrence_counts_every_item_once(finished):
    table = plot(finished, "occurrence")
    assert list(table.columns) == ["run", "inference", "direction", "n_10", "items"]
    images, texts = artefacts.IMAGES, artefacts.IMAGES * artefacts.CAPTIONS_EACH
    table["retrievals"] = table["n_10"] * table["items"]
    sums = table.groupby(["run", "inference", "direction"])[["items", "retrievals"]].sum()
    assert len(sums) == 2 * len(artefacts.RUNS) * len(artefacts.CRITERIA)
    for (_, _, direction), row in sums.iterrows():
        queries, items = (images, texts) if direction == "image_to_text" else (texts, images)
        assert (row["items"], row["retrievals"]) == (items, 10 * queries)


@pytest.mark.parametrize(
    ("template", "table"), [("curves", "history"), ("rsum", "rsum"), ("occurrence", "occurrence"), ("sweeps", "sweeps")]
)
def test_the_fields_of_a_dvc_template_are_columns(finished, template, table):
    content = json.loads(
        Path(artefacts.__file__).parents[2].joinpath("pipeline/vse_pipe/report/plots", f"{template}.json").read_text()
    )
    fields = {value for address, value in leaves_of(content) if address[-1] == "field"}
    made = {value for address, value in leaves_of(content) if address[-1] == "as"}
    # DVC adds `rev` and fills in the axes.
    assert {field for field in fields - made if not field.startswith("<DVC_")} <= {
        "rev",
        *plot(finished, table).columns,
    }
    assert content["data"]["values"] == "<DVC_METRIC_DATA>"


def leaves_of(node, address=()):
    """Like ``leaves``, through lists too."""
    if isinstance(node, list):
        for value in node:
            yield from leaves_of(value, address)
    elif isinstance(node, dict):
        for key, value in node.items():
            yield from leaves_of(value, (*address, key))
    else:
        yield address, node
