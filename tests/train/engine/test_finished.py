"""A finished run is known again; one of whose files anything has changed is not."""

from pathlib import Path

import pytest

from vse_pipe.train import checkpoint


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "last").mkdir()
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    (tmp_path / "config.json").write_text("{}")
    checkpoint.record(tmp_path, "mark")
    return tmp_path


def test_it_is_known_by_its_fingerprint(folder):
    assert checkpoint.is_finished(folder, "mark")
    assert not checkpoint.is_finished(folder, "other")


CHANGES = {
    "changed": lambda folder: (folder / "config.json").write_text("{ }"),
    "gone": lambda folder: (folder / "model.safetensors").unlink(),
    "added": lambda folder: (folder / "last" / "more.safetensors").touch(),
    "damaged": lambda folder: (folder / checkpoint.FINISHED).write_text('{"finger'),
    "no record": lambda folder: (folder / checkpoint.FINISHED).unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_that_is_not_as_it_was_left(folder, change):
    CHANGES[change](folder)
    assert not checkpoint.is_finished(folder, "mark")


def test_a_state_counts_where_it_is_kept_and_only_there(folder):
    state = folder / checkpoint.STATE
    assert not checkpoint.is_finished(folder, "mark", keep_state=True), "it is to be made"
    state.write_bytes(b"moments")
    assert checkpoint.is_finished(folder, "mark"), "left by a call that was killed before it removed it"
    assert not checkpoint.is_finished(folder, "mark", keep_state=True)
    checkpoint.record(folder, "mark", keep_state=True)
    assert checkpoint.is_finished(folder, "mark", keep_state=True)
    assert not checkpoint.is_finished(folder, "mark")
    state.write_bytes(b"other")
    assert not checkpoint.is_finished(folder, "mark", keep_state=True)
