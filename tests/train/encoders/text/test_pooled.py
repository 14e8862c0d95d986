"""The layer on tokens and their pooling, against loops; what is dropped; runs on them; and what is refused."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.fragment_project import run_of, write_fragment_project
from tests.naive import training as naive
from tests.toy_project import WORDS, load_params
from tests.train.encoders.contract import check_draws, check_gradients, weights_of
from vse_pipe.artifacts import captions, embeddings, model_files, texts
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import sha256
from vse_pipe.embed.stage import embed
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.extract import text_methods
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params as AllParams
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.tools.hub import networks
from vse_pipe.tools.pack import pack
from vse_pipe.train.encoders.text.options import PooledOptions as Params
from vse_pipe.train.encoders.text.pooled import build
from vse_pipe.train.heads import thinned
from vse_pipe.train.stage import train

POOLINGS = ("gpo", "mean", "max")
LENGTHS = torch.tensor([3, 1, 5])


def _encoder(**options):
    encoder = build(Params(**{"drop_words": 0.0, **options}), 6, 4, torch.Generator().manual_seed(0))
    torch.nn.init.normal_(encoder.fc.bias, generator=torch.Generator().manual_seed(7))
    return encoder.double().eval()


def _tokens(padding: float = 0.0) -> torch.Tensor:
    tokens = torch.randn(3, 5, 6, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    return tokens.masked_fill(torch.arange(5)[None, :, None] >= LENGTHS[:, None, None], padding)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_equals_plain_loops_whatever_the_padding(pooling):
    encoder = _encoder(pooling=pooling)
    found = encoder(_tokens(), LENGTHS)
    for caption, length, vector in zip(_tokens().tolist(), LENGTHS.tolist(), found.tolist(), strict=True):
        expected = naive.pooled(weights_of(encoder), caption[:length], pooling)
        assert vector == pytest.approx(expected, abs=1e-9)
    torch.testing.assert_close(encoder(_tokens(5.0), LENGTHS), found)
    assert torch.equal(_encoder(pooling=pooling, use_abs=True)(_tokens(), LENGTHS), found.abs())


def test_words_are_the_layer_at_unit_length():
    encoder = _encoder()
    words = encoder.words(_tokens(), LENGTHS)
    for caption, length, found in zip(_tokens().tolist(), LENGTHS.tolist(), words.tolist(), strict=True):
        for token, vector in zip(caption[:length], found, strict=False):
            placed = naive.affine(encoder.fc.weight.tolist(), encoder.fc.bias.tolist(), token)
            assert vector == pytest.approx(naive.unit(placed), abs=1e-7)


def test_tokens_are_dropped_in_training_alone_and_one_stays():
    encoder = _encoder(pooling="mean", drop_words=0.6).train()
    torch.manual_seed(3)
    kept = thinned(torch.arange(5) < LENGTHS[:, None], 0.6)
    torch.manual_seed(3)
    found = encoder(_tokens(), LENGTHS)
    for caption, chosen, vector in zip(_tokens(), kept, found.tolist(), strict=True):
        assert vector == pytest.approx(naive.pooled(weights_of(encoder), caption[chosen].tolist(), "mean"), abs=1e-9)
    torch.testing.assert_close(encoder.words(_tokens(), LENGTHS), encoder.eval().words(_tokens(), LENGTHS))


@pytest.mark.parametrize("pooling", POOLINGS)
def test_weights_and_gradients(pooling):
    check_draws(lambda rng: build(Params(pooling=pooling), 6, 4, rng))
    encoder = _encoder(pooling=pooling).train()
    check_gradients(encoder, encoder(_tokens(), LENGTHS))


def test_misfits_are_refused():
    assert TEXT_ENCODERS.traits("pooled").reads == "fragments"
    with pytest.raises(InputError, match="'pooled' was built for vectors of 6 numbers"):
        _encoder()(torch.zeros(2, 3, 5, dtype=torch.float64), torch.tensor([1, 2]))
    with pytest.raises(InputError, match="needs captions of 1 to 5 tokens, got lengths 0 to 3"):
        _encoder()(_tokens(), torch.tensor([0, 1, 3]))


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("tokens")


def _write_tokens(name: str) -> None:
    """A vector for each word, which names it; of the toy data set."""
    prepared = paths.prepared("toy")
    said = captions.read(prepared)
    table = np.eye(len(WORDS), dtype=np.float16)
    lists = [[WORDS.index(word) for word in text.split()] for text in said["text"].to_pylist()]
    blocks = [(table[one], np.array([len(one)])) for one in lists]
    about = {
        "captions_sha256": sha256(prepared / captions.NAME),
        "method": "sentence_tokens",
        "options": {"model": "none"},
    }
    texts.write_fragments(paths.extracted("toy", name), said["caption_id"].to_numpy(), blocks, about)


def _trained(similarity: str, image: str) -> AllParams:
    """A run of that name, in the working directory."""
    node = {"dataset": "toy", "method": "sentence_tokens", "model": "none"}
    run = run_of(similarity, image=image, text="pooled", texts="fine", train={"epochs": 3})
    if not paths.prepared("toy").exists():
        write_fragment_project(Path())
        _write_tokens("fine")
    small = {"sgr": {"sim_dim": 6, "dropout": 0.1}}
    params = load_params(Path(), texts={"fine": node}, runs={similarity: run}, similarity=small)
    train(params, similarity, "cpu")
    return params


@pytest.mark.acceptance
@pytest.mark.parametrize(("similarity", "image"), [("cosine", "pooled"), ("scan_t2i", "regions"), ("sgr", "regions")])
def test_runs_learn_from_tokens_as_one_vector_or_as_fragments(root, monkeypatch, similarity, image):
    monkeypatch.chdir(root)
    params = _trained(similarity, image)
    losses = [row["loss"] for row in model_files.read_history(paths.trained(similarity)).to_dict("records")]
    assert losses[-1] < 0.95 * losses[0]
    embed(params, similarity, "cpu")
    evaluate(params, similarity, ["nns"], "cpu")
    assert model_files.read(paths.trained(similarity)).config["text_inputs"] == len(WORDS)


def test_a_packed_model_reads_sentences(root, monkeypatch, tmp_path):
    monkeypatch.chdir(root)
    params = _trained("cosine", "pooled")
    embed(params, "cosine", "cpu")
    pack(params, "cosine", tmp_path / "hub", None)
    eye = torch.eye(len(WORDS))
    known = SimpleNamespace(encode=lambda said, **_: [eye[[WORDS.index(word) for word in one.split()]] for one in said])
    monkeypatch.setattr(text_methods, "_loaded", lambda *_: known)
    said = captions.read(paths.prepared("toy"))["text"].to_pylist()
    (network,) = networks(tmp_path / "hub")
    expected = embeddings.read(paths.embedded("cosine") / embeddings.CAPTIONS).vectors
    np.testing.assert_allclose(network.captions(said).numpy(), expected, atol=1e-6)
