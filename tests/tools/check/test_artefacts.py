"""Artefacts against each other: each fault is planted in a project that is well."""

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vse_pipe.artifacts import captions, images, pairs
from vse_pipe.core.files import read_json, write_json
from vse_pipe.project import paths
from vse_pipe.project.params.load import load
from vse_pipe.project.problems import ARTEFACT, DIGEST, NOTE, PARAMS, Problem, exit_status
from vse_pipe.tools.check import check
from vse_pipe.train.stage import train


def test_a_project_that_is_well_has_no_problems(made):
    found = check([])
    assert [problem.line for problem in found.problems] == []
    assert (found.artefacts, found.named) == (8, 8)


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
    ("other pairs", _other_pairs, DIGEST, "data/train/sum", "made from other pairs"),
    (
        "other features",
        lambda: _json(Path("data/extract/toy/plain/meta.json"), sha256="0" * 64),
        DIGEST,
        "data/train/sum",
        "made from other features than there are now",
    ),
    (
        "trained with another rate on the command line",
        lambda: _train("train.lr=0.02"),
        DIGEST,
        "data/embed/sum",
        "made from other weights than there are now; run `dvc repro embed@sum`",
    ),
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
        "evaluated on other embeddings",
        lambda: [_say(f"data/embed/sum/{side}.parquet", note="x") for side in ("images", "captions")],
        DIGEST,
        "data/evaluate/sum",
        "made from other embeddings than there are now; run `dvc repro evaluate@sum`",
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


def test_training_that_was_killed_is_a_note(made):
    Path("data/train/sum/model.safetensors").unlink()
    found = check([]).problems
    assert (NOTE, "training has not ended") in [(problem.status, problem.what) for problem in found]
    assert exit_status([problem for problem in found if problem.address == "data/train/sum"]) == 0


def test_the_lowest_status_decides():
    def of(*statuses: int) -> int:
        return exit_status([Problem(status, "x", "y") for status in statuses])

    assert (of(), of(NOTE), of(DIGEST, ARTEFACT), of(DIGEST, NOTE), of(ARTEFACT, PARAMS)) == (0, 0, 3, 5, 2)
