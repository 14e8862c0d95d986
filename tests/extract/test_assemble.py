"""Shards: written, read, damaged, put together, and recognised without a network."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.numpy import save

from tests.extract import project
from tests.extract.test_resume import outputs
from tests.extract.test_stage import weights
from vse_pipe.artifacts import features
from vse_pipe.core.errors import InputError, PipelineError
from vse_pipe.extract import assemble as extract_assemble
from vse_pipe.extract import stage
from vse_pipe.extract.assemble import assemble, limit
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.job import Damaged, Failure, Job, Output, Shard, Shards, earlier_manifests, plan
from vse_pipe.project.params.typed import FeatureSet

BOXES = np.ones((3, 1, 4), dtype=np.float32)
ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)
ABOUT = {"about": {"backbone": "x"}, "images": 3}


def written(out: Path, *numbers: int, fingerprint: str = "a" * 64) -> Shards:
    shards = Shards(out, fingerprint)
    for number in numbers:
        shards.write(number, Shard(Output(ROWS)), ABOUT)
    return shards


def test_round_trip(tmp_path: Path) -> None:
    shards = written(tmp_path, 0)
    failed = [Failure(7, "truncated", "é.jpg: ends after 3 bytes")]
    shards.write(12, Shard(Output(ROWS.astype(np.float16), BOXES), failed), ABOUT)
    again = Shards(tmp_path, "a" * 64)
    files = again.files()
    assert sorted(files) == [0, 12]
    assert np.array_equal(again.rows(0, files[0])["features"], ROWS)
    assert again.rows(12, files[12])["features"].dtype == np.float16
    assert again.boxes_and_scores(0, files[0]) == {}
    assert np.array_equal(again.boxes_and_scores(12, files[12])["boxes"], BOXES)
    expected = {**ABOUT, "shard": 12, "rows": 3, "failures": failed, "fingerprint": "a" * 64}
    assert again.manifest(12, files[12]) == expected
    assert [one["about"] for one in earlier_manifests(tmp_path).values()] == [{"backbone": "x"}]
    again.remove()
    assert list(tmp_path.iterdir()) == []
    assert again.files() == {}


def test_a_shard_without_any_rows(tmp_path: Path) -> None:
    shards = Shards(tmp_path, "a" * 64)
    shards.write(0, Shard(None, [Failure(1, "missing", "gone")]), ABOUT)
    path = shards.files()[0]
    assert shards.rows(0, path) == {}
    assert shards.manifest(0, path)["rows"] == 0


def test_the_bytes_follow_from_the_content(tmp_path: Path) -> None:
    first, second = written(tmp_path / "1", 3).files()[3], written(tmp_path / "2", 3).files()[3]
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("place", [0, 9, 60, -1])
def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path, place: int) -> None:
    shards = written(tmp_path, 1)
    path = shards.files()[1]
    content = bytearray(path.read_bytes())
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(Damaged, match=r"000001-.*: its content does not match the digest in its name") as error:
        shards.rows(1, path)
    assert error.value.number == 1


def test_cut_short_and_gone(tmp_path: Path) -> None:
    shards = written(tmp_path, 1)
    path = shards.files()[1]
    path.write_bytes(path.read_bytes()[:100])
    for read in (shards.manifest, shards.rows):
        with pytest.raises(Damaged):
            read(1, path)
    assert earlier_manifests(tmp_path) == {}
    shards.drop(1)
    shards.drop(1)
    with pytest.raises(Damaged, match="cannot be read"):
        shards.rows(1, path)


def test_a_shard_under_another_number_is_not_taken(tmp_path: Path) -> None:
    shards = written(tmp_path, 1)
    path = shards.files()[1]
    moved = path.rename(path.with_name(path.name.replace("000001", "000002")))
    with pytest.raises(Damaged, match="that of another shard"):
        shards.manifest(2, moved)


def test_tidy_leaves_nothing_but_the_shards_of_this_extraction(tmp_path: Path) -> None:
    written(tmp_path, 0, 1, fingerprint="b" * 64)
    shards = written(tmp_path, 1)
    path = shards.files()[1]
    path.with_name(f".{path.name}.17.tmp").write_bytes(b"half")
    (tmp_path / "shards" / "note").write_text("no folder")
    assert [other.name for other in shards.strangers()] == ["b" * 16, "note"]
    shards.tidy()
    assert [found.name for found in sorted((tmp_path / "shards").rglob("*"))] == ["a" * 16, path.name]


@pytest.mark.parametrize("cut", [1, 24])
def test_another_file_under_a_digest_that_fits_is_damaged_too(tmp_path: Path, cut: int) -> None:
    shards = written(tmp_path, 0)
    path = shards.files()[0]
    content = path.read_bytes()[:-cut]
    digest = hashlib.sha256(content).hexdigest()[:16]
    path = path.with_name(f"000000-{digest}.safetensors")
    path.write_bytes(content)
    shards.manifest(0, path)  # whole, so that only the tensors are left to complain about
    with pytest.raises(Damaged, match="holds no tensors that can be read"):
        shards.rows(0, path)


def test_links_are_removed_and_what_they_lead_to_is_left_alone(tmp_path: Path) -> None:
    precious = tmp_path / "elsewhere" / "precious"
    precious.parent.mkdir()
    precious.touch()
    shards = written(tmp_path, 1)
    folder = shards.files()[1].parent
    for link in (folder.with_name("other"), folder / "inside"):
        link.symlink_to(precious.parent)
    (folder / "a folder").mkdir()
    shards.tidy()
    assert [path.name[:6] for path in folder.iterdir()] == ["000001"]
    shards.remove()
    (tmp_path / "shards").symlink_to(precious.parent)
    shards.remove()
    (tmp_path / "shards").symlink_to(precious.parent)
    shards.tidy()
    assert [path.name for path in tmp_path.iterdir()] == ["elsewhere"]
    assert precious.exists()


OUT = project.OUT


def job() -> Job:
    """Nine images in shards of 4, 4 and 1; image_ids 59, 52, ... 3."""
    node = project.params("random_filters", batch_size=4, shard_size=4).features["small"]
    return plan(node, 1, torch.device("cpu"))


def filled(work: Job, without: set[int]) -> Shards:
    """All shards, each row full of its image_id; regions of two with boxes; the images ``without`` have none."""
    shards = Shards(OUT, work.shards_digest)
    for number in range(work.count):
        ids = [i for i in work.ids(number).to_pylist() if i not in without]
        failures = [Failure(i, "truncated", f"{i} is cut") for i in work.ids(number).to_pylist() if i in without]
        values = np.array(ids, dtype=np.float32)[:, None, None]
        rows = Output(np.tile(values, (1, 2, 3)), np.tile(values, (1, 2, 4))) if ids else None
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
    assert found.array[found.rows, 0, 0].tolist() == kept
    assert found.boxes[found.rows, 1, 3].tolist() == kept
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


def test_a_disk_without_room_is_told_before_anything_is_written(tiny: Path, monkeypatch) -> None:
    work = job()
    shards = filled(work, set())
    needed = sum(path.stat().st_size for path in shards.files().values())
    usage = shutil.disk_usage(tiny)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed - 1))
    with pytest.raises(PipelineError, match=r"takes 0\.00 GB .* the shards are kept: make room"):
        assemble(work, shards, OUT)
    assert [path.name for path in OUT.iterdir()] == ["shards"]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage._replace(free=needed))
    assemble(work, shards, OUT)
    assert (OUT / "features.npy").stat().st_size <= needed


@pytest.mark.parametrize("change", [{"images": 3}, {"contents": [[1, "x"]] * 4}, {"of": 4}, {"about": {"seed": 2}}])
def test_shards_of_other_images_are_not_taken(tiny: Path, change: dict) -> None:
    work = job()
    shards = filled(work, set())
    shards.drop(1)
    rows = Output(np.ones((4, 2, 3), np.float32), np.ones((4, 2, 4), np.float32))
    shards.write(1, Shard(rows), {**work.manifest(1), **change})
    with pytest.raises(Damaged, match="does not fit") as error:
        assemble(work, shards, OUT)
    assert error.value.number == 1


def test_a_manifest_says_what_its_shard_follows_from(tiny: Path) -> None:
    work = job()
    shards = filled(work, {52})
    found = shards.manifest(0, shards.files()[0])
    assert found["about"] == work.about
    assert {"backbone", "weights", "transform", "precision", "code_sha256", "params"} <= found["about"].keys()
    assert (found["shard"], found["of"], found["rows"], found["images"]) == (0, 3, 3, 4)
    assert found["failures"] == [Failure(52, "truncated", "52 is cut")]


def test_a_damaged_shard_is_computed_again(tiny: Path, monkeypatch, capsys) -> None:
    params = project.params("random_filters", batch_size=4, shard_size=4)
    stage.extract(params, "small", "cpu")
    whole = outputs(tiny)
    interrupted_before_assembling(params, monkeypatch)
    path = sorted((OUT / "shards").glob("*/*"))[1]
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    seen = []
    run = Forward.__call__
    monkeypatch.setattr(Forward, "__call__", lambda self, batch: seen.append(len(batch)) or run(self, batch))
    stage.extract(params, "small", "cpu")
    assert seen == [4]
    assert outputs(tiny) == whole
    said = capsys.readouterr().err
    assert "does not match the digest in its name; computing shard 1 again" in said


def interrupted_before_assembling(params, monkeypatch) -> None:
    """All shards are there, and no features."""
    for path in OUT.iterdir():
        path.unlink()

    def stopped(*args) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(stage.assemble, "assemble", stopped)
        stage.extract(params, "small", "cpu")
    assert {name.split("/")[0] for name in outputs(Path.cwd())} == {"shards"}


def test_shards_of_another_fingerprint_are_replaced(tiny: Path, monkeypatch) -> None:
    params = project.params("random_filters", batch_size=4, shard_size=4)
    stage.extract(params, "small", "cpu")
    interrupted_before_assembling(params, monkeypatch)
    other = project.params("random_filters", batch_size=4, shard_size=4, filters=16)
    stage.extract(other, "small", "cpu")
    assert json.loads((OUT / "meta.json").read_text())["shape"] == [9, 32]
    assert sorted(outputs(tiny)) == ["contents.parquet", "errors.parquet", "features.npy", "index.parquet", "meta.json"]


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
    work = job()
    shards = filled(work, set())
    path = shards.files()[0]
    manifest = {**shards.manifest(0, path), **told}
    content = save(tensors or shards.rows(0, path), {"manifest": json.dumps(manifest)})
    path.unlink()
    digest = hashlib.sha256(content).hexdigest()[:16]
    path.with_name(f"000000-{digest}.safetensors").write_bytes(content)
    with pytest.raises(Damaged) as caught:
        assemble(work, shards, OUT)
    assert caught.value.number == 0
    assert not (OUT / "meta.json").exists()


@pytest.mark.parametrize(("on_error", "max_errors", "images", "expected"), [
    ("fail", 5, 100, 0),
    ("skip", 5, 100, 5),
    ("skip", 0, 100, 0),
    ("skip", 0.01, 123_287, 1233),
    ("skip", 0.01, 1, 1),
])  # fmt: skip
def test_limit(on_error: str, max_errors: float, images: int, expected: int) -> None:
    assert limit(FeatureSet("d", None, on_error, max_errors), images) == expected


def settled(about: dict, params, seed: int = 1, device: str = "cpu") -> bool:
    return extract_assemble.is_settled(about, params.features["small"], seed, device)


def found() -> dict:
    meta = json.loads((project.OUT / "meta.json").read_text())
    return {key: value for key, value in meta.items() if key not in features.WRITTEN}


def about(params, seed: int = 1) -> dict:
    """As meta.json has it: what the network says, through JSON."""
    return json.loads(json.dumps(plan(params.features["small"], seed, torch.device("cpu")).about))


def test_what_extract_wrote_is_settled(tiny: Path) -> None:
    params = project.params()
    stage.extract(params, "small", "cpu")
    assert found() == about(params)
    assert settled(found(), params)


@pytest.mark.parametrize("options", [{}, {"weights": "own.pth"}, {"precision": "float32"}])
def test_the_same_options_are_the_same(tiny: Path, options: dict) -> None:
    if "weights" in options:
        options = weights()
    params = project.params(**options)
    assert settled(about(params), params)
    assert settled(about(params), project.params(**options, shard_size=40))


@pytest.mark.parametrize("change", [{"image_size": 40}, {"batch_size": 5}, {"normalise": False}, {"store": "float16"}])
def test_other_options_are_not(tiny: Path, change: dict) -> None:
    first = about(project.params())
    assert not settled(first, project.params(**change))


def test_another_seed_only_matters_for_random_weights(tiny: Path) -> None:
    params = project.params()
    assert not settled(about(params), params, seed=2)
    given = project.params(**weights())
    assert settled(about(given), given, seed=2)


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
    from vse_pipe.core import devices

    node = project.params().features["small"]
    told = extract_assemble._precision(node, "cpu", "?")
    assert told == devices.resolve_precision("auto", torch.device("cpu"))
    assert extract_assemble._precision(project.params("random_filters").features["small"], "cpu", "x") == "x"
    assert extract_assemble._precision(node, "cuda", "bfloat16") is None


def test_device_auto(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract_assemble, "_GPUS", ())
    assert extract_assemble._kind("auto") == "cpu"
    monkeypatch.setattr(
        extract_assemble, "_GPUS", ("null",)
    )  # a machine with such a file may have a GPU: torch is asked
    expected = "cuda" if torch.cuda.is_available() else "cpu"
    assert extract_assemble._kind("auto") == expected
