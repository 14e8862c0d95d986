"""Every byte counts: each kind of file is damaged in turn, and what is said names it and what to do."""

import hashlib
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.made import record
from vse_pipe.artifacts import fragments, images
from vse_pipe.core.errors import UsageError
from vse_pipe.core.files import save_tensors, sha256
from vse_pipe.project import lock
from vse_pipe.tools.verify.finding import DAMAGED, IN_LOCK, MISSING, OK, UNKNOWN
from vse_pipe.tools.verify.stage import verify


def _flip(path: Path) -> None:
    """One bit, of a Parquet file in its last page: checksums of pages speak for data, not for the footer."""
    content = bytearray(path.read_bytes())
    place = len(content) // 2
    if path.suffix == ".parquet":
        group = pq.read_metadata(path).row_group(0)
        column = group.column(group.num_columns - 1)
        place = column.data_page_offset + column.total_compressed_size - 2
        if column.has_dictionary_page:
            place = column.dictionary_page_offset + column.total_compressed_size - 2
    content[place] ^= 1
    path.chmod(0o644)
    path.write_bytes(content)


def _bad() -> dict[str, tuple[str, str]]:
    return {str(f.path): (f.state, f.remedy) for one in verify([]) for f in one.findings if f.bad}


def _states() -> dict[str, str]:
    return {str(f.path): f.by if f.state == OK else f.state for one in verify([]) for f in one.findings}


def test_without_a_record_of_dvc_files_keep_what_they_have(made):
    found = _states()
    assert found["data/extract/toy/plain/features.npy"] == "sha256"
    assert found["data/extract/toy/words/tokens.npy"] == "sha256"
    assert found["data/train/sum/model.safetensors"] == "sha256"
    assert found["data/train/sum/last/state.safetensors"] == "a digest of its own"
    assert found["data/embed/sum/captions.parquet"] == "page checksums"
    assert found["data/inject/toy/half/pairs.parquet"] == "page checksums"
    assert {path for path, state in found.items() if state == UNKNOWN} == {
        "data/extract/toy/plain/meta.json",
        "data/extract/toy/words/meta.json",
        "data/train/sum/config.json",
        "data/train/sum/history.csv",
        "data/train/sum/last/finished.json",
        "data/evaluate/sum/nns/metrics.json",
        "data/evaluate/sum/csls/metrics.json",
    }


def test_with_it_every_file_has_one(made):
    record()
    found = _states()
    assert UNKNOWN not in found.values()
    assert found["data/train/sum/history.csv"] == IN_LOCK
    everything = {str(path) for path in Path("data").rglob("*") if path.is_file()}
    beside = {path for path in everything if path.endswith((".lock", ".timing.json"))}
    assert set(found) == everything - beside


ALL = [
    "data/prepare/toy/images.parquet",
    "data/extract/toy/plain/features.npy",
    "data/extract/toy/plain/meta.json",
    "data/extract/toy/words/vocabulary.json",
    "data/inject/toy/clean/pairs.parquet",
    "data/train/sum/model.safetensors",
    "data/train/sum/config.json",
    "data/train/sum/history.csv",
    "data/train/sum/last/state.safetensors",
    "data/embed/sum/images.parquet",
    "data/evaluate/sum/csls/metrics.json",
    "data/evaluate/sum/nns/occurrence.parquet",
]


@pytest.mark.parametrize("path", ALL)
def test_one_bit_is_found_and_the_cache_has_it_whole(made, path):
    record()
    _flip(Path(path))
    found = _bad()
    assert path in found
    assert found[path][0] == DAMAGED
    out = next(out for out in lock.Lock({}).outs if path.startswith(out))
    assert found[path][1].startswith(f"remove it and run `dvc checkout {out}`, DVC's cache has it whole")


def test_a_damaged_cache_object_is_named(made):
    """What DVC checks out of a damaged object of mode 0444 is damaged, and `dvc status` says it is up to date."""
    record()
    path = Path("data/embed/sum/captions.parquet")
    kept = lock.cached(lock.md5(path))
    _flip(kept)
    kept.chmod(0o444)
    shutil.copy(kept, path)
    (state, remedy) = _bad()[str(path)]
    assert state == DAMAGED
    assert remedy == f"remove it and the cache object {kept}, which is damaged too, and run `dvc repro embed@sum`"


def test_without_the_object_the_stage_makes_it(made):
    record()
    path = Path("data/inject/toy/clean/pairs.parquet")
    lock.cached(lock.md5(path)).unlink()
    _flip(path)
    assert _bad()[str(path)][1] == "remove it and run `dvc repro inject@clean`"


@pytest.mark.parametrize("name", ["features.npy", "index.parquet"])
def test_outside_dvc_the_command_makes_it(made, name):
    path = Path("data/extract/toy/plain") / name
    _flip(path)
    assert _bad() == {str(path): (DAMAGED, "remove it and run `vse-pipe extract --features plain`")}


@pytest.mark.parametrize("name", ["extract/toy/plain/meta.json", "train/sum/config.json"])
def test_outside_dvc_a_document_that_is_cut_off_is_damaged(made, name):
    """Nobody keeps a digest of it, and those that it kept are lost with it."""
    path = Path("data") / name
    path.write_text(path.read_text(encoding="utf-8")[:-5], encoding="utf-8")
    (finding,) = [f for one in verify([]) for f in one.findings if f.bad]
    assert (finding.path, finding.state) == (path, DAMAGED)
    assert finding.detail.startswith("not a JSON document (")


def test_a_file_that_is_gone_is_missing(made):
    Path("data/train/sum/vocabulary.json").unlink()
    assert _bad()["data/train/sum/vocabulary.json"][0] == MISSING


def test_after_a_change_other_bytes_are_no_damage(made):
    """A run by hand under other parameters: dvc.lock speaks of another file."""
    record()
    text = Path("params.yaml").read_text(encoding="utf-8")
    Path("params.yaml").write_text(text.replace("resamples: 10", "resamples: 11"), encoding="utf-8")
    _flip(Path("data/evaluate/sum/nns/metrics.json"))
    assert _bad() == {}
    assert _states()["data/evaluate/sum/nns/metrics.json"] == UNKNOWN


def test_a_folder_whose_listing_is_not_in_the_cache_is_compared_as_a_whole(made):
    record()
    shutil.rmtree(lock.cache_folder())
    assert UNKNOWN not in _states().values()
    _flip(Path("data/train/sum/history.csv"))
    assert _bad() == {"data/train/sum": (DAMAGED, "run `dvc repro --force train@sum`")}


def test_a_path_narrows_it_down(made):
    record()
    _flip(Path("data/train/sum/history.csv"))
    (one,) = verify([Path("data/train/sum/model.safetensors")])
    assert (one.state, [str(finding.path) for finding in one.findings]) == (OK, ["data/train/sum/model.safetensors"])
    assert [str(one.folder) for one in verify([Path("data/inject")])] == [
        "data/inject/toy/clean",
        "data/inject/toy/half",
    ]
    both = [Path("data/train/sum/history.csv"), Path("data/train")]
    assert [len(one.findings) for one in verify(both)] == [6]
    with pytest.raises(UsageError, match="nowhere: no such file or folder"):
        verify([Path("nowhere")])


def test_pictures_of_a_data_set_are_compared_with_its_table(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, root = Path("data/prepare/toy"), Path("photos")
    for path in (folder, root):
        path.mkdir(parents=True)
    for name in ("a.png", "b.png", "c.png"):
        (root / name).write_bytes(name.encode() * 10)
    columns = {
        "image_id": [1, 2, 3, 4, 5],
        "file": ["a.png", "b.png", "c.png", "toy_ims.npy#0", "never there.png"],
        "split": ["train"] * 5,
        "width": pa.array([1] * 5, pa.int32()),
        "height": pa.array([1] * 5, pa.int32()),
        "sha256": [*(sha256(root / name) for name in ("a.png", "b.png", "c.png")), "0", images.UNREAD],
    }
    images.write(folder, pa.table(columns), "photos")
    _flip(root / "b.png")
    (root / "c.png").unlink()
    (one,) = verify([])
    assert one.counted() == {"sha256 in images.parquet": 1, DAMAGED: 1, MISSING: 1, "page checksums": 1}
    for remedy in (finding.remedy for finding in one.findings if finding.bad):
        assert remedy == (
            "if it was changed on purpose, run `dvc repro prepare@toy` or `vse-pipe prepare --dataset toy` to take it as it is now; "
            "else put the picture back as it was"
        )


def test_pictures_in_shards_are_compared_where_they_lie(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, shard = Path("data/prepare/toy"), Path("photos/x.tar")
    for path in (folder, shard.parent):
        path.mkdir(parents=True)
    shard.write_bytes(b"".join(bytes([place]) * 100 for place in range(4)))
    pq.write_table(pa.table({"image": [b"one", b"two", None]}), "photos/y.parquet")
    contents = [b"\0" * 100, b"\1" * 100, b"\3" * 100, b"one", b"twa", b"gone", b"gone"]
    files = ["x.tar::0:100::a.png", "x.tar::100:100::b.png", "x.tar::300:100::c.png"]
    files += [f"y.parquet::{row}::image" for row in range(3)] + ["z.tar::0:4::d.png"]
    columns = {
        "image_id": range(7),
        "file": files,
        "split": ["train"] * 7,
        "width": pa.array([1] * 7, pa.int32()),
        "height": pa.array([1] * 7, pa.int32()),
        "sha256": [hashlib.sha256(content).hexdigest() for content in contents],
    }
    images.write(folder, pa.table(columns), "photos")
    (one,) = verify([])
    assert one.counted() == {"sha256 in images.parquet": 4, DAMAGED: 2, MISSING: 1, "page checksums": 1}
    with shard.open("r+b") as file:
        file.seek(150)
        file.write(b"x")
        file.truncate(399)
    found = {finding.path.name: finding for finding in verify([])[0].findings if finding.bad}
    assert set(found) == {Path(name).name for name in files[1:3] + files[4:]}
    assert "ends before c.png does" in found["x.tar::300:100::c.png"].detail
    assert "holds no bytes in column 'image'" in found["y.parquet::2::image"].detail
    assert found["x.tar::100:100::b.png"].remedy == (
        "if it was changed on purpose, run `dvc repro prepare@toy` or `vse-pipe prepare --dataset toy` to take it as it is now; "
        "else put the shard back as it was"
    )


def test_parts_and_weights_of_a_similarity_carry_their_digests(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path("vectors")
    (folder / "parts" / "abc").mkdir(parents=True)
    part = folder / "parts" / "abc" / "x.npz"
    np.savez(part, features=np.zeros(3))
    part = part.rename(part.with_name(f"000000-{sha256(part)[:16]}.npz"))
    save_tensors(folder / fragments.WEIGHTS, {"a": np.ones(3, np.float32)})
    block = fragments.FragmentRows("val", np.arange(2), np.arange(2), np.array([1, 2]), np.ones((3, 4), np.float32))
    about = {"weights_sha256": sha256(folder / fragments.WEIGHTS), "dim": "4"}
    fragments.write(folder / "images.parquet", [block], 4, about)
    (folder / "note.txt").write_text("x", encoding="utf-8")
    (one,) = verify([folder])
    assert one.counted() == {"sha256": 1, "sha256 in its name": 1, "page checksums": 1, UNKNOWN: 1}
    for path in (part, folder / fragments.WEIGHTS):
        _flip(path)
    (one,) = verify([folder])
    assert [(f.path, f.remedy) for f in one.findings if f.bad] == [
        (folder / fragments.WEIGHTS, "no stage of this project wrote it; put it back as it was"),
        (part, "no stage of this project wrote it; put it back as it was"),
    ]


def test_a_document_cannot_name_files_outside_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret").write_text("x", encoding="utf-8")
    Path("out").mkdir()
    names = {"../secret": "0", "/etc/passwd": "0", "inside": "0", "number": 5}
    Path("out/manifest.json").write_text(json.dumps({"sha256": names}), encoding="utf-8")
    (one,) = verify([Path("out")])
    assert [str(finding.path) for finding in one.findings if finding.bad] == ["out/inside"]
