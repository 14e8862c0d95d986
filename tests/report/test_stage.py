"""The stage report: its files are reproducible, complete or absent, and name what is missing."""

import hashlib
import json
import re
import resource
import shutil
from dataclasses import replace

import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.report import project as base
from tests.sealed import sealed
from vse_pipe.artifacts import captions, identity, images
from vse_pipe.core.errors import InputError, IntegrityError, LockedError, UsageError
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EnsembleNode, SweepNode
from vse_pipe.report import settings
from vse_pipe.report.reading import read
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
        with pytest.raises(OSError, match="File too large"):
            report(base.params(**SMALL))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert written(project) == before


def edited(**changes):
    def change(folder):
        path = folder / "csls" / "metrics.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return change


def without(name):
    return lambda folder: (paths.trained(folder.name) / name).unlink()


def other_ids(folder):
    texts = captions.read(paths.prepared("shapes")).to_pandas()
    texts["caption_id"] += 10**6
    captions.write(paths.prepared("shapes"), captions.SCHEMA.empty_table().from_pandas(texts, preserve_index=False))
    sealed(paths.prepared("shapes"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (without("history.csv"), r"train/sum/history.csv does not exist; make it with `vse-pipe train --run sum`"),
        (without("config.json"), r"run sum: not made; make it with `vse-pipe train --run sum`"),
        (edited(split="val"),
            r"evaluate.split is 'test', the figures are of 'val'; run `vse-pipe evaluate --run sum` again"),
        (edited(ties="optimistic"), r"evaluate.ties is 'pessimistic', the figures are of 'optimistic'"),
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
    with pytest.raises(IntegrityError, match=r"evaluate/sum: made from other images or captions of split test than"):
        report(asked)
    identity.write(paths.evaluations("sum"), {}, {})
    with pytest.raises(InputError, match=r"shapes/captions.parquet: no caption_id \d+"):
        report(asked)
    assert not (project / "reports").exists()


def test_what_cannot_be_computed_is_named_with_the_reason(project, capsys):
    shutil.rmtree(paths.evaluations("max"))
    params = replace(base.params(), ensembles={"both": EnsembleNode(runs=["hal", "max"])})
    results = read(params)
    assert [name for name, _ in results.missing] == ["run max", "ensemble both"]
    assert list(results.params.evaluated()) == ["sum", "hal"]
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
    evaluated = "run {0}: not made; make it with `vse-pipe evaluate --run {0}` or `dvc repro`"
    audited = "audit of {0}: not made; make it with `vse-pipe audit --run {0}` or `dvc repro`"
    assert str(caught.value).splitlines() == [
        *(evaluated.format(run) for run in base.RUNS),
        *(audited.format(run) for run in ("sum", "max", "hal")),
    ]
    assert not (project / "reports").exists()


def test_what_is_there_is_shown_and_what_is_not_is_named(project, capsys):
    for inference in ("csls", "gm", "is"):
        shutil.rmtree(paths.evaluated("sum", inference))
    shutil.rmtree(paths.evaluated("sum", "rgm"))
    shutil.rmtree(paths.trained("max"))
    sweeps = {"steepness": SweepNode(x="loss.beta", runs=["sum", "max", "hal"], inference="csls")}
    report(base.params(inferences=["nns", "csls", "gm", "is", "rgm"], sweeps=sweeps))
    assert capsys.readouterr().err.splitlines()[3:5] == [
        "warning: not in the report: run sum under rgm: not made; make it with "
        "`vse-pipe evaluate --run sum --inference rgm` or `dvc repro`",
        "warning: not in the report: run max: not made; make it with `vse-pipe train --run max` or `dvc repro`",
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
    assert (
        "not there when this page was written: run sum under csls; run sum under gm; run sum under is; run sum under rgm; run max.</p>"
        in text
    )


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
    assert re.search(r"2 pictures cannot be read, the first is 00[01]\.png", err)
    table = images.read(paths.prepared("shapes"))
    files = ["../../secret.png"] * table.num_rows
    moved = table.set_column(1, table.schema.field("file"), [files])
    images.write(paths.prepared("shapes"), moved, "pictures")
    sealed(paths.prepared("shapes"))
    said = r"images.parquet: image_id \d+: file '../../secret.png' lies outside its root"
    with pytest.raises(InputError, match=said):
        report(base.params(runs=["sum"], inferences=["nns"]))


@pytest.mark.parametrize("file", ["", "test_ims.npy#3"])
def test_precomputed_features_have_no_picture(project, file):
    table = images.read(paths.prepared("shapes")).to_pandas().assign(file=file, width=0, height=0)
    changed = images.SCHEMA.empty_table().from_pandas(table, images.SCHEMA, preserve_index=False)
    images.write(paths.prepared("shapes"), changed, "pictures")
    sealed(paths.prepared("shapes"))
    report(base.params(runs=["sum"], inferences=["nns", "csls"]))
    text = (project / "reports/index.html").read_text()
    assert "<symbol" not in text
    assert "could not be read" not in text
    assert '<span class="picture blank">Picture ' in text


def test_data_sets_are_compared_each_by_itself(project):
    shutil.copytree(paths.prepared("shapes"), paths.prepared("more"))
    read = identity.parts_of(paths.prepared("more"), "test") | identity.parts_of(paths.trained("hal"))
    identity.write(paths.evaluations("hal"), read, {})
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
