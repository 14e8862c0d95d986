"""Figures by group against loops over the table of ranks."""

import numpy as np
import pandas as pd
import pyarrow.compute as pc
import pytest

from tests.command_line import caller, failure, json_document
from tests.evaluate.embedded import measured, params, write_dataset
from tests.evaluate.files import sample, write
from tests.tools import compared
from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.evaluate import groups
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.tools.compare import compare


def _figures(folder, values, drop: int = 0) -> dict:
    """By the column ``kind`` of groups.csv, without its last ``drop`` rows; values: of the captions of ``sample``."""
    one, path = sample(), folder / "groups.csv"
    table = pd.DataFrame({"caption_id": one.caption_ids, "kind": values(one)})
    table[: len(table) - drop].to_csv(path, index=False)
    options = EvaluateParams(by="kind", groups=str(path))
    return write(one, folder).ranked(["nns"], options, out=folder / "out")["nns"]["by_group"]


def test_each_group_has_the_mean_of_its_queries_and_the_worst_comes_first(tmp_path):
    found = _figures(tmp_path, lambda one: np.where(one.owners % 2, "en", "de"))
    ranks = evaluation.read_ranks(tmp_path / "out" / "nns").to_pandas()
    for direction in evaluation.DIRECTIONS:
        sums = []
        for row in found[direction]:
            mine = ranks[(ranks.direction == direction) & ((ranks.image_id % 2 == 1) == (row["group"] == "en"))]
            assert (row["queries"], row["images"]) == (len(mine), mine.image_id.nunique())
            for k in evaluation.KS:
                assert row[f"r@{k}"] == pytest.approx(100 * sum(mine[f"hit_{k}"]) / len(mine), abs=1e-5)
                assert row["intervals"][f"r@{k}"][0] <= row[f"r@{k}"] <= row["intervals"][f"r@{k}"][1]
            sums.append(sum(row[f"r@{k}"] for k in evaluation.KS))
        assert len(sums) == 2
        assert sums == sorted(sums)


def test_many_numbers_are_cut_into_quarters_and_an_image_of_several_groups_is_no_query(tmp_path, capsys):
    found = _figures(tmp_path, lambda one: np.arange(len(one.owners)) + 10_000_001)
    assert set(found) == {"column", "text_to_image"}
    assert {row["group"] for row in found["text_to_image"]} == {
        f"100000{first:02} to 100000{first + 14}" for first in (1, 16, 31, 46)
    }
    groups.show("mine", found)
    shown = capsys.readouterr()
    assert "10000001" in shown.out
    assert "captions of one image are of several" in shown.err


@pytest.mark.parametrize(
    ("values", "drop", "text"),
    [
        (
            lambda one: [f"url {i}" for i in range(60)],
            0,
            "--by kind: 60 different values; a table has at most 50 groups",
        ),
        (lambda one: ["", *["x"] * 59], 0, r"groups\.csv: row 2 has fewer than 2 fields, or an empty one"),
        (lambda one: ["x"] * 60, 2, r"2 ranked captions have no kind, the first is caption_id \d+"),
    ],
)
def test_too_many_groups_and_captions_without_a_value_are_one_line(tmp_path, values, drop, text):
    with pytest.raises(PipelineError, match=text):
        _figures(tmp_path, values, drop)


def test_a_column_of_the_captions_of_a_run_and_their_length(project):
    test = write_dataset()[1].split("test")
    odd = sum(number % 2 for number in test.ids.tolist())
    by_length = measured(params(project, by="length"), "nns")["by_group"]["text_to_image"]
    assert {row["group"]: row["queries"] for row in by_length} == {"3": odd, "2": len(test.ids) - odd}
    by_split = measured(params(project, by="split"), "nns")["by_group"]
    assert [(row["group"], row["queries"]) for row in by_split["image_to_text"]] == [("test", 24)]
    (comparison,) = compare("sum", ["sum"], project, params(project), by="length", resamples=9)
    assert [row.address[0] for row in comparison.rows] == ["2"] * 3 + ["3"] * 3
    assert {row.difference for row in comparison.rows} == {0.0}
    with pytest.raises(UsageError, match="unknown column 'lenght'; did you mean 'length'"):
        measured(params(project, by="lenght"), "nns")
    (project / "twice.csv").write_text(f"caption_id,kind\n{test.ids[0]},x\n{test.ids[0]},y\n")
    with pytest.raises(InputError, match=r"twice\.csv: caption_id \d+ occurs more than once"):
        measured(params(project, by="kind", groups="twice.csv"), "nns")


def test_by_group_each_difference_is_that_of_the_queries_of_the_group(tmp_path, monkeypatch, capsys):
    """Against loops over both tables; a language of each caption in a file, and images of one language each."""
    call = caller(monkeypatch, capsys)
    sides = [compared.evaluation("one", seed=1), compared.evaluation("two", seed=2)]
    folders = [compared.write(side, tmp_path / side.name) for side in sides]
    captions = sides[0].ranks.filter(pc.equal(sides[0].ranks["direction"], "text_to_image")).to_pandas()
    language = {image: "de" if image % 3 else "en" for image in captions["image_id"].unique()}
    captions.assign(caption_id=captions["query_id"], language=captions["image_id"].map(language))[
        ["caption_id", "language"]
    ].to_csv(tmp_path / "languages.csv", index=False)
    arguments = ("compare", *map(str, folders), "--by", "language", "--groups", str(tmp_path / "languages.csv"))
    content = json_document(call, *arguments, "--json")["comparisons"][0]
    assert content["by"] == "language"
    for name, directions in content["by_group"].items():
        for direction, figures in directions.items():
            for metric, row in figures.items():
                hits = []
                for side in sides:
                    rows = side.ranks.to_pylist()
                    mine = [r for r in rows if r["direction"] == direction and language[r["image_id"]] == name]
                    hits.append(100 * sum(r[metric.replace("r@", "hit_")] for r in mine) / len(mine))
                assert (row["a"], row["b"]) == pytest.approx(hits)
                assert row["interval"][0] <= row["difference"] <= row["interval"][1]
    assert set(content["by_group"]) == {"de", "en"}
    assert "--by COLUMN and --groups FILE go together" in failure(call, 2, *arguments[:5])
