"""--dry-run: rows, bytes and seconds from what lies there, and not a byte written."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.command_line import caller
from tests.made import INFERENCES
from tests.toy_project import PARAMS, load_params
from vse_pipe.commands._plan_table import show
from vse_pipe.embed import plan as embed_plan
from vse_pipe.evaluate import plan as evaluate_plan
from vse_pipe.evaluate.external import plan as external_plan
from vse_pipe.extract import plan as extract_plan
from vse_pipe.extract import text_plan
from vse_pipe.inject import plan as inject_plan
from vse_pipe.prepare import plan as prepare_plan
from vse_pipe.project import step as _step
from vse_pipe.project import timing
from vse_pipe.project.params.load import load
from vse_pipe.project.step import AGAIN, BLOCKED, DONE, GOES_ON, RUNS, Earlier
from vse_pipe.report import plan as report_plan
from vse_pipe.tools.export import plan as export_plan
from vse_pipe.train import plan as train_plan
from vse_pipe.train.engine import finished

COMMANDS = [
    ("prepare",),
    ("extract",),
    ("inject",),
    ("train",),
    ("embed",),
    ("evaluate",),
    ("audit", "--run", "sum"),
    ("report",),
    ("export", "--run", "sum", "--inference", "csls", "--to", "parquet", "--out", "vectors"),
]


def _tree(root: Path) -> dict[str, tuple[int, int]]:
    return {str(path.relative_to(root)): (path.stat().st_mtime_ns, path.stat().st_size) for path in root.rglob("*")}


@pytest.mark.parametrize("command", COMMANDS, ids=[command[0] for command in COMMANDS])
@pytest.mark.parametrize("fresh", [False, True], ids=["made", "fresh"])
def test_nothing_is_written_and_one_document_is_printed(made, monkeypatch, capsys, command, fresh):
    if fresh:
        shutil.rmtree("data")
        Path("toy.csv").unlink()
    before = _tree(made)
    status, out, err = caller(monkeypatch, capsys)(*command, "--dry-run", "--json")
    assert (status, err) == (0, "")
    found = json.loads(out)
    assert found["dry_run"] is True
    assert {step["state"] for step in found["steps"]} <= ({BLOCKED} if fresh else {RUNS, AGAIN, GOES_ON, DONE})
    assert _tree(made) == before


def test_a_step_says_what_is_missing(made):
    shutil.rmtree("data/train")
    step = _step.waiting(load(Path("params.yaml")), "embed", "sum")
    assert (step.state, step.because) == (BLOCKED, "data/train/sum/model.safetensors does not exist yet")


def test_of_many_missing_files_three_are_named():
    step = _step.blocked("report", "", Path("out"), [Path(f"absent/{number}") for number in range(5)])
    assert step.because == "absent/0, absent/1, absent/2 and 2 more do not exist yet"


def test_rows_bytes_and_seconds_are_those_of_the_artefacts(made):
    params = load(Path("params.yaml"))
    timing.record(Path("data/embed/sum"), 13.1)
    timing.record(Path("data/evaluate/sum"), 4.0)
    step = embed_plan.plan(params, "sum")
    assert step.rows == {"images": 44, "captions": 87}
    assert (step.state, step.seconds, step.because) == (AGAIN, 13.1, "time from data/embed/sum.timing.json")
    assert step.bytes == sum(path.stat().st_size for path in Path("data/embed/sum").iterdir())
    whole = evaluate_plan.plan(params, "sum", INFERENCES)
    assert whole.rows == {"images": 6, "captions": 12, "criteria": 2}
    assert whole.seconds == 4.0
    assert evaluate_plan.plan(params, "sum", ["nns"]).seconds == 2.0


def test_half_the_rows_take_half_the_time():
    assert _step.seconds(10, []) == (None, "no timing of an earlier run to estimate the time from")
    assert _step.seconds(None, [Earlier(Path("x"), 3)])[0] is None


def test_an_earlier_record_is_scaled_and_never_made_up(tmp_path):
    out = tmp_path / "sum"
    assert _step.seconds(10, [Earlier(out, 20)])[0] is None
    timing.record(out, 8.0)
    assert _step.seconds(10, [Earlier(out, 20)]) == (4.0, f"time from {out}.timing.json")
    assert _step.seconds(10, [Earlier(out, None)])[0] is None
    assert _step.seconds(10, [Earlier(out, 0)])[0] is None


def test_extraction_is_done_goes_on_or_begins_again(made):
    params = load(Path("params.yaml"))
    assert text_plan.plan(params, "words").state == DONE
    assert text_plan.plan(params, "words").bytes == 0
    meta = Path("data/extract/toy/plain/meta.json")
    # The fixture's features say nothing of the images they were made from.
    assert extract_plan.plan(params, "plain").state == AGAIN
    content = json.loads(meta.read_text(encoding="utf-8"))
    digest = _sha(Path("data/prepare/toy/images.parquet"))
    meta.write_text(json.dumps({**content, "images_sha256": digest}), encoding="utf-8")
    assert extract_plan.plan(params, "plain").state == DONE
    meta.unlink()
    (meta.parent / "parts").mkdir()
    step = extract_plan.plan(params, "plain")
    assert (step.state, step.rows, step.bytes) == (GOES_ON, {"images": 44}, None)


def _sha(path: Path) -> str:
    import hashlib

    return hashlib.sha256(path.read_bytes()).hexdigest()


KNOWN = [
    ({"backbone": "random_filters", "filters": 64}, 44 * 128 * 4),
    ({"backbone": "resnet152"}, 44 * 2048 * 4),
    ({"backbone": "resnet152", "store": "float16"}, 44 * 2048 * 2),
    ({"backbone": "bottom_up", "tsv": ["x.tsv"], "regions": 10, "dimensions": 30}, 44 * 300 * 4),
    ({"backbone": "timm", "model": "resnet18.a1_in1k"}, None),
]


@pytest.mark.parametrize(("node", "size"), KNOWN, ids=[str(node) for node, _ in KNOWN])
def test_bytes_of_features_follow_from_the_backbone_or_are_unknown(made, node, size):
    params = load_params(made, features={"plain": PARAMS["features"]["plain"], "other": {"dataset": "toy", **node}})
    assert extract_plan.plan(params, "other").bytes == size


def test_training_counts_the_epochs_that_are_left(made):
    params = load_params(made, train={"epochs": 6, "batch_size": 8, "embed_size": 12})
    timing.record(Path("data/train/sum"), 10.0)
    step = train_plan.plan(params, "sum")
    assert (step.state, step.rows, step.seconds) == (AGAIN, {"pairs": 60, "epochs": 6}, 30.0), (
        "it is finished: it begins anew"
    )
    record = Path("data/train/sum") / finished.FILE
    ended = record.read_bytes()
    record.unlink()
    step = train_plan.plan(params, "sum")
    assert (step.state, step.rows, step.seconds) == (GOES_ON, {"pairs": 60, "epochs": 4}, 20.0)
    assert step.because.startswith("after 2 of 6 epochs")
    record.write_bytes(ended)
    done = train_plan.plan(load_params(made, train={"epochs": 2, "batch_size": 8, "embed_size": 12}), "sum")
    assert (done.state, done.bytes, done.seconds) == (DONE, 0, 0.0)
    assert done.because == "after 2 of 2 epochs, if nothing has changed since"
    record.unlink()
    Path("data/train/sum/history.csv").unlink()
    assert train_plan.plan(params, "sum").rows["epochs"] == 4
    other = {"sum": PARAMS["runs"]["sum"], "max": {**PARAMS["runs"]["sum"], "loss": "max"}}
    fresh = train_plan.plan(load_params(made, runs=other), "max")
    assert (fresh.state, fresh.seconds) == (RUNS, 20.0)
    assert fresh.because == "time from data/train/sum.timing.json"


def test_the_renderer_is_told_its_rows(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shapes = {"format": "shapes", "source": ".", "train": 7, "val": 2, "test": 1}
    params = load_params(tmp_path, datasets={"toy": shapes})
    step = prepare_plan.plan(params, "toy")
    assert (step.state, step.rows, step.bytes, step.seconds) == (RUNS, {"images": 10}, None, None)


def test_inject_report_and_export(made):
    params = load(Path("params.yaml"))
    assert inject_plan.plan(params, "half").rows == {"pairs": 87}
    step = report_plan.plan(params)
    assert (step.state, step.rows, step.out) == (RUNS, {"runs": 1, "criteria": 2}, "reports/index.html")
    out = export_plan.plan(params, "sum", "text_to_image", Path("vectors"))
    assert (out.rows, out.bytes) == ({"items": 6, "queries": 12}, 18 * 13 * 4)
    assert export_plan.plan(params, "sum", "image_to_text", Path("vectors")).rows == {"items": 12, "queries": 6}


def test_vectors_of_the_users_own(tmp_path):
    np.save(tmp_path / "a.npy", np.zeros((3, 2)))
    step = external_plan.plan("evaluate", tmp_path / "a.npy", tmp_path / "a.npy", ["nns"], None)
    assert (step.rows, step.bytes) == ({"images": 3, "captions": 3, "criteria": 1}, 0)
    assert external_plan.plan("evaluate", tmp_path / "b.npy", tmp_path / "a.npy", [], None).state == BLOCKED
    (tmp_path / "bad.npy").write_bytes(b"x")
    assert external_plan.plan("evaluate", tmp_path / "bad.npy", tmp_path / "a.npy", [], None).rows == {
        "captions": 3,
        "criteria": 0,
    }


def test_what_people_read(capsys):
    steps = [
        _step.Step("train", "sum", "data/train/sum", RUNS, {"pairs": 12_345}, 5_300_000, 300.0, "time from x"),
        _step.Step("embed", "sum", "data/embed/sum", BLOCKED, because="y does not exist yet"),
        _step.Step("report", "", "reports/index.html", AGAIN, {}, None, None),
        _step.Step("extract", "big", "z", RUNS, {}, 3_000_000_000_000, 9000.0),
    ]
    show(steps, False)
    assert capsys.readouterr().out.splitlines() == [
        "runs        train sum: 12,345 pairs; 5.3 MB to data/train/sum; about 5 min (time from x)",
        "blocked     embed sum: y does not exist yet",
        "runs again  report: unknown size to reports/index.html; time unknown",
        "runs        extract big: 3.0 TB to z; about 2.5 h",
    ]
    show(steps, True)
    found = json.loads(capsys.readouterr().out)
    assert (found["bytes"], found["seconds"]) == (None, None)
