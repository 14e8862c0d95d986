"""Training pairs, their matches and regions, and word vectors from a file."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.toy_project import PARAMS, WORDS, load_params
from tests.train.some import member, ready, some_model, some_pairs
from vse_pipe.artifacts import captions, features, pairs, texts
from vse_pipe.artifacts import regions as artefact
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.text import SPECIAL
from vse_pipe.embed.stage import embed
from vse_pipe.project import paths
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train import inputs, restore
from vse_pipe.train.batch import Scored
from vse_pipe.train.data import Incidence, Pairs, TrainRegions, TrainTable, text_lengths
from vse_pipe.train.stage import train


def test_a_batch_is_a_plain_gather():
    pairs = some_pairs(9)
    batch = pairs.batch(np.array([4, 0]))
    assert batch.features.dtype == torch.float32
    assert batch.features.tolist() == [pairs.array[1].tolist(), pairs.array[2].tolist()]
    assert batch.owners.tolist() == [20, 10]
    tokens, lengths = batch.texts
    for row, place in enumerate([4, 0]):
        start, length = pairs.texts.tokens.starts[place], pairs.texts.tokens.lengths[place]
        assert lengths[row] == length
        assert tokens[row, :length].tolist() == pairs.texts.tokens.tokens[start : start + length].tolist()
        assert not tokens[row, length:].any()


def test_a_batch_of_text_vectors():
    array = np.arange(12, dtype=np.float16).reshape(4, 3)
    texts = Texts("vectors", np.arange(4), {}, None, [], array, np.array([3, 2, 1, 0]))
    pairs = Pairs(np.eye(4, dtype=np.float32), np.arange(4), texts, np.array([1, 0, 2, 3]), np.arange(4))
    (vectors,) = pairs.batch(np.array([0, 3])).texts
    assert vectors.dtype == torch.float32
    assert vectors.tolist() == [array[2].tolist(), array[0].tolist()]
    assert text_lengths(texts, np.array([0, 1])).tolist() == [1, 1]


def test_parts_of_a_batch_are_the_batch():
    batch = some_pairs(10).batch(np.array([7, 1, 3, 9, 2]))
    parts = batch.split(2)
    assert [len(part.pairs) for part in parts] == [2, 2, 1]
    assert torch.equal(torch.cat([part.features for part in parts]), batch.features)
    assert torch.equal(torch.cat([part.texts[0] for part in parts]), batch.texts[0])
    assert torch.equal(torch.cat([part.texts[1] for part in parts]), batch.texts[1])
    assert torch.equal(torch.cat([part.owners for part in parts]), batch.owners)
    assert np.concatenate([part.pairs for part in parts]).tolist() == [7, 1, 3, 9, 2]


CPU = torch.device("cpu")


@given(st.integers(0, 1000), st.lists(st.integers(0, 29), min_size=2, max_size=12, unique=True))
def test_kin_and_positives_are_those_of_all_that_is_known(seed, taken):
    rng = np.random.default_rng(seed)
    owners, said = rng.integers(100, 110, 30), rng.integers(5, 14, 30)
    more = rng.integers(98, 112, 9), rng.integers(4, 15, 9)
    both = (np.concatenate(side).tolist() for side in zip((owners, said), more, strict=True))
    seen, pairs = set(zip(*both, strict=True)), np.array(taken)
    known = Incidence.from_pairs(owners, said, *more)
    found = known.matches(pairs, CPU)
    assert known.ids[known.images].tolist() == owners.tolist()
    assert known.belong(pairs, pairs[:3]).tolist() == [[(owners[i], said[j]) in seen for j in taken[:3]] for i in taken]
    images, texts = (np.unique(side[pairs]).tolist() for side in (owners, said))
    assert [images[number] for number in found.images.tolist()] == owners[pairs].tolist()
    assert [texts[number] for number in found.texts.tolist()] == said[pairs].tolist()
    assert found.positives.tolist() == [[(i, t) in seen for t in texts] for i in images]
    of_image = {i: {t for j, t in seen if j == i} for i in images}
    of_text = {t: {i for i, u in seen if u == t} for t in texts}
    assert found.image_kin.tolist() == [[bool(of_image[i] & of_image[j]) for j in images] for i in images]
    assert found.text_kin.tolist() == [[bool(of_text[t] & of_text[u]) for u in texts] for t in texts]


def test_what_matches_is_no_negative_in_any_loss():
    """Image 0 is seen with text 1 in a pair that is not in the batch."""
    owners, said = np.array([0, 1, 0, 2]), np.array([0, 1, 1, 2])
    matches = Incidence.from_pairs(owners, said).matches(np.array([0, 1, 3]), CPU)
    scored = Scored.from_scores(torch.zeros(3, 3), torch.tensor([0, 1, 2]), matches=matches)
    assert scored.same.tolist() == [[True, True, False], [False, True, False], [False, False, True]]


# Six regions of three pictures; the last three are proposals, one in a picture that no pair shows.
IDS = np.array([30, 10, 20, 60, 50, 40])
COLUMNS = {
    "image_id": IDS,
    "source_id": [7, 8, 9, 9, 8, 7],
    **{name: np.arange(6.0) + shift for name, shift in zip(("x1", "y1", "x2", "y2"), (0, 0, 5, 5), strict=True)},
    "proposed": [False, False, False, True, True, True],
    "score": np.zeros(6),
    "split": ["train"] * 6,
}
# Region 70 is of a mention for which no pair was drawn, in the picture of the third.
KNOWN = Incidence.from_pairs(np.array([10, 30, 10]), np.arange(3), np.array([70, 10]), np.array([0, 1]))
MENTIONS = pa.table(
    {"region_id": [70, 10], "image_id": [9, 8], "x1": [1.0, 0], "y1": [2.0, 0], "x2": [3.0, 9], "y2": [4.0, 9]}
)


def _features(failed=()) -> Features:
    kept = np.array([one for one in sorted(IDS) if one not in failed])
    return Features(np.zeros((6, 2), np.float32), kept, kept // 10 - 1, {}, failed=np.array(failed, np.int64))


def _table(**changes) -> pa.Table:
    return pa.table({**COLUMNS, **changes}).cast(artefact.SCHEMA)


def test_boxes_of_all_mentions_and_the_proposals_of_the_pictures_of_pairs():
    found = TrainRegions.join(_table(), MENTIONS, _features(), KNOWN, "r")
    assert KNOWN.ids.tolist() == [10, 30, 70]
    assert found.pictures.tolist() == [8, 7, 9]
    assert found.boxes.tolist() == [[1, 1, 6, 6], [0, 0, 5, 5], [1, 2, 3, 4]]
    assert (found.proposed_in.tolist(), found.rows.tolist()) == ([7, 8], [3, 4])
    assert found.proposals.tolist() == [[5, 5, 10, 10], [4, 4, 9, 9]]


def test_proposals_that_could_not_be_read_are_left_out():
    assert TrainRegions.join(_table(), MENTIONS, _features([40]), KNOWN, "r").rows.tolist() == [4]


def test_without_proposals_there_is_nothing_to_mine():
    with pytest.raises(InputError, match="train r: no picture of its training pairs has a proposal; add train to the"):
        TrainRegions.join(_table(proposed=[False] * 6), MENTIONS, _features(), KNOWN, "r")


@pytest.fixture(scope="module")
def joined(tmp_path_factory):
    """A function of changes to the column ``mismatched`` of noise ``half``: those of the training pairs."""
    with pytest.MonkeyPatch.context() as patch:
        root = tmp_path_factory.mktemp("table")
        patch.chdir(root)
        ready(load_params(root), "half")
        told = captions.read(paths.prepared("toy"))
        shown = pairs.read(paths.injected("toy", "half"))
        source = features.read(paths.extracted("toy", "plain"))
        words = texts.read(paths.extracted("toy", "words"))

    def mismatched(change):
        column = shown["mismatched"].to_pylist()
        train = [place for place, split in enumerate(shown["split"].to_pylist()) if split == "train"]
        at = shown.column_names.index("mismatched")
        table = shown.set_column(at, "mismatched", pa.array(change(column, train), pa.bool_()))
        return TrainTable.join(told, table, source, words).train_pairs.mismatched

    return mismatched


def test_the_injected_truth_is_that_of_the_training_pairs(joined):
    wanted = []
    found = joined(lambda column, train: wanted.extend(column[place] for place in train) or column)
    assert found.dtype == bool
    assert found.tolist() == wanted
    assert any(wanted)


@pytest.mark.parametrize(
    "change",
    [
        lambda column, train: [None if place in train else value for place, value in enumerate(column)],
        lambda column, train: [None if place == train[0] else value for place, value in enumerate(column)],
        lambda column, train: np.zeros(len(column), bool).tolist(),
    ],
    ids=["all unknown", "one unknown", "none mismatched"],
)
def test_without_the_whole_truth_and_without_mismatches_there_is_nothing_to_measure(joined, change):
    assert joined(change) is None


VECTORS = {"w1": [1.0, -2.0, 3.0], "w6": [0.5, 0.0, -0.5], "other": [9.0, 9.0, 9.0], "<unk>": [7.0, 7.0, 7.0]}


def _text_file(path, known):
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in known.items()))
    return str(path)


def _text(path, **options):
    return member(TEXT_ENCODERS, "gru", **{"word_dim": 3, "vectors": str(path), **options})


def test_known_words_start_from_their_vectors_and_others_as_they_were_drawn(tmp_path, capsys):
    pairs = some_pairs(40)
    text = _text(_text_file(tmp_path / "vectors.txt", VECTORS))
    found = inputs.start_vectors(text, pairs.texts, "one")
    drawn, filled = (some_model(pairs, text=text, seed=5).txt.embed for _ in range(2))
    found.fill(filled)
    words = pairs.texts.words
    for place, word in enumerate(words):
        known = word in VECTORS and word not in SPECIAL
        expected = torch.tensor(VECTORS[word]) if known else drawn.weight[place]
        assert torch.equal(filled.weight[place], expected), word
    assert filled.weight.requires_grad
    said = [words[token] for token in pairs.texts.tokens.tokens]
    share = sum(word in VECTORS for word in said) / len(said)
    assert (
        f"one: 2 of 8 words start from {tmp_path / 'vectors.txt'}, {share:.1%} of the words" in capsys.readouterr().err
    )


def test_arrays_are_read_with_the_file_of_their_words(tmp_path):
    np.save(tmp_path / "vectors.npy", np.array(list(VECTORS.values()), np.float32))
    (tmp_path / "words.txt").write_text("\n".join(VECTORS))
    text = _text(tmp_path / "vectors.npy", words=str(tmp_path / "words.txt"), freeze_vectors=True)
    found, embed = inputs.start_vectors(text, some_pairs().texts, "one"), torch.nn.Embedding(12, 3)
    found.fill(embed)
    assert embed.weight[[5, 10]].tolist() == [VECTORS["w1"], VECTORS["w6"]]
    assert not embed.weight.requires_grad
    assert inputs.vector_files(text) == [tmp_path / "vectors.npy", tmp_path / "words.txt"]


def test_what_does_not_fit_is_one_line(tmp_path):
    texts, path = some_pairs().texts, _text_file(tmp_path / "vectors.txt", VECTORS)
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
    rng = np.random.default_rng(0)
    known = {word: rng.standard_normal(6).round(3).tolist() for word in WORDS}
    path = tmp_path / "vectors.txt"
    _text_file(path, known)
    runs = {"sum": PARAMS["runs"]["sum"] | {"options": {"text": {"vectors": str(path), "freeze_vectors": True}}}}
    params = ready(load_params(tmp_path, runs=runs, train=PARAMS["train"] | {"epochs": 1}))
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
