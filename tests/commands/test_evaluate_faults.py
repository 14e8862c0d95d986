"""`vse-pipe evaluate` on files that cannot be used: one message and one status for each fault."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests import bombs
from tests.command_line import failure, output
from tests.commands.script import arguments
from tests.evaluate.files import sample, write, write_npy


def test_a_collapsed_model_is_named_and_scores_next_to_nothing(call, tmp_path):
    one = sample()
    flat = one.but(images=np.ones_like(one.images), captions=np.ones_like(one.captions))
    files = write(flat, tmp_path)
    out, err = output(call, "evaluate", *arguments(files), "--inference", "nns,is,csls", "--json")
    assert err.count("the model has collapsed") == 2
    assert all(document["text_to_image"]["r@1"] <= 10 for document in json.loads(out).values())


@pytest.mark.parametrize(
    ("changes", "status", "message"),
    [
        (lambda one: {"images": np.full_like(one.images, np.nan)}, 3, "a.parquet: 24 rows hold NaN or infinite values"),
        (lambda one: {"owners": np.r_[999, one.owners[1:]]}, 3, "b.parquet: captions of 1 images that"),
        (lambda one: {}, 5, "a.parquet: damaged Parquet file"),
    ],
)
def test_a_fault_is_one_line_with_its_status(call, tmp_path, changes, status, message):
    """All faults of files: tests/evaluate."""
    one = sample()
    files = write(one.but(**changes(one)), tmp_path)
    if status == 5:
        files.images.write_bytes(files.images.read_bytes()[:-100])
    found, out, err = call("evaluate", *arguments(files), "--out", "out")
    assert found == status, err
    assert message in err
    assert err.startswith("error: ")
    assert (err.count("\n"), out) == (1, "")
    assert not (tmp_path / "out").exists()


FILES = ("--images", "a.npy", "--captions", "b.npy")
USAGE = [
    (("--images", "a.npy"), "--images and --captions go together"),
    (("--qrels", "cxc"), "options for vectors of your own need --images and --captions"),
    (("--run", "sum", *FILES), "--run and --images exclude each other"),
    (("--images", "a.csv", "--captions", "b.npy"), "a.csv: unknown kind of file '.csv'; known: .parquet, .npy"),
    ((*FILES, "--inference", "cls"), "unknown inference criterion 'cls'; did you mean 'csls'"),
    ((*FILES, "--similarity", "l2"), "unknown similarity 'l2'; known: cosine, dot"),
    ((*FILES, "--bank-images", "c.npy"), "--bank-images and --bank-captions go together"),
    ((*FILES, "--val-images", "c.npy"), "--val-images and --val-captions go together"),
    (("--images", "a.parquet", "--captions", "b.npy", "--image-ids", "c.npy"), "--image-ids belongs to .npy files"),
]


@pytest.mark.parametrize(("given", "message"), USAGE, ids=[message for _, message in USAGE])
def test_options_that_do_not_go_together_are_status_2(call, given, message):
    status, out, err = call("evaluate", *given)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("evaluate.tie=average", "--set evaluate.tie: unknown key; did you mean 'ties'?"),
        (
            "evaluate.ties=worst",
            "--set evaluate.ties: input should be 'pessimistic', 'average' or 'optimistic', got 'worst'",
        ),
        ("inference.csls.k=none", "--set inference.csls.k: input should be a valid integer, got 'none'"),
        ("inference.cls.k=3", "--set inference.cls: unknown inference criterion 'cls'; did you mean 'csls'"),
        ("train.lr=1", "--set train: unknown key"),
        ("inference=3", "--set inference: input should be a valid dictionary, got 3"),
        ("evaluate.bank=train", "evaluate.bank and evaluate.split name parts of a run"),
        (
            "evaluate.calibrate=platt",
            "evaluate.calibrate fits a probability on validation data and there is none; give --val-i",
        ),
        ("evaluate.tune=true", "csls, is: parameters are to be chosen and there is nothing to choose them on"),
        # Beyond single precision.
        ("inference.is.beta=1e300", "--set inference.is.beta: input should be less than or equal to 10000"),
        ("inference.is.beta=1e-6", "--set inference.is.beta: input should be greater than or equal to 0.01"),
        ("inference.is.beta=.inf", "--set inference.is.beta: input should be a finite number"),
        (
            "inference.sinkhorn.tau=1e-38",
            "--set inference.sinkhorn.tau: input should be greater than or equal to 0.0001",
        ),
        ("inference.nnn.alpha=1e300", "--set inference.nnn.alpha: input should be less than or equal to 100"),
    ],
)
def test_overrides_are_checked_as_params_yaml_is(call, tmp_path, override, message):
    files = write(sample(), tmp_path)
    err = failure(call, 2, "-S", override, "evaluate", *arguments(files), "--inference", "csls,is")
    assert err.startswith(f"error: {message}"), err


@pytest.mark.parametrize("shared", ["ranked", "val"])
def test_a_bank_with_vectors_that_are_ranked_is_refused(call, tmp_path, shared):
    write(sample(seed=1, first=500), tmp_path, prefix="val_")
    write(sample(seed=1, first=500) if shared == "val" else sample(), tmp_path, prefix="bank_")
    names = {
        f"{kind}_{side}": tmp_path / f"{kind}_{letter}.parquet"
        for kind in ("bank", "val")
        for side, letter in [("images", "a"), ("captions", "b")]
    }
    files = replace(write(sample(), tmp_path), **names)
    err = failure(call, 3, "evaluate", *arguments(files), "--inference", "is+rgm")
    where = "validation data" if shared == "val" else "--bank-images, --bank-captions"
    assert err.startswith(f"error: {where}: the bank holds 24 of the vectors that are ranked")


def test_files_that_do_not_belong_together_are_refused(call, tmp_path):
    files = replace(write_npy(sample(), tmp_path), caption_images=None)
    err = failure(call, 3, "evaluate", *arguments(files))
    assert "nothing says which caption belongs to which image; give --caption-images or --qrels" in err
    files = write(sample(), tmp_path)
    both = replace(files, val_images=files.images, val_captions=files.captions)
    err = failure(call, 3, "evaluate", *arguments(both), "--inference", "rgm")
    assert err.startswith("error: validation data: the split holds 24 of the vectors that are ranked")
    table = pq.read_table(files.images)
    pq.write_table(table.append_column("image_id", table["image_id"]), files.images)
    status, _, err = call("evaluate", *arguments(files))
    assert (status, "column 'image_id' occurs 2 times" in err) == (3, True)


def test_a_bank_of_the_ranked_vectors_under_other_ids_is_noticed(call, tmp_path):
    one = sample()
    write(
        one.but(image_ids=one.image_ids + 9000, owners=one.owners + 9000, caption_ids=one.caption_ids + 9000),
        tmp_path,
        prefix="bank_",
    )
    bank = {"bank_images": tmp_path / "bank_a.parquet", "bank_captions": tmp_path / "bank_b.parquet"}
    _, err = output(call, "evaluate", *arguments(replace(write(one, tmp_path), **bank)), "--inference", "is")
    assert "24 of the 24 images that are ranked are in the bank too, under other ids" in " ".join(err.split())


def test_a_folder_for_a_file_and_a_file_for_a_folder(call, tmp_path):
    files = write(sample(), tmp_path)
    (tmp_path / "d.parquet").mkdir()
    status, _, err = call("evaluate", *arguments(replace(files, images=tmp_path / "d.parquet")))
    assert (status, "a folder, expected" in err) == (3, True)
    (tmp_path / "taken").write_text("mine")
    status, _, err = call("evaluate", *arguments(files), "--out", str(tmp_path / "taken"))
    assert (status, "is a file; choose a folder" in err) == (2, True)
    status, _, err = call("evaluate", *arguments(files), "--out", str(tmp_path / "taken" / "sub" / "deep"))
    assert (status, f"error: --out: {tmp_path / 'taken'} is a file; choose a folder" in err) == (2, True)
    assert (tmp_path / "taken").read_text() == "mine"


def test_the_current_folder_takes_the_output(call, tmp_path, monkeypatch):
    files = write(sample(), tmp_path)
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    output(call, "evaluate", *arguments(files), "--inference", "nns", "--out", ".")
    assert (tmp_path / "here" / "nns" / "metrics.json").is_file()


def test_vectors_of_zeros_without_end(call, tmp_path):
    """20 million numbers in a few kB."""
    files = write(sample(), tmp_path)
    bombs.zeros(tmp_path / "a.parquet", rows=400, dim=50_000)
    status, out, err = call("-S", "evaluate.memory=32", "evaluate", *arguments(files))
    assert (status, out) == (3, "")
    assert re.fullmatch(
        r"error: .*a\.parquet: image_id, embedding: takes \d+ MiB in memory, more than the 32 MiB of evaluate\.memory; .*\n",
        err,
    )


def test_sides_of_two_models_are_refused_with_what_they_say_of_themselves(call, tmp_path):
    one = sample()
    files = write(one, tmp_path)
    for path, run in ((files.images, "a"), (files.captions, "b")):
        about = {"run": run, "model_sha256": 64 * run}
        pq.write_table(pq.read_table(path).replace_schema_metadata(about), path)
    err = failure(call, 3, "evaluate", *arguments(files))
    assert "b.parquet: vectors of 8 values of run b (model bbbbbbbbbbbb), those of " in err
    assert "a.parquet have 8 of run a (model aaaaaaaaaaaa); both must come from one model" in err
