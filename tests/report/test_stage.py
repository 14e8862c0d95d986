"""The stage report: its files are reproducible, complete or absent, and name what is missing; claims about runs."""

import contextlib
import hashlib
import json
import re
import resource
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from ruamel.yaml import YAML

from tests.command_line import caller, output
from tests.report import project as base
from tests.tools import compared
from tests.toy_project import PARAMS, load_params, write_params
from vse_pipe.artifacts import captions, evaluation, images, model_files
from vse_pipe.core.errors import InputError, IntegrityError, LockedError, MissingResource, ParamsError, UsageError
from vse_pipe.core.files import write_json
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.params.schema import EnsembleNode, SweepNode
from vse_pipe.ranking.intervals import holm
from vse_pipe.report import claims as report_claims
from vse_pipe.report import settings
from vse_pipe.report.claims import FAILS, HOLDS, NONE, UNSURE, judged, problem
from vse_pipe.report.reading import present
from vse_pipe.report.stage import report

SMALL = {"runs": ["sum", "hal"], "inferences": ["nns", "csls"]}


def written(root):
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in (root / "reports").rglob("*")
        if path.is_file() and path.name != "timings.html"
    }


def test_same_input_same_bytes_of_what_params_names_written_as_one(project):
    """DVC records the page's digest: it must not change when the same work takes longer."""
    report(base.params(**SMALL))
    first = written(project)
    plots = [f"reports/plots/{name}.csv" for name in ("history", "occurrence", "rsum", "sweeps")]
    assert sorted(first) == ["reports/index.html", "reports/metrics.json", *plots]
    assert (project / "reports/plots/sweeps.csv").read_text() == ",".join(settings.COLUMNS) + "\n"
    assert "4321.0" not in (project / "reports/timings.html").read_text()
    shutil.rmtree(project / "reports")
    paths.record_seconds(paths.trained("hal"), 4321.0)
    report(base.params(**SMALL))
    assert written(project) == first
    assert "4321.0" in (project / "reports/timings.html").read_text()
    report(base.params(runs=["sum"], inferences=["nns"]))
    before = written(project)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limit[1]))  # the page is larger, everything else smaller
    try:
        with pytest.raises(OSError, match=r"index\.html"):
            report(base.params(**SMALL))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert written(project) == before


def test_only_what_params_names(project):
    shutil.copytree(paths.trained("sum"), paths.trained("stale"))
    shutil.copytree(paths.DATA / "evaluate" / "sum", paths.DATA / "evaluate" / "stale")
    report(base.params(runs=["max"], inferences=["nns", "gm"]))
    assert json.loads((project / "reports/metrics.json").read_text()).keys() == {"max"}
    text = re.sub(r"<script>.*?</script>", "", (project / "reports/index.html").read_text(), flags=re.DOTALL)
    assert "stale" not in text
    assert "csls" not in text
    assert set(pd.read_csv("reports/plots/rsum.csv")["inference"]) == {"nns", "gm"}


def edited(**changes):
    def change(folder):
        path = folder / "csls" / "metrics.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def without(name):
    return lambda folder: (paths.trained(folder.name) / name).unlink()


def history_without(column):
    def change(folder):
        path = paths.trained(folder.name) / "history.csv"
        pd.read_csv(path).drop(columns=column).to_csv(path, index=False)

    return change


def diverged(folder):
    path = paths.trained(folder.name) / "history.csv"
    pd.read_csv(path).assign(loss=float("nan")).to_csv(path, index=False)


def other_ids(folder):
    texts = captions.read(paths.prepared("shapes")).to_pandas()
    texts["caption_id"] += 10**6
    captions.write(paths.prepared("shapes"), captions.SCHEMA.empty_table().from_pandas(texts, preserve_index=False))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without("history.csv"), r"train/sum/history.csv does not exist; make it with `vse-pipe train --run sum`"),
        (without("config.json"), r"train/sum/config.json does not exist; make it with `vse-pipe train --run sum`"),
        (history_without("val_rsum"), r"sum/history.csv: column 'val_rsum' is missing; run `vse-pipe train --run sum"),
        (diverged, r"sum/history.csv: epoch, loss, val_rsum must be finite numbers in every row"),
        (edited(rsum=float("nan")), r"csls/metrics.json: rsum is nan, expected a finite number; run `vse-pipe"),
        (edited(hs_sum=True), r"hs_sum is True, expected a finite number"),
        (edited(text_to_image={}), r"text_to_image.r@1 is None, expected a finite number"),
        (edited(image_to_text=3), r"image_to_text.skew@10 is None"),
        (edited(split="val"),
            r"split is 'val', params.yaml evaluate.split is 'test'; run `vse-pipe evaluate --run sum --inf"),
        (edited(ties="average"), r"ties is 'average', params.yaml evaluate.ties is 'pessimistic'"),
        (edited(intervals={"rsum": [1.0]}), r"intervals.rsum is \[1.0\], expected two finite numbers"),
        (edited(intervals={"image_to_text": {"r@1": [1.0, float("nan")]}}),
            r"intervals.image_to_text.r@1 is \[1.0, nan\], expected two finite numbers"),
        (edited(bank=None), r"bank is None, expected the name of the query bank"),
    ],
)  # fmt: skip
def test_what_cannot_be_reported_leaves_no_file(project, damage, message):
    damage(paths.DATA / "evaluate" / "sum")
    with pytest.raises(InputError, match=message):
        report(base.params(runs=["sum"], inferences=["nns", "csls"]))
    assert not (project / "reports").exists()


def test_other_ids_are_refused_whether_or_not_the_evaluation_says_of_which_data_it_is(project):
    other_ids(paths.DATA / "evaluate" / "sum")
    asked = base.params(runs=["sum"], inferences=["nns", "csls"])
    with pytest.raises(IntegrityError, match=r"sum/nns: made from other images or captions of split test than"):
        report(asked)
    for path in (paths.DATA / "evaluate" / "sum").glob("*/metrics.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), "data": None}))
    with pytest.raises(InputError, match=r"prepare/shapes: no caption_id \d+, but the evaluation names it; run `vse"):
        report(asked)
    assert not (project / "reports").exists()


def test_what_cannot_be_computed_is_named_with_the_reason(project, capsys):
    shutil.rmtree(paths.evaluations("max"))
    params = replace(base.params(), ensembles={"both": EnsembleNode(runs=["hal", "max"])})
    assert ("ensemble both", "run max is not there") in present(params).missing
    assert list(present(params).params.evaluated()) == ["sum", "hal"]
    out = paths.evaluations("sum")
    shutil.rmtree(out / "is")
    (out / "unmeasured.json").write_text(json.dumps({"criteria": {"is": "there is one query"}}))
    page = report(base.params(runs=["sum"], inferences=["nns", "is"])).read_text()
    said = "run sum under is: cannot be computed: there is one query"
    assert said in " ".join(capsys.readouterr().err.split())
    assert "run sum under is (cannot be computed: there is one query)" in " ".join(page.split())


def test_nothing_to_report_is_an_error_and_so_is_another_writer(project):
    with pytest.raises(UsageError, match="there is no run to report on"):
        report(base.params(runs=[]))
    with claim(paths.DATA / "report"), pytest.raises(LockedError, match="being written by process"):
        report(base.params(**SMALL))
    shutil.rmtree(paths.DATA / "evaluate")
    with pytest.raises(InputError) as caught:
        report(base.params(audits=["sum", "max", "hal"]))
    evaluated = "run {0}: not evaluated; make it with `vse-pipe evaluate --run {0}` or `dvc repro`"
    audited = "audit of {0}: not made; make it with `vse-pipe audit --run {0}` or `dvc repro`"
    assert str(caught.value).splitlines() == [
        *(evaluated.format(run) for run in base.RUNS),
        *(audited.format(run) for run in ("sum", "max")),
        "and 1 more; `dvc repro` makes them all",
    ]
    assert not (project / "reports").exists()


def test_what_is_there_is_shown_and_what_is_not_is_named(project, capsys):
    for inference in ("csls", "gm", "is"):
        shutil.rmtree(paths.evaluated("sum", inference))
    (paths.evaluated("sum", "rgm") / "ranks.parquet").unlink()
    (paths.trained("max") / "history.csv").unlink()
    sweeps = {"steepness": SweepNode(x="loss.beta", runs=["sum", "max", "hal"], inference="csls")}
    report(base.params(inferences=["nns", "csls", "gm", "is", "rgm"], sweeps=sweeps))
    assert capsys.readouterr().err.splitlines()[:2] == [
        "warning: not in the report: run sum under csls, gm, is, rgm: not evaluated; make it with "
        "`vse-pipe evaluate --run sum --inference csls,gm,is,rgm` or `dvc repro`",
        "warning: not in the report: run max: data/train/max/history.csv does not exist; make it with `vse-pipe train --run "
        "max` or `dvc repro`",
    ]
    figures = json.loads((project / "reports/metrics.json").read_text())
    kept = {"sum": ["data", "nns"], "hal": ["csls", "data", "gm", "is", "nns", "rgm"]}
    assert {run: sorted(found) for run, found in figures.items()} == kept
    assert list(pd.read_csv("reports/plots/sweeps.csv")["run"]) == ["hal"]
    text = (project / "reports/index.html").read_text()
    matrix = text.partition('<table class="matrix">')[2].partition("</table>")[0]
    rows = [row for row in matrix.split("</tr>") if "<th" in row]
    assert {len(re.findall("<t[hd] ", row)) for row in rows} == {3}
    assert rows[0].index(">sum<") < rows[0].index(">hal<")
    assert [row.count("–</td>") for row in rows] == [0, 0, 1, 1, 1, 1]
    assert "not there when this page was written: run sum under csls, gm, is, rgm; run max.</p>" in text


def test_a_picture_that_cannot_be_read_is_named_and_none_lies_outside_its_root(project, capsys):
    removed, damaged, *_ = sorted((project / "pictures").iterdir())
    removed.unlink()
    damaged.write_bytes(b"<html>")
    report(base.params(runs=["sum"], inferences=["nns"], examples=60))
    text = (project / "reports/index.html").read_text()
    assert "2 pictures could not be read" in text
    assert '<span class="picture blank">Picture 0: ' in text
    assert '<span class="picture blank">Picture 1: ' in text
    err = capsys.readouterr().err.replace("\n", " ")
    assert re.search(r"2 pictures cannot be read, the first is pictures/00[01]\.png", err)
    table = images.read(paths.prepared("shapes"))
    files = ["../../secret.png"] * table.num_rows
    moved = table.set_column(1, table.schema.field("file"), [files])
    images.write(paths.prepared("shapes"), moved, "pictures")
    said = r"images.parquet: image_id \d+: file '../../secret.png' lies outside its root"
    with pytest.raises(InputError, match=said):
        report(base.params(runs=["sum"], inferences=["nns"]))


@pytest.mark.parametrize("file", ["", "test_ims.npy#3"])
def test_precomputed_features_have_no_picture(project, file):
    table = images.read(paths.prepared("shapes")).to_pandas().assign(file=file, width=0, height=0)
    changed = images.SCHEMA.empty_table().from_pandas(table, images.SCHEMA, preserve_index=False)
    images.write(paths.prepared("shapes"), changed, "pictures")
    report(base.params(runs=["sum"], inferences=["nns", "csls"]))
    text = (project / "reports/index.html").read_text()
    assert "<symbol" not in text
    assert "could not be read" not in text
    assert '<span class="picture blank">Picture ' in text


def test_data_sets_are_compared_each_by_itself(project):
    shutil.copytree(paths.prepared("shapes"), paths.prepared("more"))
    params = base.params(**SMALL)
    params = replace(params, runs={**params.runs, "hal": replace(params.runs["hal"], dataset="more")})
    report(params)
    text = (project / "reports/index.html").read_text()
    assert text.count("</strong> of 600") == 2
    assert "Data set more" in text
    assert len(re.findall(r'<table class="wide sortable">', text)) == 2


def test_values_chosen_on_validation_and_folds_are_shown(project):
    report(base.params(runs=["sum"], inferences=["nns", "rgm"]))
    assert "image_to_text.lambda.1 2.5" in (project / "reports/index.html").read_text()
    for inference in ("nns", "csls"):
        for name in ("ranks", "occurrence"):
            path = paths.evaluated("sum", inference) / f"{name}.parquet"
            table = pq.read_table(path).to_pandas()
            table["fold"] = (table.index % 2).astype("int32")
            pq.write_table(pq.read_table(path).set_column(1, "fold", [table["fold"].to_numpy()]), path)
        edited(protocol="folds")(paths.DATA / "evaluate" / "sum") if inference == "csls" else None
    path = paths.evaluated("sum", "nns") / "metrics.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "protocol": "folds"}))
    params = base.params(runs=["sum"], inferences=["nns", "csls"])
    report(replace(params, evaluate=params.evaluate.model_copy(update={"protocol": "folds", "fold_size": 30})))
    text = (project / "reports/index.html").read_text()
    assert "consecutive folds of 30 images" in text
    assert "30 items to rank" in text


def test_skewness_that_is_undefined_is_left_out_of_the_metrics(project):
    path = paths.evaluated("hal", "csls") / "metrics.json"
    metrics = json.loads(path.read_text())
    metrics["text_to_image"]["skew@10"] = metrics["hs_sum"] = None
    path.write_text(json.dumps(metrics))
    report(base.params(**SMALL))
    found = json.loads((paths.REPORTS / "metrics.json").read_text())["hal"]["csls"]
    assert "hs_sum" not in found
    assert found["rsum"] > 0
    del metrics["hs_sum"]
    path.write_text(json.dumps(metrics))
    with pytest.raises(InputError, match="hs_sum is None, expected a finite number"):
        report(base.params(**SMALL))


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
def params(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    runs = dict.fromkeys(("sum", "hal"), PARAMS["runs"]["sum"])
    return load_params(tmp_path, runs=runs, ensembles={"both": {"runs": ["sum", "hal"]}})


def test_a_run_or_an_ensemble_that_has_not_converged_is_a_problem(params):
    write_ended("sum", converged=True)
    assert problem(params, "sum") is None
    write_ended("sum", converged=False)
    assert (
        problem(params, "sum")
        == "sum has not converged: rsum on val was still rising when train.epochs (20) ended; raise it"
    )
    write_ended("sum", converged=False, epoch=1, by="epochs")
    assert problem(params, "sum") == "sum has not converged: one epoch does not tell"
    write_ended("sum")
    assert problem(params, "sum") == "sum: trained before config.json told whether it has converged; train it again"
    write_ended("sum", converged=True)
    unknown = "hal: no data/train/hal/config.json, so that nobody knows whether it has converged"
    assert problem(params, "both") == unknown
    write_ended("hal", converged=False)
    assert "hal has not converged" in problem(params, "both")


@pytest.fixture
def copied(evaluated, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(evaluated, tmp_path / "data")


@pytest.fixture
def judge(copied, tmp_path):
    def judge(*claims: dict, skip_unknown: bool = False, change=lambda: None, **more: object):
        path = write(tmp_path, claims=list(claims), **more)
        change()
        return judged(load(tmp_path / "params.yaml"), report_claims.read(path), 60, 1, skip_unknown)

    return judge


def test_the_side_of_the_interval_decides_and_p_values_are_corrected_for_what_is_judged(judge):
    margins = {"says": "equal", "margin": 1000.0}, {"says": "equal", "margin": 0.5}
    asked = [stated(), stated(left="weak", right="strong"), stated(left="weak", right="strong", says="less")]
    asked += [stated(says="less"), stated(right="strong", left={"run": "strong", "criterion": "csls"})]
    found = judge(*asked, *(stated(**one) for one in margins))
    assert [one.verdict for one in found] == [HOLDS, FAILS, HOLDS, FAILS, UNSURE, HOLDS, FAILS]
    strong, weak = found[0].difference.b, found[0].difference.a
    assert found[0].mean == pytest.approx(strong.mean() - weak.mean())
    assert found[0].interval[0] > 0
    assert (found[0].left, found[0].right) == ("strong (nns)", "weak (nns)")
    assert len(strong) == len(weak) == 3
    claims = [stated(figure=name) for name in ("rsum", "hs_sum", "image_to_text.r@1", "text_to_image.med_r")]
    found = judge(*claims, stated(left="lone"))
    assert found[-1].verdict == NONE
    assert [one.p for one in found[:-1]] == holm([one.difference.doubt.p_value() for one in found[:-1]])


def test_equality_is_told_from_both_ends_of_the_margin(judge):
    """A margin at an end of the interval is where the verdict turns, if there is one claim alone."""
    low, high = judge(stated())[0].interval
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
    assert (found.verdict, found.p, found.interval) == (NONE, None, None)
    assert found.reason.startswith(why), found.reason


@pytest.mark.parametrize(("ended", "verdict"), [({"stuck": "on its plateau"}, HOLDS), ({}, NONE)])
def test_a_claim_on_a_collapse_is_judged_though_a_side_stays_on_its_plateau(judge, ended, verdict):
    stuck = partial(write_ended, "weak/2", converged=False, **ended)
    assert judge(stated(collapses=True), change=stuck)[0].verdict == verdict
    assert judge(stated(), change=stuck)[0].verdict == NONE


def test_unknown_runs_are_all_named_and_a_claim_has_its_floor_its_seeds_and_names(judge):
    found = judge(stated(floor=None), stated(), floor=590.0)
    assert [one.verdict for one in found] == [HOLDS, HOLDS]
    assert found[0].remark == ""
    assert re.fullmatch(r"strong is below the floor: rsum [\d.]+ of 590\.0; weak is below .*", found[1].remark)
    remarks = [judge(stated(), floor=floor)[0].remark for floor in ("lone", "nobody")]
    assert remarks[0].startswith("weak is below the floor: rsum")
    assert "strong" not in remarks[0]
    assert remarks[1] == "floor unknown: nobody is not evaluated"
    (found,) = judge(stated(left="lone"), seeds=1)
    assert found.verdict in (HOLDS, UNSURE)
    assert np.isfinite(found.interval).all()
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
        ({"margn": 1.0}, ".margn: unknown key; did you mean 'margin'?"),
        ({"says": "equal"}, ": `says: equal` needs a margin"),
        ({"margin": 2.0}, ": `says: equal` needs a margin, and the others take none"),
        ({"left": {"run": "strong", "criterium": "is"}}, ".left.criterium: unknown key; did you mean 'criterion'?"),
        ({"left": 3}, ".left: "),
    ],
)  # fmt: skip
def test_what_is_wrong_in_the_file_has_its_address(judge, changes, message):
    with pytest.raises(ParamsError) as failure:
        judge(stated(**changes))
    assert str(failure.value).startswith(f"claims.yaml claims.0{message}"), str(failure.value)


def test_files_that_are_there_are_read_and_others_named(tmp_path, project):
    with pytest.raises(MissingResource, match=r"nothing\.yaml: no such file; packaged claims are papers"):
        report_claims.read(tmp_path / "nothing.yaml")
    with pytest.raises(MissingResource, match=r"claims\.yaml: no such file"):
        report(base.params(runs=["sum", "hal"], inferences=["nns"], claims="claims.yaml"))
    assert not Path("reports").exists()
    file = report_claims.read(report_claims.PACKAGED["papers"])
    papers = {one.source.partition(",")[0] for one in file.claims}
    assert papers == {"VSE++", "HAL AAAI", "HAL EMNLP", "L2RM", "Structure"}
    assert len({(one.text, one.source) for one in file.claims}) == len(file.claims) >= 20
    assert (file.floor, file.seeds) == ("ridge", 3)


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


def test_json_markdown_and_the_terminal_have_the_numbers_behind_each_verdict(run, monkeypatch):
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
    monkeypatch.setattr("vse_pipe.core.console.stdout.width", 80)
    first = json.loads(run("claims", "claims.yaml", "--json", "--resamples", "60")[1])["claims"][0]
    text = run("claims", "claims.yaml", "--resamples", "60")[1]
    assert "{:+.2f} to {:+.2f}".format(*first["interval"]) in text
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
