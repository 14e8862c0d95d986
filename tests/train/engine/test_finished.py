"""A finished run is known again; one of whose files anything has changed is not."""

from pathlib import Path

import pytest

from pipeline.train.engine import finished


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "last").mkdir()
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_text("{}")
    finished.record(tmp_path, "mark")
    return tmp_path


def test_it_is_known_by_its_fingerprint(folder):
    assert finished.is_finished(folder, "mark")
    assert not finished.is_finished(folder, "other")


CHANGES = {
    "changed": lambda folder: (folder / "config.json").write_text("{ }"),
    "gone": lambda folder: (folder / "model.safetensors").unlink(),
    "added": lambda folder: (folder / "last" / "state.safetensors").touch(),
    "damaged": lambda folder: (folder / finished.FILE).write_text('{"finger'),
    "no record": lambda folder: (folder / finished.FILE).unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is_not_as_it_was_left(folder, change):
    CHANGES[change](folder)
    assert not finished.is_finished(folder, "mark")
