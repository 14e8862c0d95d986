"""Vectors of tokens; the package is an optional one, so it is replaced where it is imported."""

import shutil
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
import torch

from tests.extract.texts import project
from tests.naive.extract import texts_unit
from vse_pipe.artifacts import texts
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.embed.earlier import fitted, require_encoder
from vse_pipe.extract import text_methods, text_stage
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.extract.texts import sentence_tokens as method
from vse_pipe.tools.search.network import text_inputs


class Encoder:
    """A vector a word, between those of two marks."""

    def __init__(self, name: str, **options) -> None:
        self.device, self.max_seq_length = SimpleNamespace(type="cpu"), 8
        self.tokenizer = SimpleNamespace(num_special_tokens_to_add=lambda: 2)

    def encode(self, texts: list[str], output_value: str, **options) -> list[torch.Tensor]:
        assert output_value == "token_embeddings"
        assert options == {"batch_size": 64, "show_progress_bar": False}
        return [torch.tensor(raw(text)) for text in texts]


def raw(text: str) -> list[list[float]]:
    return [[1.0, 0.0], *([float(len(word)), float(ord(word[0]) - 100)] for word in text.split()), [0.0, 2.0]]


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = ModuleType("sentence_transformers")
    module.SentenceTransformer = Encoder
    monkeypatch.setitem(sys.modules, "sentence_transformers", module)
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda name, **_: name)
    monkeypatch.setattr(text_stage, "version", lambda package: "1")
    text_methods._loaded.cache_clear()
    project.prepared()
    yield tmp_path
    text_methods._loaded.cache_clear()


def test_the_tokens_of_every_caption_come_back_and_a_sentence_is_read_alike(tiny):
    extract_texts(project.params("sentence_tokens", model="hub", revision="1", block=4, device="cpu"), "node")
    read = texts.read(project.OUT)
    assert (read.kind, read.inputs, read.array.dtype) == ("fragments", 2, np.float16)
    assert isinstance(read.array, np.memmap)
    expected = [[texts_unit(token) for token in raw(text)] for text in project.TEXTS]
    assert len(read.array) == sum(map(len, expected))
    padded, lengths = read.tokens.padded(np.array([5, 3, 0]))
    assert padded.dtype == np.float32
    assert lengths.tolist() == [3, 6, 5]
    for row, length, place in zip(padded, lengths, (5, 3, 0), strict=True):
        np.testing.assert_allclose(row[:length], expected[place], atol=1e-3)
        assert not row[length:].any()
    config = {"dataset": "tiny", "texts": "node", "texts_sha256": read.digest}
    files = SimpleNamespace(config=config, words=[])
    vectors, counts = text_inputs(fitted("run", files), project.TEXTS[3]).arrays
    assert counts.tolist() == [6]
    np.testing.assert_allclose(vectors[0], padded[1], atol=1e-3)


def test_marks_can_be_left_out_and_lengths_kept():
    given = method.Params(model="hub", special=False, normalise=False, device="cpu")
    found = Encoder("hub")
    found.encode = lambda texts, **_: [torch.tensor(raw(text)) for text in texts]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text_methods, "_loaded", lambda *_: found)
        vectors, lengths = method.transform(["a dog", ""], text_methods.State(), given)
    assert lengths.tolist() == [2, 2]
    assert vectors.tolist() == [*raw("a dog")[1:-1], *raw("")]


def test_tokens_too_large_for_the_disk_are_refused(tiny, monkeypatch):
    monkeypatch.setattr(Encoder, "encode", lambda self, texts, **_: [torch.full((2, 2), 1e6) for _ in texts])
    given = project.params("sentence_tokens", model="hub", revision="1", normalise=False, device="cpu")
    with pytest.raises(InputError, match=r"token 0 is NaN or infinite as float16; .* store: float32"):
        extract_texts(given, "node")
    assert not project.OUT.exists()


def test_the_extra_that_brings_the_package_is_named(tiny, monkeypatch):
    def missing(package):
        raise PackageNotFoundError

    monkeypatch.setattr(text_stage, "version", missing)
    with pytest.raises(MissingResource, match=r"pip install 'vse-pipe\[sentences\]'"):
        extract_texts(project.params("sentence_tokens", model="hub", revision="1"), "node")


@pytest.mark.parametrize(
    ("index", "message"),
    [((0, 20), "captions reach beyond the 5 rows of features.npy"), ((-1, 2), "captions reach beyond")],
)
def test_captions_beyond_the_array_are_refused(tmp_path, index, message):
    rows = np.ones((5, 2), np.float16)
    texts.write_fragments(tmp_path / "t", np.array([7]), [(rows, np.array([5]))], {})
    read = texts.read(tmp_path / "t")
    table = pa.table({"start": [index[0]], "length": [index[1]]})
    with pytest.raises(InputError, match=message):
        texts._laid_out(tmp_path, table, read.array, "rows of features.npy")


def test_an_encoder_with_another_number_of_marks_keeps_them(tiny, monkeypatch):
    monkeypatch.setattr(Encoder, "tokenizer", SimpleNamespace(num_special_tokens_to_add=lambda: 1), raising=False)
    monkeypatch.setattr(Encoder, "__init__", lambda self, name, **options: None)
    with pytest.raises(UsageError, match=r"encoder 'hub' adds 1; set special: true"):
        method.transform(["a dog"], text_methods.State(), method.Params(model="hub", special=False, device="cpu"))


def test_a_sentence_is_not_read_by_other_files(tiny):
    """meta.json has the digests of the encoder's folder."""
    (tiny / "model").mkdir()
    (tiny / "model" / "weights").write_text("one")
    extract_texts(project.params("sentence_tokens", model="model", device="cpu"), "node")
    meta = read_json(project.OUT / texts.META)
    options = method.Params.model_validate(meta["options"])
    require_encoder(options, meta, "texts")
    for change in (lambda: (tiny / "model" / "weights").write_text("two"), lambda: shutil.rmtree(tiny / "model")):
        change()
        with pytest.raises(
            IntegrityError, match="texts: made with other files of sentence encoder model than there are now"
        ):
            require_encoder(options, meta, "texts")


@pytest.mark.parametrize(("model", "local"), [
    ("minilm", False),
    ("sentence-transformers/all-MiniLM-L6-v2", False),
    ("data/raw/minilm", True),
    ("./minilm", True),
    ("~/minilm", True),
    ("/minilm", True),
])  # fmt: skip
def test_a_folder_that_is_missing_is_told_from_a_name_on_the_hub(tmp_path, monkeypatch, model, local):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    options = method.Params(model=model)
    assert options.files() == ({Path(model).expanduser(): ""} if local else {})
    if local:
        with pytest.raises(IntegrityError, match="made with other files of sentence encoder"):
            require_encoder(options, {"files_sha256": ["a"]}, "texts")
