"""Sentence encoders; the package is an optional one, so it is replaced where it is imported."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from vse_pipe.core.errors import MissingResource, UsageError
from vse_pipe.extract import text_methods
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.extract.texts import sentences as method

CORPUS = Corpus(["a dog", "two red balls"], ["train", "test"])


class Encoder:
    """What the package is asked, and vectors that tell captions apart."""

    asked: list = []  # noqa: RUF012 (cleared by every test)

    def __init__(self, name: str, **options) -> None:
        Encoder.asked.append((name, options))
        self.device, self.max_seq_length = SimpleNamespace(type=options["device"]), 128

    def encode(self, texts: list[str], **options) -> np.ndarray:
        Encoder.asked.append(options)
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float64)


def fetch(name: str, **options) -> str:
    """The model hub."""
    if name == "gone":
        raise OSError("gone cannot be reached\nand is not in the cache")
    Encoder.asked.append(options)
    return f"cache/{name}"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = Encoder
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    Encoder.asked.clear()
    text_methods._loaded.cache_clear()


def test_captions_go_through_the_encoder(installed: None) -> None:
    params = method.Params(model="hub/name", revision="0123abc", batch_size=7, normalise=False, device="cpu")
    state = method.fit(CORPUS, params, 0)
    found = method.transform(CORPUS.texts, state, params)
    assert found.dtype == np.float32
    assert found.tolist() == [[5, 1], [13, 1]]
    fetched, (name, options), asked = Encoder.asked
    assert fetched == {"revision": "0123abc", "allow_patterns": ["*.json", "*.txt", "*.model", "*.safetensors"]}
    assert name == "cache/hub/name"
    assert options == {"device": "cpu", "trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
    assert asked["batch_size"] == 7
    assert asked["normalize_embeddings"] is False
    assert state.about == {"device": "cpu", "longest": 128}


def test_the_model_is_loaded_once(installed: None) -> None:
    params = method.Params(model="hub/name", revision="0123abc", device="cpu")
    state = method.fit(CORPUS, params, 0)
    for _ in range(3):
        method.transform(CORPUS.texts, state, params)
    assert [entry for entry in Encoder.asked if isinstance(entry, tuple)] == [Encoder.asked[1]]


def test_the_files_of_a_folder_are_inputs(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "b.json").write_text("{}")
    (tmp_path / "a.safetensors").write_text("x")
    params = method.Params(model=str(tmp_path))
    assert params.files() == {tmp_path / "a.safetensors": "", tmp_path / "model" / "b.json": ""}
    assert method.Params(model="hub/name").files() == {}


def test_a_model_of_the_hub_that_is_not_pinned_is_said_so(installed: None, capsys: pytest.CaptureFixture) -> None:
    method.fit(CORPUS, method.Params(model="hub/name", device="cpu"), 0)
    assert "hub/name is not pinned; set revision" in capsys.readouterr().err


def test_weights_that_cannot_be_had(installed: None) -> None:
    with pytest.raises(MissingResource, match=r"'gone' cannot be loaded \(gone cannot be reached\); model is a"):
        method.fit(CORPUS, method.Params(model="gone", device="cpu"), 0)


def test_a_device_that_is_not_there(installed: None) -> None:
    with pytest.raises(UsageError, match="unknown device 'gpu'"):
        method.fit(CORPUS, method.Params(model="hub/name", device="gpu"), 0)


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    text_methods._loaded.cache_clear()
    with pytest.raises(MissingResource, match=r"not installed: pip install 'vse-pipe\[sentences\]'"):
        method.fit(CORPUS, method.Params(model="hub/name", device="cpu"), 0)
