"""Rankings as TREC has them, out of this program and into it."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.commands.options import arguments
from tests.evaluate.files import sample, write


@pytest.mark.parametrize("direction", ["text_to_image", "image_to_text"])
def test_an_exported_ranking_has_the_figures_of_its_evaluation(call, tmp_path, direction):
    files = write(sample(), tmp_path)
    _, out, _ = call("evaluate", *arguments(files), "--inference", "csls", "--json")
    wanted = json.loads(out)[direction]
    given = replace(files, similarity="cosine")
    status, _, err = call(
        *("export", "--inference", "csls", "--to", "trec", "--out", "o", "--direction", direction),
        *("--images", given.images, "--captions", given.captions),
    )
    assert status == 0, err
    status, out, err = call(
        "evaluate", "--trec-run", "o/run.txt", "--qrels", "o/qrels.txt", "--out", "figures", "--json"
    )
    assert status == 0, err
    found = json.loads(out)
    for name in ("r@1", "r@5", "r@10", "mrr", "map", "map@r", "r_precision", "ndcg@10", "queries"):
        assert found[name] == pytest.approx(wanted[name], abs=1e-4), name
    assert found["graded_ndcg@10"] == found["ndcg@10"]
    assert json.loads((tmp_path / "figures" / "metrics.json").read_text()) == found


def test_the_best_of_each_query_are_exported(call, tmp_path):
    files = write(sample(), tmp_path)
    given = ("--images", files.images, "--captions", files.captions)
    status, _, err = call("export", "--inference", "nns", "--to", "trec", "--out", "o", "--depth", 3, *given)
    assert status == 0, err
    lines = [line.split() for line in (tmp_path / "o" / "run.txt").read_text().splitlines()]
    one = sample()
    assert len(lines) == 3 * len(one.caption_ids)
    best = one.image_ids[np.argsort(-one.cosines().T, axis=1)[:, :3]]
    assert [int(line[2]) for line in lines] == best.ravel().tolist()
    assert {(line[1], line[5]) for line in lines} == {("Q0", "vse-pipe")}
    assert [line[3] for line in lines[:6]] == ["1", "2", "3"] * 2
    scores = np.array([float(line[4]) for line in lines]).reshape(-1, 3)
    assert (np.diff(scores, axis=1) <= 0).all()


def test_the_table_and_what_does_not_go_together(call, tmp_path):
    (tmp_path / "run.txt").write_text("q 0 a 1 2 t\nq 0 b 2 1 t\nr 0 a 1 1 t\n")
    (tmp_path / "qrels.txt").write_text("q 0 b 1\np 0 b 1\n")
    status, out, err = call("evaluate", "--trec-run", "run.txt", "--qrels", "qrels.txt")
    assert status == 0, err
    assert "mrr 25.00" in " ".join(out.split())
    assert "1 of them have no answer in the run" in out
    assert "1 queries of the run have no correct item" in out
    status, _, err = call("evaluate", "--trec-run", "run.txt")
    assert (status, err) == (2, "error: --trec-run goes with --qrels FILE, --out and --json, and nothing else\n")
    status, _, err = call("evaluate", "--trec-run", "no.txt", "--qrels", "qrels.txt")
    assert (status, err) == (4, "error: no.txt does not exist\n")
