"""What is kept between searches: used when it fits, made again when it does not, whole whoever writes it."""

import multiprocessing
import os
from dataclasses import replace

import numpy as np
import pytest

from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.embeddings import Side
from vse_pipe.core.errors import InputError, IntegrityError
from vse_pipe.project import paths
from vse_pipe.tools.search import gallery, stored
from vse_pipe.tools.search.engine import TO_IMAGES
from vse_pipe.tools.search.query import IMAGE, Term
from vse_pipe.tools.search.stored import Stored

CONTENT = Stored({"bias": np.arange(4.0)}, {"seconds": 1.5})


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source"
    path.write_bytes(b"one")
    return path


def test_what_was_written_is_read_for_the_same_identity_and_files(tmp_path, source):
    path, identity = tmp_path / "kept.safetensors", {"k": 10, "split": "test"}
    assert stored.read(path, identity, [source]) is None
    stored.write(path, CONTENT, identity, stored.stamped([source]))
    found = stored.read(path, identity, [source])
    assert np.array_equal(found.tensors["bias"], CONTENT.tensors["bias"])
    assert found.about == CONTENT.about
    assert stored.read(path, {"k": 11, "split": "test"}, [source]) is None
    assert stored.read(path, identity, [source, path]) is None


def test_a_touched_file_counts_and_a_changed_one_does_not(tmp_path, source):
    path = tmp_path / "kept.safetensors"
    stored.write(path, CONTENT, {}, stored.stamped([source]))
    os.utime(source, ns=(1, 1))
    assert stored.read(path, {}, [source]) is not None
    source.write_bytes(b"two")
    assert stored.read(path, {}, [source]) is None


@pytest.mark.parametrize("content", [b"", b"\xff" * 40, b"\x02\0\0\0\0\0\0\0{}"])
def test_a_damaged_file_is_said_and_made_again(tmp_path, source, capsys, content):
    path = tmp_path / "kept.safetensors"
    path.write_bytes(content)
    assert stored.read(path, {}, [source]) is None
    assert "damaged" in capsys.readouterr().err


def test_a_folder_that_cannot_be_written_is_a_warning(tmp_path, source, capsys):
    stored.write(source / "below" / "kept.safetensors", CONTENT, {}, stored.stamped([source]))
    assert "cannot be kept" in capsys.readouterr().err


def test_what_was_made_from_files_that_changed_meanwhile_is_not_kept(tmp_path, source, capsys):
    path, seen = tmp_path / "kept.safetensors", stored.stamped([source])
    source.write_bytes(b"another")
    stored.write(path, CONTENT, {}, seen)
    assert "has changed meanwhile; it is not kept" in capsys.readouterr().err
    assert not path.exists()


def test_a_gallery_knows_its_files_as_they_were_when_it_was_opened(opened):
    engine = opened("sum", "csls")
    _turned(paths.embedded("sum") / embeddings.CAPTIONS)
    with pytest.raises(IntegrityError, match="data/embed/sum: made anew while it is searched"):
        engine.correction(TO_IMAGES)
    with pytest.raises(IntegrityError, match="data/embed/sum: made anew while it is searched"):
        engine.ask((Term(IMAGE, "5"),))  # of another split than is searched
    assert not paths.searched("sum").exists()


def _write_often(path, source, value):
    for _ in range(20):
        stored.write(path, Stored({"bias": np.full(5000, value)}, {"value": value}), {}, stored.stamped([source]))


def test_two_processes_at_once_leave_one_whole_file(tmp_path, source):
    path = tmp_path / "kept.safetensors"
    fork = multiprocessing.get_context("fork")
    writers = [fork.Process(target=_write_often, args=(path, source, value)) for value in (1.0, 2.0)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        found = stored.read(path, {}, [source])
        if found is not None:
            assert (found.tensors["bias"] == found.about["value"]).all()
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert stored.read(path, {}, [source]) is not None
    assert {entry.name for entry in tmp_path.iterdir()} == {"source", "kept.safetensors"}


def test_a_correction_is_computed_once_and_kept(opened):
    first, second = opened("sum", "csls"), opened("sum", "csls")
    assert first.by_text("a red disc").hits == second.by_text("a red disc").hits
    made, found = first.correction(TO_IMAGES).about, second.correction(TO_IMAGES).about
    assert (made["kept"], found["kept"]) == (False, True)
    assert {**made, "kept": True} == found
    assert (found["bank"], found["queries"], found["items"]) == ("test", 20, 10)


def test_other_parameters_split_or_bank_are_computed_anew(opened):
    opened("sum", "csls").correction(TO_IMAGES)
    changes = [{"inference": {"csls": {"k": 3}}}, {"evaluate": {"bank": "val"}}]
    assert not any(opened("sum", "csls", **one).correction(TO_IMAGES).about["kept"] for one in changes)
    assert not opened("sum", "csls", "val").correction(TO_IMAGES).about["kept"]


def _turned(path):
    """The same file with the vectors in another order."""
    side = embeddings.read(path)
    embeddings.write(path, Side(side.ids, side.image_ids, side.splits, side.vectors[::-1].copy(), side.about))


def test_a_stale_correction_is_computed_anew(opened, project):
    before = opened("sum", "csls").correction(TO_IMAGES)
    _turned(paths.embedded("sum") / embeddings.CAPTIONS)
    after = opened("sum", "csls").correction(TO_IMAGES)
    assert after.about["kept"] is False
    assert not np.array_equal(before.bias, after.bias)


def test_large_vectors_are_unpacked_after_the_answer_and_stay_those_of_the_file(opened, project, monkeypatch):
    monkeypatch.setattr(gallery, "_LARGE", 0)
    engine = opened()
    hits = engine.by_text("a red disc").hits
    assert not paths.searched("sum").exists()
    engine.keep()
    (found,) = paths.searched("sum").iterdir()
    assert found.name == "sum.images.test.safetensors"
    with monkeypatch.context() as patch:
        patch.setattr(gallery.Gallery, "_vectors", None)
        again = opened().by_text("a red disc").hits
    # Other alignments of the same vectors in memory can give other last bits of a product.
    assert [replace(hit, score=0.0) for hit in again] == [replace(hit, score=0.0) for hit in hits]
    assert [hit.score for hit in again] == pytest.approx([hit.score for hit in hits], rel=1e-6)
    _turned(paths.embedded("sum") / embeddings.IMAGES)
    assert opened().by_text("a red disc").hits != hits


def test_vectors_that_are_not_finite_are_refused(opened, monkeypatch):
    monkeypatch.setattr(np, "isfinite", lambda values: np.zeros(1, bool))
    with pytest.raises(InputError, match="NaN or infinite"):
        opened().by_image_id(5)
