"""Figures at several widths and precisions against evaluations of vectors that were cut beforehand."""

from dataclasses import replace

import numpy as np
import pytest

from tests.evaluate.embedded import ABOUT, params, sides, write
from vse_pipe.core.errors import InputError, PipelineError, UsageError
from vse_pipe.evaluate.compact import Forms, run_figures
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths

FIGURES = ("image_to_text", "text_to_image", "rsum", "hs_sum", "intervals")


def test_each_width_has_the_figures_of_vectors_that_were_cut_before(project):
    options = params(project, bank="train")
    rows = run_figures(options, "sum", ["nns", "is"], Forms.parse("3,5", None, None), "cpu")
    assert [(row["dims"], row["bytes"]) for row in rows] == [(8, 32), (8, 36), (5, 20), (5, 24), (3, 12), (3, 16)]
    assert not paths.evaluations("sum").exists()
    for dim in (8, 5, 3):
        cuts = ((side, side.vectors[:, :dim]) for side in sides())
        write(
            *(
                replace(side, vectors=cut / np.linalg.norm(cut, axis=1, keepdims=True) ** (dim < 8))
                for side, cut in cuts
            )
        )
        whole = evaluate(options, "sum", ["nns", "is"], "cpu")
        for row in (row for row in rows if row["dims"] == dim):
            assert {key: row[key] for key in FIGURES} == {key: whole[row["inference"]][key] for key in FIGURES}


def test_codes_cost_recall_and_rescoring_gives_it_back(project):
    options, names = params(project, bank="train"), ["nns", "csls"]
    rows = run_figures(options, "sum", names, Forms.parse(None, "binary,int8", None), "cpu")
    assert [row["bytes"] for row in rows] == [32, 36, 1, 5, 8, 12]
    assert rows[2]["rsum"] < rows[0]["rsum"] == pytest.approx(rows[4]["rsum"], abs=15)
    for row in run_figures(options, "sum", names, Forms.parse(None, "binary,int8", 60), "cpu"):
        assert all(row[key] == rows[names.index(row["inference"])][key] for key in FIGURES)


@pytest.mark.parametrize(
    ("options", "inference", "about", "text"),
    [
        (("4", None, None), "rgm", {}, "rgm is more than one number an item"),
        (("4", None, None), "nns", {"normalised": "false"}, "run 'sum' has no unit vectors of one network"),
        ((None, "int8", None), "nns", {}, "no image of split 'train', it holds test, val"),
    ],
)
def test_what_has_no_such_figures_is_refused(project, options, inference, about, text):
    write(*(replace(side, about={**ABOUT, **about}) for side in sides({"val": 5, "test": 9})))
    with pytest.raises(PipelineError, match=text) as caught:
        run_figures(params(project), "sum", [inference], Forms.parse(*options), "cpu")
    assert isinstance(caught.value, InputError if "split" in text else UsageError)
