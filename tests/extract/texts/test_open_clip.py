"""The captions' side of pretrained pairs: open_clip's own vectors, and what is refused."""

import numpy as np
import pytest
import torch

from tests import pair_project as pairs
from vse_pipe.core.errors import IntegrityError, UnknownMember
from vse_pipe.extract import pair as models
from vse_pipe.extract.text_methods import Corpus
from vse_pipe.extract.texts import open_clip as method
from vse_pipe.project.registry import TEXT_FEATURES

open_clip = pytest.importorskip("open_clip", reason="needs the extra open_clip")

TEXTS = ["A red ball.", "two  dogs &amp; a cat", "tree " * 40, ""]
NOTHING = Corpus([], [])


@pytest.fixture(autouse=True)
def _here(folder):
    method._text_side.cache_clear()
    models.pair_tokenizer.cache_clear()


@pytest.mark.parametrize("kind", ["clip", "siglip"])
@pytest.mark.parametrize("normalise", [True, False])
def test_vectors_are_those_of_encode_text(kind, normalise):
    model = pairs.write_model(kind)
    params = method.Params(**pairs.named(model), device="cpu", batch_size=3, normalise=normalise)
    found = method.transform(TEXTS, method.fit(NOTHING, params, 0), params)
    place = f"local-dir:{model.absolute()}"
    network, _ = open_clip.create_model_from_pretrained(place)
    with torch.inference_mode():
        expected = network.eval().encode_text(open_clip.get_tokenizer(place)(TEXTS), normalize=normalise)
    np.testing.assert_allclose(found, expected.numpy(), atol=2e-6, rtol=1e-5)
    assert method.transform([], method.fit(NOTHING, params, 0), params).shape == (0, 16)


def test_what_was_fitted_names_its_weights_and_seed():
    model = pairs.write_model("clip")
    params = method.Params(**{**pairs.named(model), "sha256": None}, device="cpu")
    state = method.fit(NOTHING, params, 0)
    about = [state.about[key] for key in ("network", "device", "precision")]
    assert about == ["open_clip open_clip_config", "cpu", "float32"]
    other = pairs.write_model("clip", seed=1, name="other") / pairs.WEIGHTS
    other.replace(model / pairs.WEIGHTS)
    method._text_side.cache_clear()
    with pytest.raises(IntegrityError, match=r"other weights of open_clip .* than the text features were made with"):
        method.transform(TEXTS, state, params)
    random = method.Params(model=str(model / pairs.CONFIG), weights="random", device="cpu")
    first, second = (method.transform(["a"], method.fit(NOTHING, random, seed), random) for seed in (1, 2))
    assert not np.array_equal(first, second)


def test_the_files_it_depends_on_are_told(tmp_path):
    (tmp_path / "tokens").mkdir()
    (tmp_path / "tokens" / "tokenizer.json").write_text("{}")
    params = method.Params(**pairs.named(pairs.write_model("clip")), tokenizer="tokens")
    files = {path.name: digest for path, digest in params.files().items()}
    assert files == {pairs.CONFIG: "", "tokenizer.json": "", pairs.WEIGHTS: params.sha256}
    assert method.Params(model="ViT-B-32", weights="laion2b_s34b_b79k").files() == {}


@pytest.mark.parametrize("kind", ["clip", "siglip"])
def test_pieces_are_those_of_open_clips_tokenizer(kind):
    model, open_clip_tokens = pairs.write_model(kind), TEXT_FEATURES.load("open_clip_tokens")
    params = open_clip_tokens.Params(model=str(model / pairs.CONFIG))
    state = open_clip_tokens.fit(NOTHING, params, 0)
    texts = [*TEXTS, "a " * 14, "a " * 15]
    tokens, cut = open_clip_tokens.transform(texts, state, params)
    expected = open_clip.get_tokenizer(f"local-dir:{model.absolute()}")(texts)
    ids, lengths = tokens.padded(np.arange(len(texts)))
    assert np.array_equal(ids - 4, expected.numpy())
    assert set(lengths) == {16}
    assert cut == 2, "14 words and both ends just fit"
    assert len(state.words) == 4 + 49408
    assert [state.words[number] for number in ids[0][:4]] == ["<start_of_text>", "a</w>", "red</w>", "ball</w>"]
    assert set(params.files()) == {model / pairs.CONFIG}
    with pytest.raises(UnknownMember, match=r"unknown open_clip model 'ViT-B32'; did you mean 'ViT-B-32'\?"):
        open_clip_tokens.fit(NOTHING, open_clip_tokens.Params(model="ViT-B32"), 0)
