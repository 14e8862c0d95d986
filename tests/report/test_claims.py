"""Claims: a verdict each from a comparison, by the report and by `vse-pipe claims`."""

import contextlib
import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.command_line import caller, output
from tests.report import project as base
from tests.tools import compared
from tests.toy_project import PARAMS, write_params
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
        YAML().dump(more or {"claims": [stated()]}, file)
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


def stated(**changes: object) -> dict:
    return {"text": "strong beats weak", "source": "Table 1", "left": "strong", "right": "weak", **changes}


def write_ended(run: str, **ended: object) -> None:
    """config.json of a run, without a model beside it."""
    paths.trained(run).mkdir(parents=True, exist_ok=True)
    write_json(
        paths.trained(run) / model_files.CONFIG, {"sha256": {}, **({"ended": {"epoch": 20, **ended}} if ended else {})}
    )


@pytest.fixture
def copied(evaluated, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(evaluated, tmp_path / "data")


@pytest.fixture
def judge(copied, tmp_path):
    def judge(*claims: dict, skip_unknown: bool = False, change=lambda: None, **more: object):
        path = write(tmp_path, claims=list(claims), **more)
        change()
        return judged(load(tmp_path / "params.yaml"), report_claims.read(path.name, tmp_path), 60, 1, skip_unknown)

    return judge


def test_the_side_of_the_interval_decides_and_p_values_are_corrected_for_what_is_judged(judge):
    margins = {"says": "equal", "margin": 1000.0}, {"says": "equal", "margin": 0.5}
    asked = [stated(), stated(left="weak", right="strong"), stated(left="weak", right="strong", says="less")]
    asked += [stated(says="less"), stated(right="strong", left={"run": "strong", "criterion": "csls"})]
    found = judge(*asked, *(stated(**one) for one in margins))
    assert [one.verdict for one in found] == [HOLDS, FAILS, HOLDS, FAILS, UNSURE, HOLDS, FAILS]
    strong, weak = found[0].difference.b_values, found[0].difference.a_values
    assert found[0].difference.difference == pytest.approx(strong.mean() - weak.mean())
    assert found[0].difference.interval[0] > 0
    assert (found[0].left, found[0].right) == ("strong (nns)", "weak (nns)")
    assert len(strong) == len(weak) == 3
    claims = [stated(figure=name) for name in ("rsum", "hs_sum", "image_to_text.r@1", "text_to_image.med_r")]
    found = judge(*claims, stated(left="lone"))
    assert found[-1].verdict == NONE
    assert [one.p for one in found[:-1]] == holm([one.difference.doubt.p_value() for one in found[:-1]])


def test_equality_is_told_from_both_ends_of_the_margin(judge):
    """A margin at an end of the interval is where the verdict turns, if there is one claim alone."""
    low, high = judge(stated())[0].difference.interval
    for margin, verdict in ((low - 0.1, FAILS), (low + 0.1, UNSURE), (high - 0.1, UNSURE), (high + 0.1, HOLDS)):
        assert judge(stated(says="equal", margin=margin))[0].verdict == verdict, margin


@pytest.mark.parametrize(
    ("change", "more", "why"),
    [
        (lambda: write_ended("weak/2", converged=False), {}, "weak/2 has not converged: rsum on val"),
        (lambda: shutil.rmtree(paths.trained("weak/2")), {}, "weak/2: no data/train/weak/2/config.json"),
        (lambda: shutil.rmtree(paths.evaluated("weak/3", "nns")), {}, "data/evaluate/weak/3/nns is not there; `vse"),
        (lambda: None, {"seeds": 4}, "strong has 3 trainings, the file asks for 4"),
    ],
)  # fmt: skip
def test_there_is_no_verdict_on_what_cannot_be_judged(judge, change, more, why):
    (found,) = judge(stated(), change=change, **more)
    assert (found.verdict, found.p, found.difference) == (NONE, None, None)
    assert found.reason.startswith(why), found.reason


@pytest.mark.parametrize(("ended", "verdict"), [({"stuck": "on its plateau"}, HOLDS), ({}, NONE)])
def test_a_claim_on_a_collapse_is_judged_though_a_side_stays_on_its_plateau(judge, ended, verdict):
    stuck = partial(write_ended, "weak/2", converged=False, **ended)
    assert judge(stated(collapses=True), change=stuck)[0].verdict == verdict
    assert judge(stated(), change=stuck)[0].verdict == NONE


def test_unknown_runs_are_all_named_and_a_file_has_its_seeds_and_names(judge):
    (found,) = judge(stated(left="lone"), seeds=1)
    assert found.verdict in (HOLDS, UNSURE)
    (found,) = judge(stated(left="ours", right="theirs"), runs={"ours": "strong", "theirs": "weak"})
    assert (found.left, found.verdict) == ("strong (nns)", HOLDS)
    with pytest.raises(UsageError) as failure:
        judge(stated(left="stong"), stated(right="nobody"))
    lines = str(failure.value).splitlines()
    assert [line.split(";")[0] for line in lines] == ["unknown run 'stong'", "unknown run 'nobody'"]
    assert "did you mean 'strong'?" in lines[0]
    found = judge(stated(left="stong"), stated(), skip_unknown=True)
    assert [(one.verdict, one.reason) for one in found] == [(NONE, "there is no run 'stong'"), (HOLDS, "")]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"figure": "rsun"}, ".figure: unknown figure 'rsun'; did you mean 'rsum'?"),
        ({"margn": 1.0}, ".margn: unknown key"),
        ({"says": "equal"}, ": `says: equal` needs a margin"),
        ({"left": {"run": "strong", "criterium": "is"}}, ".left.criterium: unknown key"),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_file_has_its_address(judge, changes, message):
    with pytest.raises(ParamsError) as failure:
        judge(stated(**changes))
    assert str(failure.value).startswith(f"claims.yaml claims.0{message}"), str(failure.value)


def test_the_packaged_claims_are_of_five_papers_and_an_absent_file_stops_the_report(project):
    with pytest.raises(MissingResource, match=r"claims\.yaml: no such file"):
        report(base.params(runs=["sum", "hal"], inferences=["nns"], claims="claims.yaml"))
    assert not Path("reports").exists()
    file = report_claims.read("papers")
    papers = {one.source.partition(",")[0] for one in file.claims}
    assert papers == {"VSE++", "HAL AAAI", "HAL EMNLP", "L2RM", "Structure"}
    assert len({(one.text, one.source) for one in file.claims}) == len(file.claims) >= 20


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
    report(base.params(runs=["sum", "hal"], inferences=["nns"], claims="claims.yaml"))
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
def run(copied, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 240)
    write(tmp_path, title="Two | claims", claims=[stated(), stated(left="lone", text="lone beats weak")])
    return caller(monkeypatch, capsys)


def test_json_markdown_and_the_terminal_have_the_numbers_behind_each_verdict(run):
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
    out, _ = output(run, "claims", "claims.yaml", "--md", "--resamples", "60")
    lines = out.splitlines()
    assert lines[2] == "1 hold, 0 do not hold, 0 cannot be told from these data, 1 without a verdict"
    row = next(line for line in lines if line.startswith("| strong beats weak | Table 1 | rsum, left greater |"))
    assert row.endswith("| holds |")
    assert " ± " in row
    text = " ".join(run("claims", "claims.yaml", "--resamples", "60")[1].split())
    assert "strong beats weak" in text
    assert "no verdict: lone has 1 training" in text
    status, _, err = run("claims", "papers")
    assert (status, "error: unknown run 'k3'" in err, len(err.splitlines()) > 10) == (2, True, True)
    status, out, _ = run("claims", "papers", "--skip-unknown", "--json")
    claims = json.loads(out)["claims"]
    assert (status, {one["verdict"] for one in claims}) == (0, {"no verdict"})
