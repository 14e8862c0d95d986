"""Exports: the folded vectors, and the same ranking in every format."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.commands.script import prefixed
from tests.evaluate.embedded import sides, write_dataset
from tests.evaluate.embedded import write as write_run
from tests.evaluate.files import sample, write, write_npy
from tests.toy_project import load_params
from vse_pipe.artifacts import evaluation
from vse_pipe.core.errors import InputError, MissingResource, UsageError
from vse_pipe.core.files import sha256
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.export.export import export_run, export_vectors, folded
from vse_pipe.export.targets import TARGETS
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking import criteria
from vse_pipe.ranking.bank import Bank, ItemBias
from vse_pipe.ranking.scores import Scores
from vse_pipe.ranking.vectors import Vectors

# float32 sums of unit vectors differ by less.
_APART = 2e-6
DIRECTIONS = ("text_to_image", "image_to_text")
# Types of its wrappers have no module, of which Python 3.12 complains at import.
FAISS = pytest.param("faiss", marks=pytest.mark.filterwarnings("ignore:builtin type:DeprecationWarning"))
TO = ["parquet", "npy", FAISS]


def tops(folder, direction: str) -> dict[int, list[int]]:
    """By query the ids of its best 10 items, as the evaluation has them."""
    ranks = evaluation.read_ranks(folder).to_pandas()
    mine = ranks[ranks.direction == direction]
    return {query: top.tolist() for query, top in zip(mine.query_id.tolist(), mine.top, strict=True)}


def searched(queries, query_ids, items, item_ids) -> dict[int, list[int]]:
    """Plain inner-product search over float32 vectors. Queries with a near tie among the best 11 are left out: which of
    the two comes first is a matter of the order of summation."""
    scores = queries.astype(np.float64) @ items.T.astype(np.float64)
    order = np.argsort(-scores, axis=1)[:, :11]
    steady = np.diff(-np.take_along_axis(scores, order, axis=1)).min(axis=1) > _APART
    assert steady.mean() > 0.9
    best = item_ids[order[:, :10]]
    return {query: row.tolist() for query, row in zip(query_ids[steady].tolist(), best[steady], strict=True)}


def same(found: dict[int, list[int]], wanted: dict[int, list[int]]) -> bool:
    return bool(found) and found == {query: wanted[query] for query in found}


def reopened(out) -> dict[int, list[int]]:
    """What FAISS finds in its index, of the queries that ``searched`` finds steady in the vectors it holds."""
    import faiss

    queries, ids = np.load(out / "queries.npy"), np.load(out / "queries_ids.npy")
    index = faiss.read_index(str(out / "items.faiss"))
    items = index.index.reconstruct_n(0, index.ntotal), faiss.vector_to_array(index.id_map)
    best = dict(zip(ids.tolist(), index.search(queries, 10)[1].tolist(), strict=True))
    return {query: best[query] for query in searched(queries, ids, *items)}


def found(out, to: str) -> dict[int, list[int]]:
    if to == "parquet":
        read = [pq.read_table(out / f"{name}.parquet") for name in ("queries", "items")]
        pairs = [(np.stack(table["embedding"].to_numpy()), table["id"].to_numpy()) for table in read]
        return searched(*pairs[0], *pairs[1])
    if to == "faiss":
        return reopened(out)
    return searched(*(np.load(out / f"{name}.npy") for name in ("queries", "queries_ids", "items", "items_ids")))


FOLDABLE = [name for name in INFERENCES.names() if INFERENCES.traits(name).item_bias]
# Inner products further apart than this, float64, are in the same order whatever the order of summation.
_FOLD_APART = 1e-12
# At its default, 0.05, most iterations go into the last digits.
WARM = {"sinkhorn": INFERENCES.options("sinkhorn")(tau=0.5)}


def vectors(rng: np.random.Generator, rows: int, dim: int) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.from_numpy(rng.standard_normal((rows, dim))), dim=1)


@settings(max_examples=15)
@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("name", FOLDABLE)
@given(rows=st.integers(2, 9), columns=st.integers(2, 9), dim=st.integers(1, 6), seed=st.integers(0, 2**32 - 1))
def test_inner_products_rank_as_the_criterion_does(name, own, rows, columns, dim, seed):
    rng = np.random.default_rng(seed)
    queries, items, others = (vectors(rng, count, dim) for count in (rows, columns, 7))
    reference, kept = (queries, items) if own else (others, vectors(rng, 5, dim))
    scores = Scores.dense(queries @ items.T)
    bank = Bank(scores if own else Scores.dense(reference @ items.T), own, lambda: Scores.dense(kept @ items.T))
    criterion = criteria.parse(name, WARM)
    wanted = torch.cat([block for _, block in criterion.rerank(scores, bank).blocks()])
    left, right = folded(queries, items, criterion.item_bias(bank))
    assert left.dtype == right.dtype == torch.float64
    found = left @ right.T
    ahead = found[:, :, None] - found[:, None, :] > _FOLD_APART
    assert (~ahead | (wanted[:, :, None] > wanted[:, None, :])).all()
    assert ahead.any() or (found.amax(dim=1) - found.amin(dim=1) <= _FOLD_APART).all()


def test_the_last_dimension_is_the_correction_where_it_can_be_folded():
    bias = ItemBias(2.0, torch.tensor([1.0, -3.0], dtype=torch.float64))
    queries, items = folded(torch.tensor([[0.5]]), torch.tensor([[0.25], [0.125]]), bias)
    assert (queries.tolist(), items.tolist()) == ([[0.5, 1.0]], [[0.25, -1.0], [0.125, 1.0]])
    assert queries.dtype == items.dtype == torch.float32
    bias = ItemBias(1.0, torch.tensor([1e300, -1e300], dtype=torch.float64))
    with pytest.raises(InputError, match="leaves the range of the vectors' precision"):
        folded(torch.ones(1, 1), torch.ones(2, 1), bias)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(sample(dim=16), tmp_path)


@pytest.fixture
def given_files(request, files, tmp_path):
    """The bank: one of its own, or none."""
    if request.param == "transductive":
        return files
    write(sample(dim=16, seed=1, first=500), tmp_path, prefix="bank_")
    return replace(files, **prefixed(tmp_path, "bank_"))


OUT, QUICK = Path("out"), EvaluateParams(resamples=0)
BANKS = pytest.mark.parametrize("given_files", ["transductive", "inductive"], indirect=True)


def exported(
    files, inference="is", to="npy", direction="text_to_image", out=OUT, params=QUICK, options=None, **more
) -> dict:
    return export_vectors(files.sources(params), inference, params, options or {}, to, direction, out, "cpu", **more)


@BANKS
@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("to", TO)
def test_plain_search_over_every_format_ranks_as_the_criterion(given_files, to, direction):
    assert exported(given_files, "csls", to, direction)["transductive"] == (given_files.bank_images is None)
    given_files.ranked(["csls", "nns"], QUICK, out=Path("e"))
    wanted = tops(Path("e/csls"), direction)
    assert wanted != tops(Path("e/nns"), direction)
    assert same(found(OUT, to), wanted)


@BANKS
@pytest.mark.parametrize("inference", FOLDABLE)
def test_plain_search_ranks_as_every_criterion(given_files, inference):
    # 24 queries at the default 30 leave items of which one query has all the attention: differences below float32.
    options = {"is": INFERENCES.options("is")(beta=8.0)}
    given_files.ranked([inference], QUICK, options, Path("e"))
    for direction in DIRECTIONS:
        exported(given_files, inference, "npy", direction, options=options)
        assert same(found(OUT, "npy"), tops(Path("e", inference), direction)), direction


def _text(number: int) -> str:
    return f"text {number}" + " more" * (number % 2)


def test_a_map_has_the_path_and_the_caption_of_every_vector(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    seen, read = write_dataset({"test": 6})
    export_run(load_params(tmp_path, evaluate={"resamples": 0}), "sum", "is", "atlas", "text_to_image", OUT, "cpu")
    rows = {(row["kind"], int(row["id"])): row for row in pq.read_table(OUT / "atlas.parquet").to_pylist()}
    assert len(rows) == len(seen.ids) + len(read.ids)
    first = {image: _text(number) for number, image in zip(read.ids[::-1], read.image_ids[::-1], strict=True)}
    for kind, side in (("image", seen), ("caption", read)):
        for number, image, vector in zip(side.ids.tolist(), side.image_ids.tolist(), side.vectors, strict=True):
            row = rows[kind, number]
            assert row["caption"] == (_text(number) if kind == "caption" else first.get(image))
            assert (row["path"], row["split"]) == (str(tmp_path / "photos" / f"{image}.jpg"), "test")
            assert np.array_equal(np.float32(row["vector"]), vector)


def test_the_manifest_says_where_it_comes_from_and_the_bytes_are_the_same(files):
    manifest = exported(files, "sinkhorn")
    assert manifest == json.loads((OUT / "manifest.json").read_text())
    said = {"inference": "sinkhorn", "bank": "test", "direction": "text_to_image", "scale": pytest.approx(20.0)}
    said |= {"parameters": {"tau": 0.05, "tolerance": 1e-3, "max_iterations": 500}}
    said |= {"items": 24, "queries": 60, "dimensions": 17}
    said |= {"sources": {str(path): sha256(path) for path in (files.images, files.captions)}}
    assert {name: manifest[name] for name in said} == said
    assert 0 <= manifest["notes"]["residual"] <= 1e-3

    def written(to: str) -> dict[str, bytes]:
        exported(files, to=to)
        return {path.name: path.read_bytes() for path in OUT.iterdir()}

    assert written("npy") == written("npy")
    assert set(written("parquet")) == {"items.parquet", "queries.parquet", "manifest.json"}


def test_captions_need_no_image_and_one_bank_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(sample(seed=1, first=500), tmp_path, prefix="bank_")
    files = replace(write_npy(sample(), tmp_path), caption_images=None, bank_captions=tmp_path / "bank_b.parquet")
    manifest = exported(files, "nnn")
    assert (manifest["bank"], manifest["transductive"]) == (str(files.bank_captions), False)
    with pytest.raises(UsageError, match="the bank has no queries for image_to_text; give --bank-images"):
        exported(files, "nnn", direction="image_to_text", out=tmp_path / "other")
    with pytest.raises(InputError, match="the bank is empty"):
        exported(files, "dual_is", out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_parameters_are_chosen_for_the_direction(files, tmp_path):
    write(sample(dim=16, seed=2, first=500), tmp_path, prefix="val_")
    files, params = replace(files, **prefixed(tmp_path, "val_")), EvaluateParams(tune=True, resamples=0)
    chosen = files.ranked(["csls"], params)["csls"]["tuned"]
    for direction in DIRECTIONS:
        assert exported(files, "csls", direction=direction, params=params)["parameters"]["k"] == chosen[direction]["k"]


ABLE = "more than one number an item; these are one: csls, dual_is, is, nnn, nns, sinkhorn"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"to": "atlas"}, "--to atlas shows pictures and captions of a data set; give --run, not files"),
        ({"params": EvaluateParams(tune=True)}, "nothing chooses parameters without --val-images"),
        *[({"inference": name}, ABLE) for name in ("rgm", "qb_norm")],
    ],
)
def test_wrong_options_are_refused_before_any_work(files, changes, message):
    with pytest.raises(UsageError, match=message):
        exported(files, **{"inference": "csls", **changes})
    assert not OUT.exists()


def test_a_failure_leaves_nothing_and_a_missing_package_is_named(files, tmp_path, monkeypatch):
    def broken(folder, content):
        (folder / "items.npy").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(TARGETS, "npy", broken)
    with pytest.raises(OSError, match="No space left"):
        exported(files)
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []
    monkeypatch.setitem(sys.modules, "faiss", None)
    wanted = r"--to faiss needs the package faiss-cpu, which is not installed: pip install faiss-cpu"
    with pytest.raises(MissingResource, match=wanted):
        exported(files, to="faiss")


def test_a_run_is_exported_under_its_parameters_where_it_has_inner_products(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    both = sides({"train": 30, "val": 20, "test": 24})
    write_run(*both)
    params = load_params(tmp_path, evaluate={"bank": "train", "resamples": 0}, inference={"csls": {"k": 3}})
    manifest = export_run(params, "sum", "csls", "npy", "text_to_image", OUT, "cpu")
    assert (manifest["run"], manifest["bank"], manifest["parameters"]["k"]) == ("sum", "train", 3)
    evaluate(params, "sum", ["csls"], "cpu")
    assert same(found(OUT, "npy"), tops(Path("data/evaluate/sum/csls"), "text_to_image"))
    write_run(*(replace(side, about=side.about | {"similarity": "order"}) for side in both))
    monkeypatch.setattr(Vectors, "similarity", lambda self: torch.matmul)
    message = "run 'sum' compares by order, no inner product"
    with pytest.raises(UsageError, match=message):
        export_run(params, "sum", "is", "npy", "text_to_image", OUT, "cpu")
