"""The audit of a data set: what it writes, and what it refuses."""

import shutil
from collections.abc import Iterator
from contextlib import chdir
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.command_line import caller, failure, json_document, output
from tests.sealed import sealed
from tests.toy_project import PARAMS, kept, load_params, write_prepared
from vse_pipe.artifacts import audit as artefact
from vse_pipe.artifacts import decisions, features, identity, pairs, texts
from vse_pipe.audit import data
from vse_pipe.core.errors import InputError, IntegrityError, UsageError
from vse_pipe.core.files import read_json, sha256
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params

NOISES = {**PARAMS["noises"], "own": {"dataset": "toy", "protocol": "as_is"}}
DATASETS = {**PARAMS["datasets"], "bare": {"format": "csv", "source": "bare.csv"}}


def _params(**changes) -> Params:
    return load_params(Path(), noises=NOISES, datasets=DATASETS, **changes)


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Iterator[Params]:
    with chdir(tmp_path_factory.mktemp("audit")):
        write_prepared(train=150, val=30, test=30, dim=10)
        params = _params()
        for noise in ("half", "own"):
            inject(params, noise)
        yield params


@pytest.fixture
def own(prepared) -> Iterator[Params]:
    """The same without an audit, which the test may damage."""
    shutil.rmtree(paths.audited_pairs("toy", None).parent, ignore_errors=True)
    with kept(Path("data")):
        yield prepared


def _written(noise: str | None = None) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in paths.audited_pairs("toy", noise).iterdir()}


def _write_sentences(params: Params) -> None:
    """Texts ``sentences``: what each caption's image shows, and noise; far better than words."""
    table = pq.read_table(paths.prepared("toy") / "captions.parquet").to_pandas()
    found = features.read(paths.extracted("toy", "plain"))
    rows = found.array[found.rows_of(table["image_id"].to_numpy())]
    rows = rows + 0.1 * np.random.default_rng(0).standard_normal(rows.shape)
    where, of_captions = paths.extracted("toy", "sentences"), sha256(paths.prepared("toy") / "captions.parquet")
    about = {"dataset": "toy", "captions_sha256": of_captions}
    blocks = [texts.of_vectors(rows.astype("f4"))]
    texts.write(where, "vectors", table["caption_id"].to_numpy(), blocks, about, state={})


def test_findings_metrics_and_the_curve_against_the_injected_truth(own):
    metrics = data.audit_data(own, "toy", "half")
    out = paths.audited_pairs("toy", "half")
    assert set(_written("half")) == {"doubts.parquet", "findings.csv", "metrics.json", identity.NAME}
    assert read_json(out / "metrics.json") == metrics
    truth = pairs.read(paths.injected("toy", "half")).to_pandas().query("split == 'train'").set_index("caption_id")
    count, wrong = len(truth), int(truth["mismatched"].sum())
    told = {"pairs": count, "images": truth["image_id"].nunique(), "mismatched": wrong, "truth": "known"}
    assert {key: metrics[key] for key in told} == told
    assert (metrics["dataset"], metrics["noise"], metrics["features"], metrics["split"]) == (
        "toy",
        "half",
        "plain",
        "train",
    )
    assert metrics["auc"] > 0.8
    low, high = metrics["interval"]
    assert low <= metrics["expected"] <= high
    assert [row["first"] for row in metrics["ranked"]][:2] == [10, 100]
    doubts = artefact.read_doubts(out).to_pandas().set_index("caption_id")
    assert set(doubts.index) == set(truth.index)
    assert (doubts["mismatched"] == truth["mismatched"].reindex(doubts.index)).all()
    assert (doubts["image_id"] == truth["image_id"].reindex(doubts.index)).all()
    first = doubts.sort_values("odds", ascending=False, kind="stable").head(100)
    assert metrics["ranked"][1]["precision"] == pytest.approx(first["mismatched"].mean(), abs=1e-4)
    assert metrics["ranked"][1]["estimated"] == pytest.approx(first["probability"].mean(), abs=1e-4)


def test_findings_are_read_back_with_nothing_decided_and_doubts_fall(own):
    data.audit_data(own, "toy", "half", limit=20)
    path = paths.audited_pairs("toy", "half") / decisions.FINDINGS
    assert path.read_text().splitlines()[0] == ",".join(decisions.COLUMNS)
    rows = decisions.read(path)
    assert (rows[["decision", "by", "at"]] == "").all(axis=None)
    assert not rows.duplicated(["kind", "id"]).any()
    found = rows[rows["kind"] == "pair"]
    assert len(found) == 20
    assert found["doubt"].between(0, 1).all()
    assert found["doubt"].is_monotonic_decreasing
    shown = pairs.read(paths.injected("toy", "half")).to_pandas().set_index("caption_id")
    images = pq.read_table(paths.prepared("toy") / "images.parquet").to_pandas().set_index("image_id")
    captions = pq.read_table(paths.prepared("toy") / "captions.parquet").to_pandas().set_index("caption_id")
    for row in found.itertuples():
        assert row.file == images.at[shown.at[row.id, "image_id"], "file"]
        assert row.caption == captions.at[row.id, "text"]
        assert row.other != shown.at[row.id, "image_id"]
        assert row.other_file == images.at[row.other, "file"]
        digests = images["sha256"]
        assert (row.sha256, row.other_sha256) == (digests[shown.at[row.id, "image_id"]], digests[row.other])
        assert row.proposal in ("drop", "picture")
    assert (found["proposal"] == "picture").any()
    assert set(rows["kind"]) <= set(decisions.KINDS)


def test_dropped_pairs_are_not_audited_again(own, capsys):
    data.audit_data(own, "toy", "half")
    listed = decisions.read(paths.audited_pairs("toy", "half") / "findings.csv").query("kind == 'pair'")
    decisions.write(Path("decisions.csv"), listed.head(5).assign(decision="drop", by="anna", at=""))
    cleaned = {"dataset": "toy", "protocol": "decisions", "file": "decisions.csv", "base": "caption", "rate": 0.5}
    decided = load_params(Path(), noises={**NOISES, "cleaned": cleaned}, datasets=DATASETS)
    inject(decided, "cleaned")
    capsys.readouterr()
    metrics = data.audit_data(decided, "toy", "cleaned")
    assert "more than it tells" in " ".join(capsys.readouterr().err.split())
    doubts = artefact.read_doubts(paths.audited_pairs("toy", "cleaned"))
    assert not set(listed["id"].head(5)) & set(doubts["caption_id"].to_pylist())
    assert metrics["pairs"] == doubts.num_rows == len(artefact.read_doubts(paths.audited_pairs("toy", "half"))) - 5


def test_the_same_data_give_the_same_bytes_and_clean_pairs_are_not_doubted(own):
    data.audit_data(own, "toy")
    before = _written()
    clean = read_json(paths.audited_pairs("toy", None) / "metrics.json")
    data.audit_data(own, "toy")
    assert _written() == before
    assert (clean["noise"], clean["truth"]) == (None, "unknown")
    assert not {"auc", "mismatched"} & set(clean)
    assert clean["expected"] < 0.15 * clean["pairs"]
    assert data.audit_data(own, "toy", "own")["truth"] == "unknown"


def test_vectors_of_captions_stand_beside_the_words(own):
    words = data.audit_data(own, "toy", "half")
    _write_sentences(own)
    both = data.audit_data(own, "toy", "half", of_texts="sentences")
    assert (words["texts"], both["texts"]) == (None, "sentences")
    assert both["auc"] > 0.95
    table = pq.read_table(paths.prepared("toy") / "captions.parquet")
    said = pa.array([f"{text} dog" for text in table["text"].to_pylist()])
    table = table.set_column(table.column_names.index("text"), "text", said)
    pq.write_table(table, paths.prepared("toy") / "captions.parquet")
    sealed(paths.prepared("toy"))
    with pytest.raises(
        IntegrityError, match=r"sentences: made from other captions .*; run `vse-pipe extract --texts sentences`"
    ):
        data.audit_data(own, "toy", of_texts="sentences")


def test_equal_captions_do_not_tell_how_many_are_wrong(own, monkeypatch, capsys):
    path = paths.prepared("toy") / "captions.parquet"
    table = pq.read_table(path)
    said = pa.array(["a dog on grass"] * table.num_rows)
    pq.write_table(table.set_column(table.column_names.index("text"), "text", said), path)
    out, _ = output(caller(monkeypatch, capsys), "audit", "--dataset", "toy")
    assert "cannot be told (0 to " in out


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("toy", None, "plane"), UsageError, "unknown features of the data set 'plane'; did you mean 'plain'?"),
        (("bare", None), UsageError, "data set 'bare' has no entry under features: in params.yaml"),
        (("toy", "half", None, "nothing"), InputError, "data/extract/toy/nothing"),
        (("toy", None, None, "words"), UsageError, "--texts words: of kind"),
    ],
)
def test_what_is_not_there_is_one_line(own, arguments, error, message):
    if "words" in arguments:
        extract_texts(own, "words")
    with pytest.raises(error, match=message):
        data.audit_data(own, *arguments)
    assert not paths.audited_pairs(*arguments[:2]).exists()


def test_noise_of_another_data_set_and_pairs_of_earlier_captions(own, tmp_path):
    other = replace(own.noises["half"], dataset="bare")
    with pytest.raises(UsageError, match="--noise half: of data set 'bare', not of 'toy'"):
        data.audit_data(replace(own, noises={**own.noises, "half": other}), "toy", "half")
    path = paths.prepared("toy") / "captions.parquet"
    table = pq.read_table(path)
    said = pa.array([f"{text} dog" for text in table["text"].to_pylist()])
    pq.write_table(table.set_column(table.column_names.index("text"), "text", said), path)
    sealed(path.parent)
    with pytest.raises(IntegrityError, match="inject"):
        data.audit_data(own, "toy", "half")


def test_fewer_images_than_can_be_compared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_prepared(train=1, val=3, test=4)
    params = _params()
    with pytest.raises(InputError, match="split train show 1 images; an audit compares 4 or more"):
        data.audit_data(params, "toy")
    with pytest.raises(InputError, match="split val show 3 images"):
        data.audit_data(params, "toy", split="val")
    assert data.audit_data(params, "toy", split="test")["images"] == 4
    with pytest.raises(InputError, match="split test show 0 images"):
        index = features.read(paths.extracted("toy", "plain"))
        table = pa.table(
            {"image_id": index.image_ids, "row": [-1] * 8, "status": ["unreadable"] * 8, "detail": ["x"] * 8}
        )
        features.write(paths.extracted("toy", "plain"), index.array[:0], table, {"backbone": "precomp"})
        data.audit_data(params, "toy", split="test")


def test_decisions_in_findings_are_not_overwritten(own):
    data.audit_data(own, "toy", limit=5)
    path = paths.audited_pairs("toy", None) / decisions.FINDINGS
    rows = decisions.read(path)
    rows.loc[rows.index[0], "decision"] = "drop"
    decisions.write(path, rows)
    before = _written()
    with pytest.raises(InputError, match=r"findings\.csv: has decisions, .*; move it, in a project to decisions\.csv"):
        data.audit_data(own, "toy")
    assert _written() == before
    path.rename("decisions.csv")
    data.audit_data(own, "toy", limit=5)
    assert set(_written()) == {"doubts.parquet", "findings.csv", "metrics.json", identity.NAME}
    Path("decisions.csv").unlink()


def test_the_command_line(own, monkeypatch, capsys):
    run = caller(monkeypatch, capsys)
    document = json_document(run, "audit", "--noise", "half", "--limit", 5, "--json")
    assert document == read_json(paths.audited_pairs("toy", "half") / "metrics.json")
    out, err = output(run, "audit", "--dataset", "toy", "--noise", "half")
    assert "probably mismatched" in out
    assert f" to {document['interval'][1]:,})" in out
    assert "AUC" in out
    assert "findings, data/audit/datasets/toy/half/findings.csv" in err
    out, _ = output(run, "audit", "--dataset", "toy")
    assert "AUC" not in out
    first = document["ranked"][0]
    assert first["interval"][0] <= first["precision"] * first["first"] <= first["interval"][1]
    assert "did you mean 'toy'" in failure(run, 2, "audit", "--dataset", "tox")
    assert "did you mean 'half'" in failure(run, 2, "audit", "--noise", "hal")
    assert "expected train, val or test" in failure(run, 2, "audit", "--dataset", "toy", "--split", "dev")
    for wrong in ((), ("--run", "sum", "--dataset", "toy"), ("--run", "sum", "--noise", "half")):
        assert "audit what?" in failure(run, 2, "audit", *wrong)
