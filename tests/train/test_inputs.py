"""The table of words from a file of word vectors."""

import numpy as np
import pytest
import torch

from tests.toy_project import PARAMS, WORDS, load_params, write_prepared
from tests.train.some import member, some_model, some_pairs
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.text import SPECIAL
from vse_pipe.embed.stage import embed
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train import inputs, restore
from vse_pipe.train.stage import train

KNOWN = {"w1": [1.0, -2.0, 3.0], "w6": [0.5, 0.0, -0.5], "other": [9.0, 9.0, 9.0], "<unk>": [7.0, 7.0, 7.0]}


def _text_file(path, known):
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in known.items()))
    return str(path)


def _text(path, **options):
    return member(TEXT_ENCODERS, "gru", **{"word_dim": 3, "vectors": str(path), **options})


def test_known_words_start_from_their_vectors_and_others_as_they_were_drawn(tmp_path, capsys):
    pairs = some_pairs(40)
    text = _text(_text_file(tmp_path / "vectors.txt", KNOWN))
    found = inputs.start_vectors(text, pairs.texts, "one")
    drawn, filled = (some_model(pairs, text=text, seed=5).txt.embed for _ in range(2))
    found.fill(filled)
    words = pairs.texts.words
    for place, word in enumerate(words):
        known = word in KNOWN and word not in SPECIAL
        expected = torch.tensor(KNOWN[word]) if known else drawn.weight[place]
        assert torch.equal(filled.weight[place], expected), word
    assert filled.weight.requires_grad
    said = [words[token] for token in pairs.texts.tokens.tokens]
    share = sum(word in KNOWN for word in said) / len(said)
    assert (
        f"one: 2 of 8 words start from {tmp_path / 'vectors.txt'}, {share:.1%} of the words" in capsys.readouterr().err
    )


def test_arrays_are_read_with_the_file_of_their_words(tmp_path):
    np.save(tmp_path / "vectors.npy", np.array(list(KNOWN.values()), np.float32))
    (tmp_path / "words.txt").write_text("\n".join(KNOWN))
    text = _text(tmp_path / "vectors.npy", words=str(tmp_path / "words.txt"), freeze_vectors=True)
    found, embed = inputs.start_vectors(text, some_pairs().texts, "one"), torch.nn.Embedding(12, 3)
    found.fill(embed)
    assert embed.weight[[5, 10]].tolist() == [KNOWN["w1"], KNOWN["w6"]]
    assert not embed.weight.requires_grad
    assert inputs.vector_files(text) == [tmp_path / "vectors.npy", tmp_path / "words.txt"]


def test_what_does_not_fit_is_one_line(tmp_path):
    texts, path = some_pairs().texts, _text_file(tmp_path / "vectors.txt", KNOWN)
    with pytest.raises(
        UsageError, match=r"text\.gru\.word_dim is 4, but .*vectors.txt has vectors of 3 .* set word_dim: 3"
    ):
        inputs.start_vectors(_text(path, word_dim=4), texts, "one")
    with pytest.raises(MissingResource, match=r"none.txt: no such file; text\.gru\.vectors of run one"):
        inputs.start_vectors(_text(tmp_path / "none.txt"), texts, "one")
    with pytest.raises(InputError, match="knows none of the 8 words"):
        inputs.start_vectors(_text(_text_file(tmp_path / "few.txt", {"x": [1, 2, 3]})), texts, "one")
    with pytest.raises(IntegrityError, match=r"vectors\.txt: sha256 is .*, expected 000"):
        inputs.start_vectors(_text(path, sha256="0" * 64), texts, "one")
    with pytest.raises(ValueError, match="words, sha256 and freeze_vectors need vectors"):
        member(TEXT_ENCODERS, "gru", freeze_vectors=True)


def test_an_encoder_that_draws_its_table_reads_nothing():
    texts = some_pairs().texts
    assert inputs.start_vectors(member(TEXT_ENCODERS, "gru"), texts, "one") is None
    assert inputs.vector_files(member(TEXT_ENCODERS, "two_branch")) == []


def test_a_frozen_table_outlives_training_and_the_file_is_needed_for_training_alone(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_prepared()
    rng = np.random.default_rng(0)
    known = {word: rng.standard_normal(6).round(3).tolist() for word in WORDS}
    path = tmp_path / "vectors.txt"
    _text_file(path, known)
    runs = {"sum": PARAMS["runs"]["sum"] | {"options": {"text": {"vectors": str(path), "freeze_vectors": True}}}}
    params = load_params(tmp_path, runs=runs, train=PARAMS["train"] | {"epochs": 1})
    inject(params, "clean")
    extract_texts(params, "words")
    train(params, "sum", "cpu")
    train(params, "sum", "cpu")
    assert "is up to date" in capsys.readouterr().err
    model, files = restore.load(paths.trained("sum"))
    words = files.words
    for word in WORDS:
        assert model.txt.embed.weight[words.index(word)].tolist() == pytest.approx(known[word])
    _text_file(path, known | {"dog": [0.0] * 6})
    train(params, "sum", "cpu")
    changed, _ = restore.load(paths.trained("sum"))
    assert not changed.txt.embed.weight[words.index("dog")].any(), "other vectors under the same name are another run"
    path.unlink()
    embed(params, "sum", "cpu")
