"""The verdict on a claim: by the paired interval, and only where there is something to judge."""

import shutil

import numpy as np
import pytest

from tests.report.claims.project import claim, write
from tests.report.claims.test_converged import write_ended
from vse_pipe.core.errors import MissingResource, ParamsError, UsageError
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.ranking.intervals import holm
from vse_pipe.report import claims as report_claims
from vse_pipe.report.claims import FAILS, HOLDS, NONE, UNSURE, judged


@pytest.fixture
def judge(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)

    def judge(*claims: dict, skip_unknown: bool = False, change=lambda: None, **more: object):
        path = write(tmp_path, claims=list(claims), **more)
        change()
        return judged(load(tmp_path / "params.yaml"), report_claims.read(path), 60, 1, skip_unknown)

    return judge


def test_the_side_of_the_interval_decides(judge):
    margins = {"says": "equal", "margin": 1000.0}, {"says": "equal", "margin": 0.5}
    asked = [claim(), claim(left="weak", right="strong"), claim(left="weak", right="strong", says="less")]
    asked += [claim(says="less"), claim(right="strong", left={"run": "strong", "criterion": "csls"})]
    found = judge(*asked, *(claim(**one) for one in margins))
    assert [one.verdict for one in found] == [HOLDS, FAILS, HOLDS, FAILS, UNSURE, HOLDS, FAILS]
    strong, weak = found[0].difference.b, found[0].difference.a
    assert found[0].mean == pytest.approx(strong.mean() - weak.mean())
    assert found[0].interval[0] > 0
    assert (found[0].left, found[0].right) == ("strong (nns)", "weak (nns)")
    assert len(strong) == len(weak) == 3


def test_p_values_are_corrected_for_the_claims_that_are_judged(judge):
    claims = [claim(figure=name) for name in ("rsum", "hs_sum", "image_to_text.r@1", "text_to_image.med_r")]
    found = judge(*claims, claim(left="lone"))
    assert found[-1].verdict == NONE
    assert [one.p for one in found[:-1]] == holm([one.difference.doubt.p_value() for one in found[:-1]])


def test_equality_is_told_from_both_ends_of_the_margin(judge):
    """A margin at an end of the interval is where the verdict turns, if there is one claim alone."""
    interval = judge(claim())[0].interval
    for margin, verdict in (
        (interval[0] - 0.1, FAILS),
        (interval[0] + 0.1, UNSURE),
        (interval[1] - 0.1, UNSURE),
        (interval[1] + 0.1, HOLDS),
    ):
        assert judge(claim(says="equal", margin=margin))[0].verdict == verdict, margin


@pytest.mark.parametrize(
    ("change", "more", "why"),
    [
        (lambda: write_ended("weak/2", converged=False), {}, "weak/2 has not converged: rsum on val"),
        (lambda: shutil.rmtree(paths.trained("weak/2")), {}, "weak/2: no data/train/weak/2/config.json"),
        (
            lambda: shutil.rmtree(paths.evaluated("weak/3", "nns")),
            {},
            "data/evaluate/weak/3/nns is not there; `vse-pipe",
        ),
        (lambda: None, {"floor": 590.0}, "strong is below the floor: rsum"),
        (lambda: None, {"seeds": 4}, "strong has 3 trainings, the file asks for 4"),
    ],
)
def test_there_is_no_verdict_on_what_cannot_be_judged(judge, change, more, why):
    (found,) = judge(claim(), change=change, **more)
    assert (found.verdict, found.p, found.interval) == (NONE, None, None)
    assert found.why.startswith(why), found.why


def test_a_claim_has_a_floor_of_its_own(judge):
    assert [one.verdict for one in judge(claim(floor=None), claim(), floor=590.0)] == [HOLDS, NONE]


def test_models_themselves_are_judged_where_one_training_is_enough(judge):
    (found,) = judge(claim(left="lone"), seeds=1)
    assert found.verdict in (HOLDS, UNSURE)
    assert np.isfinite(found.interval).all()


def test_names_of_the_file_lead_to_runs(judge):
    (found,) = judge(claim(left="ours", right="theirs"), runs={"ours": "strong", "theirs": "weak"})
    assert (found.left, found.verdict) == ("strong (nns)", HOLDS)


def test_unknown_runs_are_all_named(judge):
    with pytest.raises(UsageError) as failure:
        judge(claim(left="stong"), claim(right="nobody"))
    lines = str(failure.value).splitlines()
    assert [line.split(";")[0] for line in lines] == ["unknown run 'stong'", "unknown run 'nobody'"]
    assert "did you mean 'strong'?" in lines[0]
    found = judge(claim(left="stong"), claim(), skip_unknown=True)
    assert [(one.verdict, one.why) for one in found] == [(NONE, "there is no run 'stong'"), (HOLDS, "")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"figure": "rsun"}, "claims.yaml claims.0.figure: unknown figure 'rsun'; did you mean 'rsum'?"),
        ({"margn": 1.0}, "claims.yaml claims.0.margn: unknown key; did you mean 'margin'?"),
        ({"says": "equal"}, "claims.yaml claims.0: `says: equal` needs a margin"),
        ({"margin": 2.0}, "claims.yaml claims.0: `says: equal` needs a margin, and the others take none"),
        (
            {"left": {"run": "strong", "criterium": "is"}},
            "claims.yaml claims.0.left.criterium: unknown key; did you mean 'criterion'?",
        ),
        ({"left": 3}, "claims.yaml claims.0.left: "),
    ],
)
def test_what_is_wrong_in_the_file_has_its_address(judge, changes, message):
    with pytest.raises(ParamsError) as failure:
        judge(claim(**changes))
    assert str(failure.value).startswith(message), str(failure.value)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(MissingResource, match=r"nothing\.yaml: no such file; packaged claims are papers"):
        report_claims.read(tmp_path / "nothing.yaml")


def test_the_packaged_claims_are_of_five_papers():
    file = report_claims.read(report_claims.PACKAGED["papers"])
    papers = {one.source.partition(",")[0] for one in file.claims}
    assert papers == {"VSE++", "HAL AAAI", "HAL EMNLP", "L2RM", "Structure"}
    assert len({(one.text, one.source) for one in file.claims}) == len(file.claims) >= 20
    assert (file.floor, file.seeds) == (252.1, 3)
