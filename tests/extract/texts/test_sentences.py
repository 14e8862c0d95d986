"""Sentence encoders, a vector a caption or a token; the package is an optional one, so it is replaced where it is imported."""

import shutil
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch

from tests.extract.texts import project
from tests.naive.extract import texts_unit
from vse_pipe.artifacts import texts
from vse_pipe.core.errors import IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.extract import text_methods, text_stage
from vse_pipe.extract.fitted import Fitted, require_encoder
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.extract.texts import sentence_tokens, sentences

CORPUS = Corpus(["a dog", "two red balls"], ["train", "test"])
PINNED = {"model": "hub/name", "revision": "0123abc", "device": "cpu"}


class Encoder:
    """What the package is asked, and vectors that tell captions apart; of tokens a vector a word, between two marks."""

    asked: list = []  # noqa: RUF012 (cleared by every test)

    def __init__(self, name: str, **options) -> None:
        Encoder.asked.append((name, options))
        self.device, self.max_seq_length = SimpleNamespace(type=options.get("device", "cpu")), 128

    def encode(self, texts: list[str], output_value: str = "", **options) -> np.ndarray | list[torch.Tensor]:
        Encoder.asked.append(options)
        if output_value == "token_embeddings":
            assert options == {"batch_size": 64, "show_progress_bar": False}
            return [torch.tensor(raw(text)) for text in texts]
        return np.array([[len(text), 1.0] for text in texts], dtype=np.float64)


def raw(text: str) -> list[list[float]]:
    return [[1.0, 0.0], *([float(len(word)), float(ord(word[0]) - 100)] for word in text.split()), [0.0, 2.0]]


def fetch(name: str, **options) -> str:
    """The model hub."""
    if name == "gone":
        raise OSError("gone cannot be reached\nand is not in the cache")
    Encoder.asked.append(options)
    return f"cache/{name}"


@pytest.fixture(autouse=True)
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch):
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = Encoder
    monkeypatch.setattr("huggingface_hub.snapshot_download", fetch)
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr(text_stage, "version", lambda package: "1")
    Encoder.asked.clear()
    text_methods.encoder.cache_clear()
    yield
    text_methods.encoder.cache_clear()


def test_captions_go_through_the_encoder_which_is_loaded_once() -> None:
    params = sentences.Params(**PINNED, batch_size=7, normalise=False)
    state = sentences.fit(CORPUS, params, 0)
    found = sentences.transform(CORPUS.texts, state, params)
    assert (found.dtype, found.tolist()) == (np.float32, [[5, 1], [13, 1]])
    fetched, (name, options), asked = Encoder.asked
    assert fetched == {"revision": "0123abc", "allow_patterns": ["*.json", "*.txt", "*.model", "*.safetensors"]}
    assert name == "cache/hub/name"
    assert options == {"device": "cpu", "trust_remote_code": False, "model_kwargs": {"use_safetensors": True}}
    assert (asked["batch_size"], asked["normalize_embeddings"]) == (7, False)
    assert state.about == {"device": "cpu", "longest": 128}
    sentences.transform(CORPUS.texts, state, params)
    assert [isinstance(entry, tuple) for entry in Encoder.asked] == [False, True, False, False]


@pytest.mark.parametrize(("options", "error", "message"), [
    ({"model": "gone"}, MissingResource, r"'gone' cannot be loaded \(gone cannot be reached\); model is a"),
    ({"device": "gpu"}, UsageError, "unknown device 'gpu'"),
    ({}, MissingResource, r"not installed: pip install sentence-transformers"),
], ids=["weights", "device", "package"])  # fmt: skip
def test_what_cannot_be_had(monkeypatch: pytest.MonkeyPatch, options: dict, error: type, message: str) -> None:
    if not options:
        monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(error, match=message):
        sentences.fit(CORPUS, sentences.Params(**{"model": "hub/name", "device": "cpu", **options}), 0)


def extract(**options) -> None:
    project.prepared()
    given = {"model": "hub", "revision": "1", "device": "cpu", **options}
    extract_texts(project.params("sentence_tokens", **given), "node")


def test_the_tokens_of_every_caption_come_back_and_a_sentence_is_read_alike():
    extract(block=4)
    read = texts.read(project.OUT)
    assert (read.kind, read.inputs, read.array.dtype) == ("fragments", 2, np.float16)
    assert isinstance(read.array, np.memmap)
    expected = [[texts_unit(token) for token in raw(text)] for text in project.TEXTS]
    assert len(read.array) == sum(map(len, expected))
    padded, lengths = read.tokens.padded(np.array([5, 3, 0]))
    assert (padded.dtype, lengths.tolist()) == (np.float32, [3, 6, 5])
    for row, length, place in zip(padded, lengths, (5, 3, 0), strict=True):
        np.testing.assert_allclose(row[:length], expected[place], atol=1e-3)
        assert not row[length:].any()
    again = Fitted.of_folder(project.OUT, read.meta, read.meta["options"], []).transformed([project.TEXTS[3]])
    vectors, counts = again.tokens.padded(np.arange(1))
    assert counts.tolist() == [6]
    np.testing.assert_allclose(vectors[0], padded[1], atol=1e-3)


def test_a_sentence_is_not_read_by_other_files():
    """meta.json has the digests of the encoder's folder."""
    Path("model").mkdir()
    Path("model/weights").write_text("one")
    extract(model="model", revision=None)
    meta = read_json(project.OUT / texts.META)
    options = sentence_tokens.Params.model_validate(meta["options"])
    require_encoder(options, meta, "texts")
    message = "texts: made with other files of sentence encoder model; put those back"
    for change in (lambda: Path("model/weights").write_text("two"), lambda: shutil.rmtree("model")):
        change()
        with pytest.raises(IntegrityError, match=message):
            require_encoder(options, meta, "texts")
