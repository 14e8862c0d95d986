"""The layer on regions or tokens, with and without pooling, against loops; drops; runs; and refusals."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.fragment_project import run_of, write_fragment_project
from tests.naive import training as naive
from tests.toy_project import WORDS, load_params
from tests.train.encoders.contract import build, weights_of
from tests.train.some import history
from vse_pipe.artifacts import captions, embeddings, texts
from vse_pipe.core.files import sha256
from vse_pipe.embed.stage import embed
from vse_pipe.export.pack import pack
from vse_pipe.extract import text_methods
from vse_pipe.project import paths
from vse_pipe.train.heads import thinned
from vse_pipe.train.stage import train
from vse_pipe.train.trained import Trained

ALL_POOLINGS = ("gpo", "mean", "max")
POOLINGS = pytest.mark.parametrize("pooling", ALL_POOLINGS)
LENGTHS = torch.tensor([3, 1, 5])


def _with_bias(encoder):
    torch.nn.init.normal_(encoder.fc.bias, generator=torch.Generator().manual_seed(7))
    return encoder.double().eval()


def _image(name: str = "pooled", **options):
    return _with_bias(build("image", name, 6, 4, **options))


def _text(**options):
    return _with_bias(build("text", "pooled", 6, 4, **{"drop_words": 0.0, **options}))


def _features(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _tokens(padding: float = 0.0) -> torch.Tensor:
    return _features(3, 5, 6).masked_fill(torch.arange(5)[None, :, None] >= LENGTHS[:, None, None], padding)


def _close(ours: torch.Tensor, expected: list) -> None:
    torch.testing.assert_close(ours, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-7)


# Images.
def test_regions_equal_the_loop():
    encoder, features = _image("regions"), _features(2, 5, 6)
    _close(encoder(features), [naive.regions(weights_of(encoder), image) for image in features.tolist()])


@POOLINGS
def test_pooled_images_equal_the_loop_in_any_order_of_regions(pooling):
    encoder, features = _image(pooling=pooling), _features(3, 5, 6)
    _close(encoder(features), [naive.pooled(weights_of(encoder), image, pooling) for image in features.tolist()])
    torch.testing.assert_close(encoder(features.flip(1)), encoder(features))
    plain = _image(pooling=pooling, no_imgnorm=True)(features)
    torch.testing.assert_close(plain / plain.norm(dim=1, keepdim=True), encoder(features))


@POOLINGS
def test_regions_are_dropped_in_training_only(pooling):
    encoder, features = _image(pooling=pooling, drop=0.5), _features(4, 5, 6)
    whole = encoder(features)
    torch.manual_seed(3)
    mask = thinned(torch.ones(4, 5, dtype=torch.bool), 0.5)
    assert len(set(mask.sum(dim=1).tolist())) > 1
    torch.manual_seed(3)
    dropped = encoder.train()(features)
    encoder.eval()
    for image in range(4):
        torch.testing.assert_close(dropped[image], encoder(features[image : image + 1, mask[image]])[0])
    assert torch.equal(encoder(features), whole)
    assert torch.equal(_image(pooling=pooling, drop=0.0).train()(features), whole)


@POOLINGS
def test_pooled_texts_equal_the_loop_whatever_the_padding(pooling):
    encoder = _text(pooling=pooling)
    vectors, captions = encoder(_tokens(), LENGTHS), zip(_tokens().tolist(), LENGTHS.tolist(), strict=True)
    _close(vectors, [naive.pooled(weights_of(encoder), caption[:length], pooling) for caption, length in captions])
    torch.testing.assert_close(encoder(_tokens(5.0), LENGTHS), vectors)


def test_words_are_the_layer_at_unit_length_and_dropped_in_training_only():
    encoder = _text()
    words, layer = encoder.words(_tokens(), LENGTHS), (encoder.fc.weight.tolist(), encoder.fc.bias.tolist())
    for caption, length, vectors in zip(_tokens().tolist(), LENGTHS.tolist(), words, strict=True):
        _close(vectors[:length], [naive.unit(naive.affine(*layer, token)) for token in caption[:length]])
    encoder = _text(pooling="mean", drop_words=0.6).train()
    torch.manual_seed(3)
    mask = thinned(torch.arange(5) < LENGTHS[:, None], 0.6)
    torch.manual_seed(3)
    vectors, weights = encoder(_tokens(), LENGTHS), weights_of(encoder)
    chosen = [caption[left].tolist() for caption, left in zip(_tokens(), mask, strict=True)]
    _close(vectors, [naive.pooled(weights, tokens, "mean") for tokens in chosen])
    torch.testing.assert_close(encoder.words(_tokens(), LENGTHS), encoder.eval().words(_tokens(), LENGTHS))


# Runs.


def _write_tokens(name: str) -> None:
    """A one-hot vector for each word of the toy data set."""
    prepared, eye = paths.prepared("toy"), np.eye(len(WORDS), dtype=np.float16)
    table = captions.read(prepared)
    lists = [[WORDS.index(word) for word in text.split()] for text in table["text"].to_pylist()]
    blocks = [(eye[words], np.array([len(words)]), len(words)) for words in lists]
    about = {
        "dataset": "toy",
        "captions_sha256": sha256(prepared / captions.NAME),
        "method": "sentence_tokens",
        "options": {"model": "none"},
        "files_sha256": [],
    }
    texts.write(paths.extracted("toy", name), "fragments", table["caption_id"].to_numpy(), blocks, about)


def test_runs_on_tokens_learn_and_a_packed_model_reads_sentences(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    node = {"dataset": "toy", "method": "sentence_tokens", "model": "none"}
    run = run_of("cosine", image="pooled", text="pooled", texts="fine", train={"epochs": 3})
    write_fragment_project(Path())
    _write_tokens("fine")
    params = load_params(Path(), texts={"fine": node}, runs={"tokens": run})
    train(params, "tokens", "cpu")
    losses = history("tokens").loss.tolist()
    assert losses[-1] < 0.95 * losses[0]
    embed(params, "tokens", "cpu")
    pack(params, "tokens", tmp_path / "hub", None)
    eye = torch.eye(len(WORDS))

    def encode(said, **_):
        return [eye[[WORDS.index(word) for word in text.split()]] for text in said]

    monkeypatch.setattr(text_methods, "encoder", lambda *_: SimpleNamespace(encode=encode))
    table, path = captions.read(paths.prepared("toy")), paths.embedded("tokens") / embeddings.CAPTIONS
    vectors = Trained.open(tmp_path / "hub").captions(table["text"].to_pylist())
    np.testing.assert_allclose(vectors.numpy(), embeddings.read(path).vectors, atol=1e-6)
