"""A project with a run of vectors and one of fragments: all that embed, evaluate and audit write of it, whoever does the work.

A program, ``python -m tests.project.engines.projects elsewhere`` or ``ray``, that ends with 0 where the bytes are the same: run
for itself, since functions cannot be sent to other processes while tests check their types.
"""

import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.faults.kill_extract import workers_of
from tests.fragment_project import run_of, write_fragment_project
from tests.pools import Elsewhere
from vse_pipe.artifacts import audit, evaluation
from vse_pipe.audit import stage as auditing
from vse_pipe.core import workers
from vse_pipe.core.errors import PipelineError
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project.params.schema import EngineParams, EnsembleNode
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import ENGINES
from vse_pipe.ranking import scores
from vse_pipe.train import model
from vse_pipe.train.stage import train

STAGES = ("embed", "evaluate", "audit")
# Every kind of pass over the scores.
CRITERIA = ("nns", "is", "csls", "nnn", "qb_norm", "dual_is", "sinkhorn", "mutual_proximity", "gm", "is+rgm")
RUNS = {
    "gpo": run_of("cosine", image="pooled"),
    "other": run_of("cosine", loss="max", image="pooled"),
    "saf": run_of("saf"),
}
ENSEMBLES = {
    "fused": EnsembleNode(runs=["gpo", "other"], rule="rrf"),
    "mixed": EnsembleNode(runs=["gpo", "saf"], weights=[2, 1]),
    "ordered": EnsembleNode(runs=["gpo", "saf"], rescore=5),
}


def trained(root: Path) -> Params:
    """Its runs are trained; nothing is embedded."""
    params = write_fragment_project(root, **RUNS)
    for name in RUNS:
        train(params, name, "cpu")
    return replace(params, ensembles=ENSEMBLES)


def cut_small(patch: pytest.MonkeyPatch) -> None:
    """Parts of a few rows, so that a few rows are many parts."""
    whole = model._parts
    patch.setattr(model, "_parts", lambda order, size: whole(order, min(size, 64)))
    patch.setattr(scores, "STRIP", 2)
    patch.setattr(scores, "_TILE", (2, 4))
    patch.setattr(auditing, "BATCH", 16)


def written(params: Params, root: Path, spread: AbstractContextManager, most: bool) -> dict[str, str]:
    """Digests of all files that the three stages write with their work done by ``spread``, by path. most: not of a few passes of
    each kind alone."""
    for stage in STAGES:
        shutil.rmtree(root / "data" / stage, ignore_errors=True)
    with spread:
        for name in RUNS:
            embed(params, name, "cpu")
            auditing.audit(params, name, device="cpu")
        evaluate(params, "gpo", CRITERIA if most else ("nns", "csls", "is+rgm"), "cpu")
        evaluate(params, "saf", ("nns", "csls", "rgm") if most else ("nns",), "cpu")
        if most:
            evaluate(_inductive(params), "other", ("nns", "csls", "dual_is"), "cpu")
            for name in ENSEMBLES:
                evaluate(params, name, ("nns", "is"), "cpu")
    files = (path for stage in STAGES for path in (root / "data" / stage).rglob("*"))
    kept = (path for path in files if path.is_file() and path.suffix != ".lock" and ".timing." not in path.name)
    return {str(path.relative_to(root)): sha256(_content(path)).hexdigest() for path in kept}


def _content(path: Path) -> bytes:
    """The bytes of a file; figures are rounded, because sums over other parts differ in their last bits."""
    if path.name == audit.PAIRS:
        return pq.read_table(path).to_pandas().round(3).to_csv().encode()
    if path.name != evaluation.METRICS:
        return path.read_bytes()
    return json.dumps(json.loads(path.read_bytes(), parse_float=lambda text: round(float(text), 2))).encode()


def _inductive(params: Params) -> Params:
    return replace(params, evaluate=params.evaluate.model_copy(update={"bank": "train", "calibrate": "isotonic"}))


def main(kind: str) -> None:
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        root = Path(folder).resolve()
        patch.chdir(root)
        params = trained(root)
        cut_small(patch)
        whole = written(params, root, contextlib.nullcontext(), kind == "elsewhere")
        assert len(whole) > 20, sorted(whole)
        for found in (elsewhere if kind == "elsewhere" else by_ray)(params, root):
            assert found == whole, [path for path in whole | found if whole.get(path) != found.get(path)]


def elsewhere(params: Params, root: Path) -> Iterator[dict[str, str]]:
    pool = Elsewhere()
    yield written(params, root, workers.using(pool), True)
    assert len(pool.asked) > 50, pool.asked


def by_ray(params: Params, root: Path) -> Iterator[dict[str, str]]:
    """The last time a worker is killed in the middle."""
    for count in (1, 2, 3):
        killed: list[int] = []
        if count == 3:
            threading.Thread(target=_kill_one, args=(killed,), daemon=True).start()
        yield _patiently(params, root, count)
    assert len(killed) == 1, "no worker was there to be killed"


def _patiently(params: Params, root: Path, count: int) -> dict[str, str]:
    """Ray gives up to start where others keep the machine busy."""
    for _ in range(5):
        spread = ENGINES.load("ray").opened(EngineParams(name="ray", workers=count), "cpu")
        try:
            return written(params, root, spread, False)
        except PipelineError as error:
            if "no Ray cluster at local" not in str(error):
                raise
    raise RuntimeError("Ray does not start")


def _kill_one(killed: list[int]) -> None:
    while not (found := workers_of(os.getpid())):
        time.sleep(0.1)
    time.sleep(2)
    os.kill(found[0], signal.SIGKILL)
    killed.append(found[0])


if __name__ == "__main__":
    main(sys.argv[1])
