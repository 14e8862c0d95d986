"""Figures at several widths and precisions against evaluations of vectors that were cut and coded beforehand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.embedded import ABOUT, params, sides, write
from tests.evaluate.files import sample
from tests.evaluate.files import write as write_files
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate.compact import Forms, file_figures, run_figures, show
from vse_pipe.evaluate.files import evaluate_files
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams

SUMS = ("image_to_text", "text_to_image", "rsum", "hs_sum", "intervals")


def _short(side, dim):
    vectors = side.vectors[:, :dim]
    return replace(side, vectors=vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_each_width_has_the_figures_of_vectors_that_were_cut_before(project, capsys):
    options = params(project, bank="train")
    rows = run_figures(options, "sum", ["nns", "is"], Forms.parse("3,5", None, None), "cpu")
    assert [(row["dims"], row["inference"], row["bytes"]) for row in rows] == [
        *((8, "nns", 32), (8, "is", 36), (5, "nns", 20), (5, "is", 24), (3, "nns", 12), (3, "is", 16)),
    ]
    assert not paths.evaluations("sum").exists()
    for dim in (8, 5, 3):
        write(*(_short(side, dim) if dim < 8 else side for side in sides()))
        whole = evaluate(options, "sum", ["nns", "is"], "cpu")
        for row in (row for row in rows if row["dims"] == dim):
            assert {key: row[key] for key in SUMS} == {key: whole[row["inference"]][key] for key in SUMS}
    show(rows, as_json=False)
    assert "float32" in capsys.readouterr().out


def test_codes_cost_recall_and_rescoring_gives_it_back(project):
    options, names = params(project, bank="train"), ["nns", "csls"]
    rows = run_figures(options, "sum", names, Forms.parse(None, "binary,int8", None), "cpu")
    assert [row["bytes"] for row in rows] == [32, 36, 1, 5, 8, 12]
    rsums = [row["rsum"] for row in rows]
    assert rsums[2] < rsums[0]
    assert rsums[4] == pytest.approx(rsums[0], abs=15)
    for row in run_figures(options, "sum", names, Forms.parse(None, "binary,int8", 60), "cpu"):
        exact = rows[names.index(row["inference"])]
        assert {key: row[key] for key in SUMS} == {key: exact[key] for key in SUMS}


def test_files_have_the_same_and_int8_the_ranges_of_their_bank(tmp_path):
    files = write_files(sample(), tmp_path)
    quick, forms = EvaluateParams(resamples=0), Forms.parse("4", "int8", 100)
    with pytest.raises(
        InputError, match="int8 takes ranges from further vectors; give --bank-images and --bank-captions"
    ):
        file_figures(files, ["nns"], quick, {}, forms, "cpu")
    bank = write_files(sample(seed=1, first=500), tmp_path, prefix="bank_")
    files = replace(files, bank_images=bank.images, bank_captions=bank.captions)
    first, *rows = file_figures(files, ["nns"], quick, {}, forms, "cpu")
    assert first["rsum"] == evaluate_files(files, ["nns"], quick, {}, "cpu")["nns"]["rsum"]
    assert [(row["dims"], row["precision"]) for row in rows] == [(8, "int8"), (4, "float32"), (4, "int8")]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("64,x", None, None), "--dims 64,x: expected whole numbers"),
        ((None, "int4", None), "unknown precision 'int4'"),
        (("4", None, 5), "--rescore is of small vectors"),
        (("9", None, None), "--dims 9: vectors of run 'sum' have 8 dimensions"),
        (("0", None, None), "--dims 0: vectors of run 'sum'"),
    ],
)
def test_other_options_are_refused(project, options, text):
    with pytest.raises(UsageError, match=text):
        run_figures(params(project), "sum", ["nns"], Forms.parse(*options), "cpu")


def test_runs_without_train_or_without_unit_vectors_are_refused(project):
    with pytest.raises(UsageError, match="rgm is more than one number an item"):
        run_figures(params(project), "sum", ["rgm"], Forms.parse("4", None, None), "cpu")
    write(*sides({"val": 5, "test": 9}))
    with pytest.raises(InputError, match=r"int8 takes ranges from split train, and .*sum holds none"):
        run_figures(params(project), "sum", ["nns"], Forms.parse(None, "int8", None), "cpu")
    write(*(replace(side, about={**ABOUT, "normalised": "false"}) for side in sides()))
    with pytest.raises(UsageError, match="run 'sum' has no unit vectors of one network"):
        run_figures(params(project), "sum", ["nns"], Forms.parse("4", None, None), "cpu")
