"""Criteria of one run belong together: digests of what was ranked, written whole, and what of an earlier call stays beside."""

import json
from dataclasses import replace

import pytest

from tests.evaluate.embedded import sides, write
from tests.evaluate.measured import params
from vse_pipe.artifacts import embeddings, evaluation
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.evaluate import stage
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project import paths

COUNTS = {"train": 6, "val": 20, "test": 24}
OUT = paths.evaluations("sum")


@pytest.fixture
def warned(monkeypatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(console, "warn", found.append)
    return found


def anew() -> None:
    """Embedded by another model."""
    images, captions = sides(COUNTS, seed=1)
    about = {**images.about, "model_sha256": "1" * 64}
    write(replace(images, about=about), replace(captions, about=about))


def there() -> set[str]:
    return {path.name for path in OUT.iterdir()}


def test_a_criterion_by_hand_stays_beside_those_of_the_same_vectors(project, warned):
    evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    before = (OUT / "nns" / "ranks.parquet").read_bytes()
    evaluate(params(project), "sum", ["is", "csls"], "cpu")
    assert there() == {"nns", "csls", "is"}
    assert (OUT / "nns" / "ranks.parquet").read_bytes() == before
    assert not warned
    evaluation.require_current(params(project), "sum")


def test_a_criterion_by_hand_removes_those_of_other_vectors_and_says_so(project, warned):
    evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    anew()
    evaluate(params(project), "sum", ["csls"], "cpu")
    assert there() == {"csls"}
    assert warned == [
        "evaluate sum: removed nns, which were evaluated on other embeddings; `vse-pipe evaluate --run sum` makes all criteria of "
        "grid.inferences"
    ]


def test_a_call_that_ends_between_two_criteria_leaves_what_was_there(project, monkeypatch):
    evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    before = {path: path.read_bytes() for path in OUT.rglob("*") if path.is_file()}
    anew()
    whole = stage.write

    def killed(out, result, names=None):
        if result.criterion.name == "csls":
            raise KeyboardInterrupt
        whole(out, result, names)

    monkeypatch.setattr(stage, "write", killed)
    with pytest.raises(KeyboardInterrupt):
        evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    assert {path: path.read_bytes() for path in OUT.rglob("*") if path.is_file()} == before


def test_criteria_of_different_vectors_are_told_apart_however_they_came_there(project):
    evaluate(params(project), "sum", ["nns", "csls"], "cpu")
    path = OUT / "csls" / evaluation.METRICS
    metrics = json.loads(path.read_text())
    metrics[evaluation.MADE_FROM]["vectors"] = "0"
    path.write_text(json.dumps(metrics))
    with pytest.raises(
        IntegrityError, match=r"csls and nns were evaluated on different embeddings; run `dvc repro eval"
    ):
        evaluation.require_current(params(project), "sum")
    evaluation.require_current(params(project), "sum", ["nns"])


def test_criteria_of_one_bank_are_of_the_same_vectors_in_it():
    def document(name: str, *digest: str) -> dict:
        made_from = {"models": {"a": "1"}, "vectors": "2", **dict(zip(["bank"], digest, strict=False))}
        return {"bank": name, evaluation.MADE_FROM: made_from}

    nns, old, new = document("none"), document("there", "3"), document("there", "4")
    assert evaluation.same_inputs(nns, old)
    assert evaluation.same_inputs(nns, document("train"))
    assert evaluation.same_inputs(old, document("elsewhere", "4"))
    assert not evaluation.same_inputs(old, new)
    assert evaluation.same_inputs({}, {"bank": "none"})
    assert not evaluation.same_inputs({}, nns)


def test_what_cannot_be_computed_is_left_out_with_the_reason(project, warned):
    write(*sides({"train": 6, "val": 20, "test": 1}))
    written = evaluate(params(project), "sum", ["nns", "is", "csls"], "cpu")
    assert set(written) == {"nns", "csls"}
    assert there() == {"nns", "csls", evaluation.UNMEASURED}
    why = evaluation.read_unmeasured(OUT)["is"]
    assert why.startswith("is: the denominator sums over the other queries and there are none")
    assert warned == [f"evaluate sum: is is left out: {why}"]
    evaluate(params(project), "sum", ["csls"], "cpu")
    assert set(evaluation.read_unmeasured(OUT)) == {"is"}
    with pytest.raises(InputError, match="the denominator sums over the other queries"):
        evaluate(params(project), "sum", ["is"], "cpu")
    write(*sides(COUNTS))
    evaluate(params(project), "sum", ["nns", "is"], "cpu")
    assert there() == {"nns", "is"}


def test_the_peer_and_the_bank_count(project):
    options = params(project)
    evaluate(options, "sum", ["nns"], "cpu")
    before = evaluation.made_from(options, "sum")["vectors"]
    peer = paths.embedded("sum") / embeddings.PEER
    peer.mkdir()
    (peer / embeddings.IMAGES).write_bytes(b"other")
    assert evaluation.made_from(options, "sum")["vectors"] != before
