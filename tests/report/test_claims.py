"""Claims about runs: verdicts, the file of claims, the section of the page and the command."""

import contextlib
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

from tests.command_line import caller, output
from tests.report import project as artefacts
from tests.tools import compared
from tests.toy_project import PARAMS, load_params, write_params
from vse_pipe.artifacts import evaluation, model_files
from vse_pipe.core.errors import MissingResource, ParamsError, UsageError
from vse_pipe.core.files import write_json
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.ranking.intervals import holm
from vse_pipe.report import claims as report_claims
from vse_pipe.report.claims import FAILS, HOLDS, NONE, UNSURE, judged
from vse_pipe.report.stage import report

SEEDS = (1, 2, 3)


def write(root: Path, **more: object) -> Path:
    """params.yaml and the file of claims, whose keys are ``more``."""
    node = dict(PARAMS["runs"]["sum"])
    runs = {"weak": {**node, "seeds": list(SEEDS)}, "strong": {**node, "seeds": list(SEEDS)}, "lone": node}
    write_params(root, runs=runs, grid={"inferences": ["nns", "csls"]})
    path = root / "claims.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(more or {"claims": [claim()]}, file)
    return path


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory) -> Path:
    """Runs weak and strong with three seeds, lone with none."""
    root = tmp_path_factory.mktemp("evaluated")
    with contextlib.chdir(root):
        for number, (run, quality) in enumerate({"weak": 0.3, "strong": 0.9}.items()):
            for seed in SEEDS:
                compared.write_run(f"{run}/{seed}", "nns", "csls", images=60, quality=quality, seed=10 * number + seed)
                write_ended(f"{run}/{seed}", converged=True)
        compared.write_run("lone", "nns", images=60, quality=0.6, seed=40)
        write_ended("lone", converged=True)
    return root / "data"


def claim(**changes: object) -> dict:
    return {"text": "strong beats weak", "source": "Table 1", "left": "strong", "right": "weak", **changes}


def write_ended(run: str, **ended: object) -> None:
    """config.json of a run, without a model beside it."""
    paths.trained(run).mkdir(parents=True, exist_ok=True)
    write_json(paths.trained(run) / model_files.CONFIG, {"sha256": {}, **({"ended": ended} if ended else {})})


@pytest.fixture
def params(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runs = dict.fromkeys(("sum", "hal"), PARAMS["runs"]["sum"])
    return load_params(tmp_path, runs=runs, ensembles={"both": {"first": "sum", "second": "hal"}})


def test_a_run_or_an_ensemble_that_has_not_converged_is_a_problem(params):
    write_ended("sum", converged=True)
    assert report_claims.problem(params, "sum") is None
    write_ended("sum", converged=False)
    assert (
        report_claims.problem(params, "sum") == "sum has not converged: rsum on val was still rising in its last epochs"
    )
    write_ended("sum", converged=False, epoch=1, by="epochs")
    assert report_claims.problem(params, "sum") == "sum has not converged: one epoch does not tell"
    write_ended("sum")
    assert report_claims.problem(params, "sum") == (
        "sum: trained before config.json told whether it has converged; train it again"
    )
    write_ended("sum", converged=True)
    assert report_claims.problem(params, "both") == (
        "hal: no data/train/hal/config.json, so that nobody knows whether it has converged"
    )
    write_ended("hal", converged=False)
    assert "hal has not converged" in report_claims.problem(params, "both")


@pytest.fixture
def judge(evaluated, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(evaluated, tmp_path / "data")

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
    assert found.reason.startswith(why), found.reason


def test_a_claim_has_its_floor_its_seeds_and_names(judge):
    assert [one.verdict for one in judge(claim(floor=None), claim(), floor=590.0)] == [HOLDS, NONE]
    (found,) = judge(claim(left="lone"), seeds=1)
    assert found.verdict in (HOLDS, UNSURE)
    assert np.isfinite(found.interval).all()
    (found,) = judge(claim(left="ours", right="theirs"), runs={"ours": "strong", "theirs": "weak"})
    assert (found.left, found.verdict) == ("strong (nns)", HOLDS)


def test_unknown_runs_are_all_named(judge):
    with pytest.raises(UsageError) as failure:
        judge(claim(left="stong"), claim(right="nobody"))
    lines = str(failure.value).splitlines()
    assert [line.split(";")[0] for line in lines] == ["unknown run 'stong'", "unknown run 'nobody'"]
    assert "did you mean 'strong'?" in lines[0]
    found = judge(claim(left="stong"), claim(), skip_unknown=True)
    assert [(one.verdict, one.reason) for one in found] == [(NONE, "there is no run 'stong'"), (HOLDS, "")]


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


def test_a_file_that_is_not_there(tmp_path, project):
    with pytest.raises(MissingResource, match=r"nothing\.yaml: no such file; packaged claims are papers"):
        report_claims.read(tmp_path / "nothing.yaml")
    with pytest.raises(MissingResource, match=r"claims\.yaml: no such file"):
        report(artefacts.params(runs=["sum", "hal"], inferences=["nns"], claims="claims.yaml"))
    assert not Path("reports").exists()


def test_the_packaged_claims_are_of_five_papers():
    file = report_claims.read(report_claims.PACKAGED["papers"])
    papers = {one.source.partition(",")[0] for one in file.claims}
    assert papers == {"VSE++", "HAL AAAI", "HAL EMNLP", "L2RM", "Structure"}
    assert len({(one.text, one.source) for one in file.claims}) == len(file.claims) >= 20
    assert (file.floor, file.seeds) == (252.1, 3)


FILE = """\
title: <Two> papers
seeds: 1
claims:
  - {text: HAL beats SUM, source: Table 1, left: hal, right: sum}
  - {text: HAL has a <future>, source: Table 2, left: hal_2040, right: sum}
"""


def test_each_claim_is_a_row_with_its_verdict(project):
    Path("claims.yaml").write_text(FILE)
    for run in ("hal", "sum"):
        write_ended(run, converged=True)
    report(artefacts.params(runs=["sum", "hal"], inferences=["nns"], claims="claims.yaml"))
    text = Path("reports/index.html").read_text(encoding="utf-8")
    html = re.search(r'<section id="claims".*?</section>', text, re.DOTALL).group()
    rows = [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in re.findall(r"<tr>(.*?)</tr>", html, re.DOTALL)]
    assert rows[1][:2] == ["HAL beats SUM", "Table 1"]
    rsums = [evaluation.read_metrics(paths.evaluated(run, "nns"))["rsum"] for run in ("hal", "sum")]
    assert rows[1][3:6] == [f"hal (nns) {rsums[0]:.2f}", f"sum (nns) {rsums[1]:.2f}", f"{rsums[0] - rsums[1]:+.2f}"]
    assert rows[1][-1] == "holds"
    assert (rows[2][0], rows[2][-1]) == ("HAL has a &lt;future&gt;", "no verdict: there is no run &#39;hal_2040&#39;")
    assert "&lt;Two&gt; papers: 1 hold, 0 do not hold, 0 cannot be told from these data, 1 without a verdict." in html


@pytest.fixture
def run(evaluated, monkeypatch, tmp_path, capsys):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(evaluated, tmp_path / "data")
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 240)
    write(tmp_path, title="Two | claims", claims=[claim(), claim(left="lone", text="lone beats weak")])
    return caller(monkeypatch, capsys)


def test_json_has_the_numbers_behind_each_verdict(run):
    status, out, err = run("claims", "claims.yaml", "--json", "--resamples", "60")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert (found["title"], found["resamples"], found["seed"]) == ("Two | claims", 60, 1)
    first, second = found["claims"]
    assert (first["verdict"], first["left"], len(first["left_values"])) == ("holds", "strong (nns)", 3)
    means = [sum(first[f"{side}_values"]) / 3 for side in ("left", "right")]
    assert first["difference"] == pytest.approx(means[0] - means[1], abs=1e-5)
    assert first["interval"][0] < first["difference"] < first["interval"][1]
    assert (second["verdict"], second["why"]) == ("no verdict", "lone has 1 training, the file asks for 2")
    assert "interval" not in second


def test_markdown_and_the_terminal_say_the_same(run, monkeypatch):
    out, _ = output(run, "claims", "claims.yaml", "--md", "--resamples", "60")
    lines = out.splitlines()
    assert lines[2] == "1 hold, 0 do not hold, 0 cannot be told from these data, 1 without a verdict"
    row = next(line for line in lines if line.startswith("| strong beats weak | Table 1 | rsum, left greater |"))
    assert row.endswith("| holds |")
    assert " ± " in row
    text = " ".join(run("claims", "claims.yaml", "--resamples", "60")[1].split())
    assert "strong beats weak" in text
    assert "no verdict: lone has 1 training" in text
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 80)
    first = json.loads(run("claims", "claims.yaml", "--json", "--resamples", "60")[1])["claims"][0]
    text = run("claims", "claims.yaml", "--resamples", "60")[1]
    assert "{:+.2f} to {:+.2f}".format(*first["interval"]) in text


def test_packaged_claims_need_their_runs_or_leave_to_skip_them(run):
    status, _, err = run("claims", "papers")
    assert (status, "error: unknown run 'k3'" in err, len(err.splitlines()) > 10) == (2, True, True)
    status, out, _ = run("claims", "papers", "--skip-unknown", "--json")
    claims = json.loads(out)["claims"]
    assert (status, {one["verdict"] for one in claims}) == (0, {"no verdict"})


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (("nothing.yaml",), 4, "error: nothing.yaml: no such file of claims"),
        (("paper",), 4, "did you mean 'papers'?"),
        (("claims.yaml", "--md", "--json"), 2, "--md and --json exclude each other"),
    ],
)
def test_what_is_asked_in_vain(run, arguments, status, message):
    found, _, err = run("claims", *arguments)
    assert (found, message in err) == (status, True), err
