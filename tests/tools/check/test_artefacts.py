"""Artefacts against each other: each fault is planted in a project that is well."""

import json
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.artifacts.test_phrases import PHRASE
from vse_pipe.artifacts import captions, evaluation, images, pairs, phrases
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.project.nodes import declarations
from vse_pipe.project.params.load import load
from vse_pipe.project.problems import ARTEFACT, DIGEST, NOTE, PARAMS, Problem, exit_status
from vse_pipe.tools.check.stage import check
from vse_pipe.train.stage import train


def test_a_project_that_is_well_has_no_problems(made):
    found = check([])
    assert [problem.line for problem in found.problems] == []
    assert (found.artefacts, found.named) == (8, 8)


def test_every_stage_below_data_is_checked():
    for group, declared in declarations().items():
        assert group == "report" or callable(declared.beside(declared.check).problems), group


def test_what_has_not_been_made_is_no_problem(made):
    import shutil

    shutil.rmtree("data/evaluate")
    shutil.rmtree("data/embed")
    found = check([])
    assert (found.problems, found.artefacts) == ([], 6)


def _json(path: Path, **changes: object) -> None:
    write_json(path, {**read_json(path), **changes})


def _without_last(folder: Path, module) -> None:
    table = pq.read_table(folder / module.NAME)
    pq.write_table(table.slice(0, table.num_rows - 1), folder / module.NAME)


def _other_pairs() -> None:
    """Readable, and not the pairs the run was trained on."""
    folder = paths.injected("toy", "clean")
    table = pq.read_table(folder / pairs.NAME)
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, b"note": b"x"}), folder / pairs.NAME)


def _other_images() -> None:
    folder = paths.prepared("toy")
    table = pq.read_table(folder / images.NAME)
    digests = pa.array(["1"] * len(table))
    pq.write_table(table.set_column(table.schema.get_field_index("sha256"), "sha256", digests), folder / images.NAME)


def _say(path: str, **about: str) -> None:
    """Write into the metadata of a table."""
    table = pq.read_table(path)
    added = {key.encode(): value.encode() for key, value in about.items()}
    pq.write_table(table.replace_schema_metadata({**table.schema.metadata, **added}), path)


def _cut(path: str) -> None:
    content = Path(path).read_bytes()
    Path(path).write_bytes(content[: len(content) // 2])


def _edit(path: str, old: str, new: str) -> None:
    text = Path(path).read_text(encoding="utf-8")
    assert old in text
    Path(path).write_text(text.replace(old, new), encoding="utf-8")


def _train(override: str) -> None:
    train(load(Path("params.yaml"), [override]), "sum", "cpu")


FAULTS: list[tuple[str, Callable[[], None], int, str, str]] = [
    ("params", lambda: _edit("params.yaml", "epochs", "epoch"), PARAMS, "params.yaml train.epoch", "did you mean"),
    (
        "no captions",
        lambda: Path("data/prepare/toy/captions.parquet").unlink(),
        ARTEFACT,
        "captions.parquet",
        "not exist",
    ),
    ("cut table", lambda: _cut("data/prepare/toy/images.parquet"), DIGEST, "images.parquet", "damaged Parquet"),
    (
        "captions of other images",
        lambda: _without_last(paths.prepared("toy"), images),
        ARTEFACT,
        "data/prepare/toy/captions.parquet",
        "ids are not in data/prepare/toy/images.parquet",
    ),
    ("meta", lambda: _json(Path("data/extract/toy/words/meta.json"), kind="x"), ARTEFACT, "meta.json", "no text"),
    (
        "other captions",
        lambda: _without_last(paths.prepared("toy"), captions),
        DIGEST,
        "data/extract/toy/words",
        "made from other captions",
    ),
    (
        "features of other images",
        lambda: _json(Path("data/extract/toy/plain/meta.json"), images_sha256="0" * 64),
        DIGEST,
        "data/extract/toy/plain",
        "made from other images than there are now; run `dvc repro extract@plain`",
    ),
    (
        "phrases of other captions",
        lambda: phrases.write(paths.prepared("toy"), pa.Table.from_pylist([PHRASE | {"caption_id": 10**6}])),
        ARTEFACT,
        "data/prepare/toy/phrases.parquet",
        "1 ids are not in data/prepare/toy/captions.parquet, the first is caption_id 1000000",
    ),
    (
        "texts made with other options",
        lambda: _edit("params.yaml", "min_count: 1", "min_count: 2"),
        DIGEST,
        "data/extract/toy/words",
        "made with min_count 1, params.yaml texts.words says 2",
    ),
    ("protocol", lambda: _edit("params.yaml", "protocol: caption", "protocol: image"), DIGEST, "toy/half", "protocol"),
    ("other pairs", _other_pairs, DIGEST, "data/train/sum", "made from other pairs"),
    (
        "other features",
        lambda: _json(Path("data/extract/toy/plain/meta.json"), sha256="0" * 64),
        DIGEST,
        "data/train/sum",
        "made from other features than there are now",
    ),
    ("cut model", lambda: _cut("data/train/sum/model.safetensors"), DIGEST, "model.safetensors", "damaged"),
    (
        "other width",
        lambda: _edit("params.yaml", "embed_size: 12", "embed_size: 13"),
        DIGEST,
        "data/train/sum",
        "made with embed_size 12, params.yaml runs.sum says 13",
    ),
    (
        "other margin",
        lambda: _edit("params.yaml", "margin: 0.2", "margin: 0.3"),
        DIGEST,
        "data/train/sum",
        "made with margin 0.2, params.yaml runs.sum.loss says 0.3",
    ),
    (
        "trained with another rate on the command line",
        lambda: _train("train.lr=0.02"),
        DIGEST,
        "data/train/sum",
        "made with lr 0.02, params.yaml runs.sum.train says 0.01; run `dvc repro train@sum`",
    ),
    (
        "trained from another seed",
        lambda: _edit("params.yaml", "seed: 3", "seed: 4"),
        DIGEST,
        "data/train/sum",
        "made with seed 3, params.yaml runs.sum says 4",
    ),
    (
        "ranked with another option",
        lambda: _edit("params.yaml", "inference: {}", "inference: {csls: {k: 3}}"),
        DIGEST,
        "data/evaluate/sum/csls/metrics.json",
        "made with k 10, params.yaml inference.csls says 3; run `dvc repro evaluate@sum`",
    ),
    ("history", lambda: _edit("data/train/sum/history.csv", "val_rsum", "rsum"), ARTEFACT, "history.csv", "'val_rsum'"),
    (
        "embedded by another model",
        lambda: _json(Path("data/train/sum/config.json"), sha256={"model.safetensors": "0" * 64}),
        DIGEST,
        "data/embed/sum",
        "made from other weights",
    ),
    (
        "sides of two models",
        lambda: _say("data/embed/sum/images.parquet", similarity="order"),
        ARTEFACT,
        "data/embed/sum",
        "images.parquet and captions.parquet name different values of similarity",
    ),
    (
        "embeddings of another run",
        lambda: [_say(f"data/embed/sum/{side}.parquet", run="max") for side in ("images", "captions")],
        ARTEFACT,
        "data/embed/sum",
        "embeddings of run 'max', expected 'sum'",
    ),
    (
        "cut embeddings",
        lambda: _cut("data/embed/sum/captions.parquet"),
        DIGEST,
        "data/embed/sum/captions.parquet",
        "damaged Parquet file",
    ),
    (
        "measured under another protocol",
        lambda: _edit("params.yaml", "resamples: 10", "resamples: 10\n  ties: average"),
        DIGEST,
        "data/evaluate/sum/nns/metrics.json",
        "made with ties 'pessimistic', params.yaml evaluate says 'average'",
    ),
    (
        "metrics of another criterion",
        lambda: _json(Path("data/evaluate/sum/nns/metrics.json"), inference="is"),
        ARTEFACT,
        "data/evaluate/sum/nns/metrics.json",
        "inference is 'is', expected 'nns'",
    ),
    (
        "metrics without a sum",
        lambda: _json(Path("data/evaluate/sum/nns/metrics.json"), rsum=None),
        ARTEFACT,
        "data/evaluate/sum/nns/metrics.json",
        "rsum is None, expected a finite number",
    ),
    (
        "metrics that are no JSON",
        lambda: _cut("data/evaluate/sum/csls/metrics.json"),
        ARTEFACT,
        "data/evaluate/sum/csls/metrics.json",
        "not a JSON document",
    ),
]


@pytest.mark.parametrize(
    ("plant", "status", "address", "what"), [one[1:] for one in FAULTS], ids=[one[0] for one in FAULTS]
)
def test_a_fault_is_named_with_its_address_and_status(made, plant, status, address, what):
    plant()
    found = [problem for problem in check([]).problems if address in problem.address and what in problem.line]
    assert [problem.status for problem in found] == [status], [problem.line for problem in check([]).problems]


def test_queries_that_are_not_embedded_are_named(made):
    folder = Path("data/evaluate/sum/nns")
    table = pq.read_table(folder / "ranks.parquet")
    ids = pa.array([999_999] * len(table))
    pq.write_table(
        table.set_column(table.schema.get_field_index("query_id"), table.schema.field("query_id"), ids),
        folder / "ranks.parquet",
    )
    found = [problem.line for problem in check([]).problems]
    assert len(found) == 2
    assert "the first is image_id 999999" in found[0]


def test_training_that_was_killed_is_a_note(made):
    Path("data/train/sum/model.safetensors").unlink()
    found = check([]).problems
    assert (NOTE, "training has not ended") in [(problem.status, problem.what) for problem in found]
    assert exit_status([problem for problem in found if problem.address == "data/train/sum"]) == 0


def test_what_params_no_longer_names_is_a_note(made):
    for name in ("data/train/old", "data/embed/sum.partial", "data/evaluate/sum/is", "data/inject/toy/gone"):
        Path(name).mkdir(parents=True)
    found = check([]).problems
    assert {problem.address: problem.status for problem in found} == {
        "data/train/old": NOTE,
        "data/embed/sum.partial": NOTE,
        "data/evaluate/sum/is": NOTE,
        "data/inject/toy/gone": NOTE,
    }
    assert exit_status(found) == 0


def test_the_report_must_speak_of_the_runs_that_are_named(made):
    Path("reports").mkdir()
    Path("reports/metrics.json").write_text(json.dumps({"sum": {}, "gone": {}}), encoding="utf-8")
    found = check([]).problems
    assert [(one.status, one.address) for one in found] == [(DIGEST, "reports/metrics.json")]
    assert "gone" in found[0].what


def test_the_report_must_be_of_the_data_that_was_evaluated(made):
    Path("reports").mkdir()
    for figures in ({"nns": {}, "data": "the demo's"}, 3):
        Path("reports/metrics.json").write_text(json.dumps({"sum": figures}), encoding="utf-8")
        found = check([]).problems
        assert [(one.status, one.address) for one in found] == [(DIGEST, "reports/metrics.json")]
        assert "figures of other data than was evaluated here: sum" in found[0].what
    # What the report does not show may be of any data.
    _json(paths.evaluated("sum", "nns") / evaluation.METRICS, data="the demo's")
    Path("reports/metrics.json").write_text(json.dumps({"sum": {"data": "ours", "gm": {}}}), encoding="utf-8")
    assert not [one for one in check([]).problems if one.address == "reports/metrics.json"]


def test_the_lowest_status_decides():
    def of(*statuses: int) -> int:
        return exit_status([Problem(status, "x", "y") for status in statuses])

    assert (of(), of(NOTE), of(DIGEST, ARTEFACT), of(DIGEST, NOTE), of(ARTEFACT, PARAMS)) == (0, 0, 3, 5, 2)
