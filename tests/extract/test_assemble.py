"""Shards: written, read, damaged, put together, and recognised without a network."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save

from tests.extract import project
from tests.extract.project import OUT, outputs, weights
from vse_pipe.artifacts import features
from vse_pipe.core import devices
from vse_pipe.core.errors import InputError
from vse_pipe.extract import assemble as extract_assemble
from vse_pipe.extract import stage
from vse_pipe.extract.assemble import assemble, limit
from vse_pipe.extract.job import Damaged, Failure, Job, Output, Shard, Shards, earlier_manifests, plan, tensor
from vse_pipe.project.params.typed import FeatureSet, Params

BOXES = np.ones((3, 1, 4), dtype=np.float32)
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
ABOUT = {"about": {"backbone": "x"}, "images": 3}


def written(out: Path, *numbers: int, fingerprint: str = "a" * 64) -> Shards:
    shards = Shards(out, fingerprint)
    for number in numbers:
        shards.write(number, Shard(Output(ROWS)), ABOUT)
    return shards


def one(out: Path) -> tuple[Shards, Path]:
    """Shards with a shard of number 1, and its file."""
    shards = written(out, 1)
    return shards, shards.files()[1]


def test_round_trip(tmp_path: Path) -> None:
    shards = written(tmp_path, 0)
    failed = [Failure(7, "truncated", "é.jpg: ends after 3 bytes")]
    shards.write(12, Shard(Output(ROWS.astype(np.float16), BOXES), failed), ABOUT)
    shards.write(13, Shard(None, failed), ABOUT)
    again = Shards(tmp_path, "a" * 64)
    files = again.files()
    assert sorted(files) == [0, 12, 13]
    assert np.array_equal(again.rows(0, files[0])["features"], ROWS)
    assert again.rows(12, files[12])["features"].dtype == np.float16
    assert again.rows(13, files[13]) == {}
    assert np.array_equal(tensor(files[12], "boxes"), BOXES)
    assert tensor(files[0], "boxes") is None
    expected = {**ABOUT, "shard": 12, "rows": 3, "failures": failed, "fingerprint": "a" * 64}
    assert again.manifest(12, files[12]) == expected
    assert again.manifest(13, files[13])["rows"] == 0
    assert [one["about"] for one in earlier_manifests(tmp_path).values()] == [{"backbone": "x"}]
    twin = written(tmp_path / "twin", 0).files()[0]
    assert (twin.name, twin.read_bytes()) == (files[0].name, files[0].read_bytes())
    again.remove()
    assert ([path.name for path in tmp_path.iterdir()], again.files()) == (["twin"], {})


@pytest.mark.parametrize("place", [0, 9, 60, -1])
def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path, place: int) -> None:
    shards, path = one(tmp_path)
    flip(path, place)
    with pytest.raises(Damaged, match=r"000001-.*: its content does not match the digest in its name") as error:
        shards.rows(1, path)
    assert error.value.number == 1


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)


def test_cut_short_gone_or_under_another_number(tmp_path: Path) -> None:
    shards, path = one(tmp_path)
    moved = path.rename(path.with_name(path.name.replace("000001", "000002")))
    with pytest.raises(Damaged, match="that of another shard"):
        shards.manifest(2, moved)
    path = moved.rename(path)
    path.write_bytes(path.read_bytes()[:100])
    for read in (shards.manifest, shards.rows):
        with pytest.raises(Damaged):
            read(1, path)
    assert earlier_manifests(tmp_path) == {}
    shards.drop(1)
    shards.drop(1)
    with pytest.raises(Damaged, match="cannot be read"):
        shards.rows(1, path)


def test_tidy_leaves_nothing_but_the_shards_of_this_extraction(tmp_path: Path) -> None:
    written(tmp_path, 0, 1, fingerprint="b" * 64)
    shards, path = one(tmp_path)
    path.with_name(f".{path.name}.17.tmp").write_bytes(b"half")
    (tmp_path / "shards" / "note").write_text("no folder")
    shards.tidy()
    assert [found.name for found in sorted((tmp_path / "shards").rglob("*"))] == ["a" * 16, path.name]


@pytest.mark.parametrize("cut", [1, 24])
def test_another_file_under_a_digest_that_fits_is_damaged_too(tmp_path: Path, cut: int) -> None:
    shards, path = one(tmp_path)
    path = fitting(path, path.read_bytes()[:-cut])
    with pytest.raises(Damaged, match="holds no tensors that can be read"):
        shards.rows(1, path)


def fitting(path: Path, content: bytes) -> Path:
    """The shard with this content, under a name with its digest."""
    path.unlink()
    path = path.with_name(f"{path.name[:6]}-{hashlib.sha256(content).hexdigest()[:16]}.safetensors")
    path.write_bytes(content)
    return path


def job() -> Job:
    """Nine images in shards of 4, 4 and 1; image_ids 59, 52, ... 3."""
    return planned(project.params("random_filters"))


def planned(params: Params, seed: int = 1) -> Job:
    return plan(params.features["small"], seed, torch.device("cpu"))


def filled(work: Job, without: set[int] = frozenset()) -> Shards:
    """All shards, each row full of its image_id; regions of two with boxes; the images ``without`` have none."""
    shards = Shards(OUT, work.shards_digest)
    for number in range(work.count):
        every = work.ids(number).to_pylist()
        values = np.array([i for i in every if i not in without], dtype=np.float32)[:, None, None]
        failures = [Failure(i, "truncated", f"{i} is cut") for i in every if i in without]
        rows = Output(np.tile(values, (1, 2, 3)), np.tile(values, (1, 2, 4))) if len(values) else None
        shards.write(number, Shard(rows, failures), work.manifest(number))
    return shards


@pytest.mark.parametrize("without", [set(), {59}, {52, 3}, {45, 31, 24, 17, 10}, {59, 52, 45, 38, 3}])
def test_images_without_features_are_left_out_with_their_reason(tiny: Path, without: set[int]) -> None:
    work = job()
    assemble(work, filled(work, without), OUT)
    found = features.read(OUT)
    ids = work.table["image_id"].to_pylist()
    kept = [i for i in ids if i not in without]
    assert found.image_ids.tolist() == kept
    assert found.array[found.rows, 0, 0].tolist() == found.boxes[found.rows, 1, 3].tolist() == kept
    assert len(found.array) == len(kept)
    index = pq.read_table(OUT / "index.parquet").to_pylist()
    assert [row["image_id"] for row in index] == ids
    for row in index:
        lost = row["image_id"] in without
        assert (row["row"] is None) == (row["boxes"] is None) == lost
        assert (row["status"], row["detail"]) == (("truncated", f"{row['image_id']} is cut") if lost else ("ok", ""))


def test_no_image_at_all_is_an_error_that_says_why(tiny: Path) -> None:
    work = job()
    shards = filled(work, set(work.table["image_id"].to_pylist()))
    with pytest.raises(InputError, match="none of its 9 images has features, the first for this reason: 59 is cut"):
        assemble(work, shards, OUT)
    assert not (OUT / "features.npy").exists()


@pytest.mark.parametrize("change", [{"images": 3}, {"contents": [[1, "x"]] * 4}, {"of": 4}, {"about": {"seed": 2}}])
def test_shards_of_other_images_are_not_taken(tiny: Path, change: dict) -> None:
    work, shards = job(), filled(job())
    shards.drop(1)
    rows = Output(np.ones((4, 2, 3), np.float32), np.ones((4, 2, 4), np.float32))
    shards.write(1, Shard(rows), {**work.manifest(1), **change})
    with pytest.raises(Damaged, match="does not fit") as error:
        assemble(work, shards, OUT)
    assert error.value.number == 1


@pytest.fixture
def shards_alone(tiny: Path) -> dict[str, bytes]:
    """What an extraction makes that was then interrupted before it put its shards together."""
    whole = project.extract("random_filters")
    shutil.rmtree(OUT)

    def stopped(*args) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(stage.assemble, "assemble", stopped)
        project.extract("random_filters")
    assert {name.split("/")[0] for name in outputs()} == {"shards"}
    return whole


def test_a_damaged_shard_is_computed_again(shards_alone: dict[str, bytes], computed: list[int], capsys) -> None:
    flip(sorted((OUT / "shards").glob("*/*"))[1], -1)
    computed.clear()
    assert project.extract("random_filters") == shards_alone
    assert computed == [4]
    assert "does not match the digest in its name; computing shard 1 again" in capsys.readouterr().err


def test_shards_of_another_fingerprint_are_replaced(shards_alone: dict[str, bytes]) -> None:
    found = project.extract("random_filters", filters=16)
    assert json.loads(found["meta.json"])["shape"] == [9, 32]
    assert sorted(found) == project.WRITTEN


LIES = {
    "other tensors": ({"x": np.ones((4, 2, 3), np.float32)}, {}),
    "fewer rows": ({"features": np.ones((3, 2, 3), np.float32)}, {}),
    "fewer boxes": ({"features": np.ones((4, 2, 3), np.float32), "boxes": np.ones((1, 2, 4), np.float32)}, {}),
    "no array of rows": ({"features": np.ones((), np.float32)}, {}),
    "rows in words": (None, {"rows": "4"}),
    "negative rows": (None, {"rows": -1, "failures": [[59, "truncated", "x"]] * 5}),
    "one failure twice": (None, {"rows": 2, "failures": [[59, "truncated", "x"]] * 2}),
    "a failure of another shard": (None, {"rows": 3, "failures": [[3, "truncated", "x"]]}),
    "a failure that is no number": (None, {"rows": 3, "failures": [[[1], "truncated", "x"]]}),
}


@pytest.mark.parametrize(("tensors", "told"), LIES.values(), ids=LIES)
def test_a_shard_that_lies_under_a_digest_that_fits_is_damaged(tiny: Path, tensors, told) -> None:
    work, shards = job(), filled(job())
    path = shards.files()[0]
    manifest = {**shards.manifest(0, path), **told}
    fitting(path, save(tensors or shards.rows(0, path), {"manifest": json.dumps(manifest)}))
    with pytest.raises(Damaged) as caught:
        assemble(work, shards, OUT)
    assert caught.value.number == 0
    assert not (OUT / "meta.json").exists()


@pytest.mark.parametrize(("on_error", "max_errors", "images", "expected"), [
    ("fail", 5, 100, 0), ("skip", 5, 100, 5), ("skip", 0, 100, 0), ("skip", 0.01, 123_287, 1233), ("skip", 0.01, 1, 1),
])  # fmt: skip
def test_limit(on_error: str, max_errors: float, images: int, expected: int) -> None:
    assert limit(FeatureSet("d", None, on_error, max_errors), images) == expected


def about(params: Params, seed: int = 1) -> dict:
    """As meta.json has it: what the network says, through JSON."""
    return json.loads(json.dumps(planned(params, seed).about))


def settled(about: dict, params: Params, seed: int = 1) -> bool:
    return extract_assemble.is_settled(about, params.features["small"], seed, "cpu")


def test_what_extract_wrote_is_settled(tiny: Path) -> None:
    meta = json.loads(project.extract()["meta.json"])
    found = {key: value for key, value in meta.items() if key not in features.WRITTEN}
    assert found == about(project.params())
    assert settled(found, project.params())


@pytest.mark.parametrize("options", [dict, weights, lambda: {"precision": "float32"}], ids=["", "weights", "precision"])
def test_the_same_options_are_the_same(tiny: Path, options: Callable[[], dict]) -> None:
    options = options()
    first = about(project.params(**options))
    for more in ({}, {"shard_size": 40}):
        assert settled(first, project.params(**options, **more))
    # Another seed only matters for random weights.
    assert settled(first, project.params(**options), seed=2) == ("weights" in options)


def test_other_options_are_not(tiny: Path) -> None:
    first = about(project.params())
    for change in ({"image_size": 40}, {"batch_size": 5}, {"normalise": False}, {"store": "float16"}):
        assert not settled(first, project.params(**change)), change


def test_a_weights_file_is_read_again(tiny: Path) -> None:
    params = project.params(**weights())
    first = about(params)
    Path("own.pth").write_bytes(Path("own.pth").read_bytes() + b"\0")
    assert not settled(first, params)
    Path("own.pth").unlink()
    assert not settled(first, params)


def test_other_images_code_and_libraries(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    params = project.params()
    first = about(params)
    for key, value in [
        ("code_sha256", "0" * 64),
        ("libraries", {**first["libraries"], "torch": "1.0"}),
        ("libraries", {"no-such-library": "1"}),
        ("libraries", None),
        ("precision", "bfloat16" if first["precision"] == "float32" else "float32"),
        ("device", "cuda"),
        ("files", [{"file": "a.tsv", "sha256": "0" * 64}]),
    ]:
        assert not settled({**first, key: value}, params), key
    assert not settled({}, params)
    project.prepared(Path("raw"), ["001.png"])
    assert not settled(first, params)
    Path("data/prepare/tiny/images.parquet").unlink()
    assert not settled(first, params)


def test_precision_auto_is_what_torch_makes_of_it(tiny: Path) -> None:
    node = project.params().features["small"]
    expected = devices.resolve_precision("auto", torch.device("cpu"))
    assert extract_assemble._precision(node, "cpu", "?") == expected
    assert extract_assemble._precision(project.params("random_filters").features["small"], "cpu", "x") == "x"
    assert extract_assemble._precision(node, "cuda", "bfloat16") is None
