"""vse-pipe evaluate on files that cannot be used: the message and the status of every fault."""

import json
import re
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests import bombs
from tests.commands.options import arguments
from tests.evaluate.files import sample, write, write_npy
from tests.hostile import Hostile


def test_a_collapsed_model_is_named_and_scores_next_to_nothing(call, tmp_path):
    one = sample()
    flat = one.but(images=np.ones_like(one.images), captions=np.ones_like(one.captions))
    files = write(flat, tmp_path)
    status, out, err = call("evaluate", *arguments(files), "--inference", "nns,is,csls", "--json")
    assert status == 0
    assert err.count("the model has collapsed") == 2
    assert all(document["text_to_image"]["r@1"] <= 10 for document in json.loads(out).values())


FAULTS = [
    ("nan", 3, "a.parquet: 2 rows hold NaN or infinite values: image_id"),
    ("twice", 3, "b.parquet: 1 caption_ids occur more than once: caption_id 5059"),
    ("no_image", 3, "b.parquet: captions of 1 images that"),
    ("no_caption", 3, "a.parquet: 1 images without a caption in"),
    ("widths", 3, "b.parquet: vectors of 5 values, those of"),
    ("zero", 3, "b.parquet: 1 rows have length zero and no cosine; leave them out, or use --similarity dot"),
    ("strings", 3, "the image_ids are numbers, those of "),
    ("integers", 3, "a.parquet: column 'embedding' is"),
    ("truncated", 5, "a.parquet: damaged Parquet file"),
    ("empty", 3, "a.parquet: the file is empty"),
    ("rows", 3, "a.parquet: no rows"),
]


def break_it(fault: str, one, tmp_path):
    changed = {
        "nan": lambda: one.but(images=np.where(np.arange(24)[:, None] < 2, np.nan, one.images)),
        "twice": lambda: one.but(caption_ids=np.r_[one.caption_ids[:1], one.caption_ids[:-1]]),
        "no_image": lambda: one.but(owners=np.r_[999, one.owners[1:]]),
        "no_caption": lambda: one.but(image_ids=np.r_[one.image_ids, 999], images=one.images[[*range(24), 0]]),
        "zero": lambda: one.but(captions=np.where(np.arange(60)[:, None] == 3, 0, one.captions)),
        "strings": lambda: one.but(image_ids=np.char.add("x", one.image_ids.astype(str)).astype(object)),
        "rows": lambda: one.but(image_ids=one.image_ids[:0], images=one.images[:0]),
    }
    files = write(changed.get(fault, lambda: one)(), tmp_path)
    if fault == "widths":
        write(one.but(captions=one.captions[:, :5]), tmp_path, pa.list_(pa.float32()))
    if fault == "integers":
        write(one.but(images=np.ones((24, 8))), tmp_path, pa.list_(pa.int64()))
    if fault == "truncated":
        files.images.write_bytes(files.images.read_bytes()[:-100])
    if fault == "empty":
        files.images.write_bytes(b"")
    return files


@pytest.mark.parametrize(("fault", "status", "message"), FAULTS, ids=[fault for fault, _, _ in FAULTS])
def test_each_fault_has_its_message_and_status(call, tmp_path, fault, status, message):
    files = break_it(fault, sample(), tmp_path)
    got, out, err = call("evaluate", *arguments(files), "--out", "out")
    assert got == status, err
    assert message in err
    assert err.startswith("error: ")
    assert (err.count("\n"), out) == (1, "")
    assert not (tmp_path / "out").exists()


USAGE = [
    (("--images", "a.npy"), "--images and --captions go together"),
    (("--qrels", "cxc"), "options for vectors of your own need --images and --captions"),
    (("--run", "sum", "--images", "a.npy", "--captions", "b.npy"), "--run and --images exclude each other"),
    (("--images", "a.csv", "--captions", "b.npy"), "a.csv: unknown kind of file '.csv'; known: .parquet, .npy"),
    (
        ("--images", "a.npy", "--captions", "b.npy", "--inference", "cls"),
        "unknown inference criterion 'cls'; did you mean 'csls'",
    ),
    (("--images", "a.npy", "--captions", "b.npy", "--similarity", "l2"), "unknown similarity 'l2'; known: cosine, dot"),
    (
        ("--images", "a.npy", "--captions", "b.npy", "--bank-images", "c.npy"),
        "--bank-images and --bank-captions go together",
    ),
    (
        ("--images", "a.npy", "--captions", "b.npy", "--val-images", "c.npy"),
        "--val-images and --val-captions go together",
    ),
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
    ],
)
def test_overrides_are_checked_as_params_yaml_is(call, tmp_path, override, message):
    files = write(sample(), tmp_path)
    status, _, err = call("-S", override, "evaluate", *arguments(files), "--inference", "csls,is")
    assert status == 2
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
    status, _, err = call("evaluate", *arguments(files), "--inference", "is+rgm")
    assert status == 3
    where = "validation data" if shared == "val" else "--bank-images, --bank-captions"
    assert err.startswith(f"error: {where}: the bank holds 24 of the vectors that are ranked")


def test_an_array_that_runs_code_is_refused(call, tmp_path):
    files = write_npy(sample(), tmp_path)
    np.save(files.captions, np.array([Hostile(tmp_path / "pwned.txt")], dtype=object), allow_pickle=True)
    status, out, err = call("evaluate", *arguments(files), "--json")
    assert (status, out) == (3, "")
    assert "b.npy: holds pickled Python objects, which are never loaded" in err
    assert not (tmp_path / "pwned.txt").exists()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("a.npy", "a.npy: not a whole .npy file (790 bytes, its header promises 896"),
        ("owners.npy", "owners.npy: not a whole .npy file (502 bytes, its header promises 608"),
        ("captions.txt", "captions.txt: 39 ids for the 60 vectors of"),
    ],
)
def test_a_truncated_file_is_refused(call, tmp_path, name, message):
    files = write_npy(sample(), tmp_path)
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes()[:-106])
    status, out, err = call("evaluate", *arguments(files), "--json")
    assert (status, out, err.count("\n")) == (3, "", 1)
    assert message in err


def test_captions_need_to_say_what_they_describe(call, tmp_path):
    files = replace(write_npy(sample(), tmp_path), caption_images=None)
    status, _, err = call("evaluate", *arguments(files))
    assert status == 3
    assert "nothing says which caption belongs to which image; give --caption-images or --qrels" in err


def test_parameters_are_not_chosen_on_what_is_ranked(call, tmp_path):
    files = write(sample(), tmp_path)
    both = replace(files, val_images=files.images, val_captions=files.captions)
    status, _, err = call("evaluate", *arguments(both), "--inference", "rgm")
    assert status == 3
    assert err.startswith("error: validation data: the split holds 24 of the vectors that are ranked")


def test_a_bank_of_the_ranked_vectors_under_other_ids_is_noticed(call, tmp_path):
    one = sample()
    write(
        one.but(image_ids=one.image_ids + 9000, owners=one.owners + 9000, caption_ids=one.caption_ids + 9000),
        tmp_path,
        prefix="bank_",
    )
    bank = {"bank_images": tmp_path / "bank_a.parquet", "bank_captions": tmp_path / "bank_b.parquet"}
    status, _, err = call("evaluate", *arguments(replace(write(one, tmp_path), **bank)), "--inference", "is")
    assert status == 0
    assert "24 of the 24 images that are ranked are in the bank too, under other ids" in " ".join(err.split())


@pytest.mark.parametrize(
    ("override", "bound"),
    [
        ("inference.is.beta=1e300", "less than or equal to 10000"),
        ("inference.is.beta=1e-6", "greater than or equal to 0.01"),
        ("inference.is.beta=.inf", "finite number"),
        ("inference.sinkhorn.tau=1e-38", "greater than or equal to 0.0001"),
        ("inference.nnn.alpha=1e300", "less than or equal to 100"),
    ],
)
def test_parameters_beyond_single_precision_are_refused(call, tmp_path, override, bound):
    status, _, err = call("-S", override, "evaluate", *arguments(write(sample(), tmp_path)))
    assert status == 2
    assert bound in err


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
    status, _, err = call("evaluate", *arguments(files), "--inference", "nns", "--out", ".")
    assert status == 0, err
    assert (tmp_path / "here" / "nns" / "metrics.json").is_file()


def test_a_column_that_occurs_twice(call, tmp_path):
    files = write(sample(), tmp_path)
    table = pq.read_table(files.images)
    pq.write_table(table.append_column("image_id", table["image_id"]), files.images)
    status, _, err = call("evaluate", *arguments(files))
    assert (status, "column 'image_id' occurs 2 times" in err) == (3, True)


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
    status, _, err = call("evaluate", *arguments(files))
    assert status == 3
    assert "b.parquet: vectors of 8 values of run b (model bbbbbbbbbbbb), those of " in err
    assert "a.parquet have 8 of run a (model aaaaaaaaaaaa); both must come from one model" in err
