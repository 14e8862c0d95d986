import json
import sys
from dataclasses import replace

import pytest
import torch

from tests.evaluate.embedded import sides
from tests.evaluate.embedded import write as write_run
from tests.evaluate.files import sample, write, write_npy
from tests.tools.export.exported import DIRECTIONS, TO, found, same, tops
from tests.tools.export.test_fold import FOLDABLE
from tests.toy_project import load_params
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import sha256
from vse_pipe.evaluate import files as external
from vse_pipe.evaluate.files import evaluate_files
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES
from vse_pipe.ranking.embedded import Embedded
from vse_pipe.tools.export import TARGETS, export_files, export_run


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return write(sample(dim=16), tmp_path)


@pytest.fixture
def with_bank(files, tmp_path):
    write(sample(dim=16, seed=1, first=500), tmp_path, prefix="bank_")
    bank = {"bank_images": tmp_path / "bank_a.parquet", "bank_captions": tmp_path / "bank_b.parquet"}
    return replace(files, **bank)


def exported(files, inference: str, to: str, direction: str, out, params=None, options=None) -> dict:
    return export_files(files, inference, params or EvaluateParams(), options or {}, to, direction, out, "cpu")


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("to", TO)
@pytest.mark.parametrize("bank", ["transductive", "inductive"])
def test_plain_search_over_every_format_ranks_as_the_criterion(files, with_bank, tmp_path, to, bank, direction):
    given = files if bank == "transductive" else with_bank
    manifest = exported(given, "csls", to, direction, tmp_path / "out")
    assert manifest["transductive"] == (bank == "transductive")
    evaluate_files(given, ["csls", "nns"], EvaluateParams(), {}, "cpu", tmp_path / "e")
    wanted = tops(tmp_path / "e" / "csls", direction)
    assert wanted != tops(tmp_path / "e" / "nns", direction)
    assert same(found(tmp_path / "out", to, direction), wanted)


@pytest.mark.parametrize("direction", DIRECTIONS)
@pytest.mark.parametrize("bank", ["transductive", "inductive"])
@pytest.mark.parametrize("inference", FOLDABLE)
def test_plain_search_ranks_as_every_criterion(files, with_bank, tmp_path, inference, bank, direction):
    given = files if bank == "transductive" else with_bank
    # 24 queries at the default 30 leave items of which one query has all the attention: differences below float32.
    options = {"is": INFERENCES.options("is")(beta=8.0)}
    exported(given, inference, "npy", direction, tmp_path / "out", options=options)
    evaluate_files(given, [inference], EvaluateParams(), options, "cpu", tmp_path / "e")
    assert same(found(tmp_path / "out", "npy", direction), tops(tmp_path / "e" / inference, direction))


def test_an_export_fits_no_probability_and_needs_no_validation_data_for_one(files, tmp_path):
    params = EvaluateParams(calibrate="platt")
    manifest = exported(files, "csls", "npy", "text_to_image", tmp_path / "out", params)
    assert manifest["inference"] == "csls"


def test_the_manifest_says_where_it_comes_from(files, tmp_path):
    manifest = exported(files, "sinkhorn", "npy", "text_to_image", tmp_path / "out")
    assert manifest == json.loads((tmp_path / "out" / "manifest.json").read_text())
    assert manifest["parameters"] == {"tau": 0.05, "tolerance": 1e-3, "max_iterations": 500}
    assert (manifest["items"], manifest["queries"], manifest["dimensions"]) == (24, 60, 17)
    assert (manifest["inference"], manifest["bank"], manifest["direction"]) == ("sinkhorn", "test", "text_to_image")
    assert manifest["sources"] == {str(path): sha256(path) for path in (files.images, files.captions)}
    assert manifest["scale"] == pytest.approx(20.0)
    assert 0 <= manifest["notes"]["residual"] <= 1e-3


def test_the_same_input_gives_the_same_bytes_and_an_export_replaces_an_export(files, tmp_path):
    written = []
    for _ in range(2):
        exported(files, "is", "npy", "text_to_image", tmp_path / "out")
        written.append({path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()})
    assert written[0] == written[1]
    exported(files, "is", "parquet", "text_to_image", tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"items.parquet", "queries.parquet", "manifest.json"}


def test_captions_need_no_image_and_one_bank_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(sample(seed=1, first=500), tmp_path, prefix="bank_")
    files = replace(write_npy(sample(), tmp_path), caption_images=None, bank_captions=tmp_path / "bank_b.parquet")
    manifest = exported(files, "nnn", "npy", "text_to_image", tmp_path / "out")
    assert (manifest["bank"], manifest["transductive"]) == (str(files.bank_captions), False)
    with pytest.raises(UsageError, match="the bank has no queries for image_to_text; give --bank-images"):
        exported(files, "nnn", "npy", "image_to_text", tmp_path / "other")
    with pytest.raises(InputError, match="the bank is empty"):
        exported(files, "dual_is", "npy", "text_to_image", tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_parameters_are_chosen_for_the_direction(files, tmp_path):
    write(sample(dim=16, seed=2, first=500), tmp_path, prefix="val_")
    given = replace(files, val_images=tmp_path / "val_a.parquet", val_captions=tmp_path / "val_b.parquet")
    params = EvaluateParams(tune=True)
    chosen = evaluate_files(given, ["csls"], params, {}, "cpu")["csls"]["tuned"]
    for direction in DIRECTIONS:
        manifest = exported(given, "csls", "npy", direction, tmp_path / "out", params)
        assert manifest["parameters"]["k"] == chosen[direction]["k"]


@pytest.mark.parametrize("inference", ["gm", "rgm", "is+rgm", "qb_norm", "mutual_proximity"])
def test_what_is_more_than_one_number_an_item_is_refused(files, tmp_path, inference):
    able = "csls, dual_is, is, nnn, nns, sinkhorn"
    with pytest.raises(UsageError, match=f"cannot be exported; these can: {able}"):
        exported(files, inference, "npy", "text_to_image", tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"to": "fais"}, "unknown export target 'fais'; did you mean 'faiss'"),
        ({"to": "csv"}, "unknown export target 'csv'; known: clip_retrieval, faiss, npy, parquet, trec"),
        ({"direction": "text_to_text"}, "unknown direction 'text_to_text'; did you mean"),
        ({"params": EvaluateParams(protocol="folds")}, "an export has no folds"),
        ({"params": EvaluateParams(tune=True)}, "csls: parameters are to be chosen and there is nothing"),
    ],
)
def test_wrong_options_are_refused_before_any_work(files, tmp_path, changes, message):
    options = {"inference": "csls", "to": "npy", "direction": "text_to_image", "out": tmp_path / "out"} | changes
    with pytest.raises(UsageError, match=message):
        exported(files, **options)
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_replaced_before_its_digest_is_taken_is_refused(files, tmp_path, monkeypatch):
    other, read = write(sample(dim=16, seed=1), tmp_path, prefix="other_"), external.read_files
    monkeypatch.setattr(
        external, "read_files", lambda *of, **how: (read(*of, **how), other.images.replace(files.images))[0]
    )
    with pytest.raises(IntegrityError, match=r"a\.parquet: written anew while it was read; run the same command again"):
        exported(files, "is", "npy", "text_to_image", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_with_other_things_is_not_replaced(files, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "thesis.tex").write_text("years of work")
    with pytest.raises(UsageError, match="exists and is not an export"):
        exported(files, "is", "npy", "text_to_image", tmp_path / "out")
    with pytest.raises(UsageError, match=r"thesis\.tex is a file; choose a folder"):
        exported(files, "is", "npy", "text_to_image", tmp_path / "out" / "thesis.tex" / "sub")
    assert (tmp_path / "out" / "thesis.tex").read_text() == "years of work"


def test_a_failure_leaves_nothing(files, tmp_path, monkeypatch):
    def broken(folder, content):
        (folder / "items.npy").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setitem(TARGETS, "npy", broken)
    with pytest.raises(OSError, match="No space left"):
        exported(files, "is", "npy", "text_to_image", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir() if path.is_dir()] == []


def test_without_its_package_a_target_names_the_extra(files, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    wanted = r"--to faiss needs the package faiss-cpu, which is not installed: pip install 'vse-pipe\[faiss\]'"
    with pytest.raises(MissingResource, match=wanted):
        exported(files, "is", "faiss", "text_to_image", tmp_path / "out")


def test_a_run_is_exported_under_its_parameters(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_run(*sides({"train": 30, "val": 20, "test": 24}))
    params = load_params(tmp_path, evaluate={"bank": "train"}, inference={"csls": {"k": 3}})
    manifest = export_run(params, "sum", "csls", "npy", "text_to_image", tmp_path / "out", "cpu")
    assert (manifest["run"], manifest["bank"], manifest["parameters"]["k"]) == ("sum", "train", 3)
    evaluate(params, "sum", ["csls"], "cpu")
    wanted = tops(tmp_path / "data" / "evaluate" / "sum" / "csls", "text_to_image")
    assert same(found(tmp_path / "out", "npy", "text_to_image"), wanted)


def test_a_similarity_that_is_no_inner_product_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    images, captions = sides({"test": 24})
    write_run(
        replace(images, about=images.about | {"similarity": "order"}),
        replace(captions, about=captions.about | {"similarity": "order"}),
    )
    monkeypatch.setattr(Embedded, "similarity", lambda self: torch.matmul)
    with pytest.raises(
        UsageError, match="run 'sum' compares by order, which is no inner product; export works for: cosine"
    ):
        export_run(load_params(tmp_path), "sum", "is", "npy", "text_to_image", tmp_path / "out", "cpu")
