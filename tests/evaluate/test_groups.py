"""Figures by group against loops over the table of ranks."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.evaluate.embedded import measured, params, sides
from tests.evaluate.files import sample, write
from vse_pipe.artifacts import captions, evaluation, images
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate import groups
from vse_pipe.evaluate.files import evaluate_files
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams


def _files(folder, column: str, values) -> dict:
    """The captions of ``sample`` with a column in groups.csv."""
    one = sample()
    table = pd.DataFrame({"caption_id": one.caption_ids, column: values(one)})
    table.to_csv(folder / "groups.csv", index=False)
    return {"files": write(one, folder), "params": EvaluateParams(by=column, groups=str(folder / "groups.csv"))}


def _figures(files, params, out=None) -> dict:
    return evaluate_files(files, ["nns"], params, {}, "cpu", out)["nns"]["by_group"]


def test_each_group_has_the_mean_of_its_queries_and_the_worst_comes_first(tmp_path):
    given = _files(tmp_path, "language", lambda one: np.where(one.owners % 2, "en", "de"))
    found = _figures(**given, out=tmp_path / "out")
    ranks = evaluation.read_ranks(tmp_path / "out" / "nns").to_pandas()
    assert found["column"] == "language"
    for direction in evaluation.DIRECTIONS:
        rows = ranks[ranks.direction == direction]
        sums = []
        for row in found[direction]:
            mine = rows[(rows.image_id % 2 == 1) == (row["group"] == "en")]
            for k in evaluation.KS:
                share = 100 * sum(mine[f"hit_{k}"]) / len(mine)
                assert row[f"r@{k}"] == pytest.approx(share, abs=1e-5)
                low, high = row["intervals"][f"r@{k}"]
                assert low <= share <= high
            assert (row["queries"], row["images"]) == (len(mine), mine.image_id.nunique())
            sums.append(sum(row[f"r@{k}"] for k in evaluation.KS))
        assert len(sums) == 2
        assert sums == sorted(sums)


def test_many_numbers_are_cut_into_quarters_and_an_image_of_several_groups_is_no_query(tmp_path, capsys):
    found = _figures(**_files(tmp_path, "words", lambda one: np.arange(len(one.owners)) + 1))
    assert set(found) == {"column", "text_to_image"}
    assert {row["group"] for row in found["text_to_image"]} == {"1 to 15", "16 to 30", "31 to 45", "46 to 60"}
    groups.show("mine", found)
    shown = capsys.readouterr()
    assert "1 to 15" in shown.out
    assert "captions of one image are of several" in shown.err


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (
            lambda one: [f"url {i}" for i in range(len(one.owners))],
            "--by url: 60 different values; .* at most 50 groups",
        ),
        (
            lambda one: ["", *["x"] * (len(one.owners) - 1)],
            r"groups\.csv: row 2 has fewer than 2 fields, or an empty one",
        ),
    ],
)
def test_too_many_groups_and_a_missing_value_are_one_line(tmp_path, values, text):
    with pytest.raises((InputError, UsageError), match=text):
        _figures(**_files(tmp_path, "url", values))


def test_a_caption_without_a_row_or_with_two_is_refused(tmp_path):
    given = _files(tmp_path, "language", lambda one: ["en"] * len(one.owners))
    lines = (tmp_path / "groups.csv").read_text().splitlines()
    for rows, text in (
        (lines[:-2], "2 ranked captions have no language"),
        ([*lines, lines[1]], "occurs more than once"),
    ):
        (tmp_path / "groups.csv").write_text("\n".join(rows))
        with pytest.raises(InputError, match=text):
            _figures(**given)
    with pytest.raises(UsageError, match="--by COLUMN and --groups FILE go together"):
        _figures(given["files"], EvaluateParams(by="language"))


def test_a_column_of_the_captions_of_a_run_and_their_length(project):
    (seen, read), folder = sides(), paths.prepared("toy")
    folder.mkdir(parents=True)
    blank = dict.fromkeys(("width", "height"), np.zeros(len(seen.ids), np.int32))
    pictures = {"image_id": seen.ids, "file": [f"{i}.jpg" for i in seen.ids], "split": seen.splits, **blank}
    images.write(folder, pa.table({**pictures, "sha256": ["0"] * len(seen.ids)}), ".")
    texts = ["one" if number % 2 else "now two words" for number in read.ids]
    told = {"caption_id": read.ids, "image_id": read.image_ids, "text": texts, "split": read.splits}
    captions.write(folder, pa.table(told))
    by_length = measured(params(project, by="length"), "nns")["by_group"]["text_to_image"]
    odd = sum(number % 2 for number in read.split("test").ids.tolist())
    assert {row["group"]: row["queries"] for row in by_length} == {"1": odd, "3": len(read.split("test").ids) - odd}
    by_split = measured(params(project, by="split"), "nns")["by_group"]
    assert [(row["group"], row["queries"]) for row in by_split["image_to_text"]] == [("test", 24)]
    with pytest.raises(UsageError, match="unknown column 'lenght'; did you mean 'length'"):
        measured(params(project, by="lenght"), "nns")
