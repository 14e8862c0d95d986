"""Training pairs, their matches and regions, word vectors from a file, and the batches of samplers."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.toy_project import PARAMS, WORDS, load_params
from tests.train.some import member, some_model, some_pairs
from vse_pipe.artifacts import captions, features, pairs, texts
from vse_pipe.artifacts import regions as artefact
from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.text import SPECIAL
from vse_pipe.embed.stage import embed
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.registry import SAMPLERS, TEXT_ENCODERS
from vse_pipe.train import inputs
from vse_pipe.train.data import Pairs, TrainTable, text_lengths
from vse_pipe.train.matches import Incidence
from vse_pipe.train.schemes.hard_negatives import joined_boxes
from vse_pipe.train.stage import train

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
VECTORS = {"w1": [1.0, -2.0, 3.0], "w6": [0.5, 0.0, -0.5], "other": [9.0, 9.0, 9.0], "<unk>": [7.0, 7.0, 7.0]}
by_captions, by_images = SAMPLERS.load("captions"), SAMPLERS.load("images")
OWNERS = np.repeat([7, 3, 9, 4, 8, 1], [5, 5, 1, 4, 6, 2])
TILED = np.tile([7, 3, 9, 4, 8, 1, 5], 4)[:26]


def test_a_batch_is_a_plain_gather_also_of_text_vectors():
    pairs = some_pairs(9)
    batch, tokens = pairs.batch(np.array([4, 0])), pairs.texts.tokens
    assert batch.features.dtype == torch.float32
    assert batch.features.tolist() == [pairs.array[1].tolist(), pairs.array[2].tolist()]
    assert batch.owners.tolist() == [20, 10]
    for place, padded, length in zip([4, 0], *batch.texts, strict=True):
        assert length == tokens.lengths[place]
        assert padded[:length].tolist() == tokens.tokens[tokens.starts[place] :][:length].tolist()
        assert not padded[length:].any()
    array = np.arange(12, dtype=np.float16).reshape(4, 3)
    texts = Texts("vectors", np.arange(4), {}, None, [], array, np.array([3, 2, 1, 0]))
    pairs = Pairs(np.eye(4, dtype=np.float32), np.arange(4), texts, np.array([1, 0, 2, 3]), np.arange(4))
    (vectors,) = pairs.batch(np.array([0, 3])).texts
    assert (vectors.dtype, vectors.tolist()) == (torch.float32, [array[2].tolist(), array[0].tolist()])
    assert text_lengths(texts, np.array([0, 1])).tolist() == [1, 1]


@given(st.integers(0, 1000), st.lists(st.integers(0, 29), min_size=2, max_size=12, unique=True))
def test_kin_and_positives_are_those_of_all_that_is_known(seed, taken):
    rng = np.random.default_rng(seed)
    owners, said = rng.integers(100, 110, 30), rng.integers(5, 14, 30)
    more = rng.integers(98, 112, 9), rng.integers(4, 15, 9)
    both = (np.concatenate(side).tolist() for side in zip((owners, said), more, strict=True))
    seen, pairs = set(zip(*both, strict=True)), np.array(taken)
    known = Incidence.from_pairs(owners, said, *more)
    found = known.matches(pairs)
    assert known.ids[known.images].tolist() == owners.tolist()
    images, texts = (np.unique(side[pairs]).tolist() for side in (owners, said))
    assert [images[number] for number in found.images.tolist()] == owners[pairs].tolist()
    assert [texts[number] for number in found.texts.tolist()] == said[pairs].tolist()
    assert found.positives.tolist() == [[(i, t) in seen for t in texts] for i in images]
    of_image = {i: {t for j, t in seen if j == i} for i in images}
    of_text = {t: {i for i, u in seen if u == t} for t in texts}
    assert found.image_kin.tolist() == [[bool(of_image[i] & of_image[j]) for j in images] for i in images]
    assert found.text_kin.tolist() == [[bool(of_text[t] & of_text[u]) for u in texts] for t in texts]


def _features(failed=()) -> Features:
    kept = np.array([one for one in sorted(IDS) if one not in failed])
    return Features(np.zeros((6, 2), np.float32), kept, kept // 10 - 1, {}, failed=np.array(failed, np.int64))


def _table(**changes) -> pa.Table:
    return pa.table({**COLUMNS, **changes}).cast(artefact.SCHEMA)


def test_boxes_of_all_mentions_and_the_proposals_of_the_pictures_of_pairs():
    found = joined_boxes(_table(), MENTIONS, _features(), KNOWN)
    assert KNOWN.ids.tolist() == [10, 30, 70]
    assert found.pictures.tolist() == [8, 7, 9]
    assert found.boxes.tolist() == [[1, 1, 6, 6], [0, 0, 5, 5], [1, 2, 3, 4]]
    assert (found.proposed_in.tolist(), found.rows.tolist()) == ([7, 8], [3, 4])
    assert found.proposals.tolist() == [[5, 5, 10, 10], [4, 4, 9, 9]]
    read = joined_boxes(_table(), MENTIONS, _features([40]), KNOWN)
    assert read.rows.tolist() == [4], "proposals that could not be read are left out"
    with pytest.raises(InputError, match="no picture of the training pairs has a proposal; add train to the"):
        joined_boxes(_table(proposed=[False] * 6), MENTIONS, _features(), KNOWN)


def test_the_injected_truth_is_that_of_the_training_pairs_where_all_of_it_is_known(project):
    inject(load_params(project), "half")
    told, shown = captions.read(paths.prepared("toy")), pairs.read(paths.injected("toy", "half"))
    source, words = features.read(paths.extracted("toy", "plain")), texts.read(paths.extracted("toy", "words"))
    at, column = shown.column_names.index("mismatched"), np.array(shown["mismatched"].to_pylist(), object)
    train = np.flatnonzero(np.array(shown["split"]) == "train")
    found = TrainTable.join(told, shown, source, words).train_pairs.mismatched
    assert (found.dtype, found.tolist()) == (bool, column[train].tolist())
    assert any(found)
    column[train[0]] = None
    table = shown.set_column(at, "mismatched", pa.array(column.tolist(), pa.bool_()))
    assert TrainTable.join(told, table, source, words).train_pairs.mismatched is None


def _text_file(path, known):
    path.write_text("".join(f"{word} {' '.join(map(str, vector))}\n" for word, vector in known.items()))
    return str(path)


def _text(path, **options):
    return member(TEXT_ENCODERS, "gru", **{"word_dim": 3, "vectors": str(path), **options})


def test_known_words_start_from_their_vectors_and_others_as_they_were_drawn(tmp_path, capsys):
    pairs, path = some_pairs(40), _text_file(tmp_path / "vectors.txt", VECTORS)
    drawn, filled = (some_model(pairs, text=_text(path), seed=5).txt for _ in range(2))
    filled.start_from(*inputs.word_vectors(_text(path), pairs.texts))
    words = pairs.texts.words
    for place, word in enumerate(words):
        known = word in VECTORS and word not in SPECIAL
        expected = torch.tensor(VECTORS[word]) if known else drawn.embed.weight[place]
        assert torch.equal(filled.embed.weight[place], expected), word
    assert filled.embed.weight.requires_grad
    assert f"2 of 8 words start from {path}" in capsys.readouterr().err
    # An encoder that draws its table reads nothing.
    assert inputs.word_vectors(member(TEXT_ENCODERS, "gru"), some_pairs().texts) is None
    assert inputs.word_file(member(TEXT_ENCODERS, "two_branch")) is None


@pytest.mark.parametrize(
    ("file", "options", "error", "said"),
    [
        ("all", {"word_dim": 4}, UsageError, r"word_dim is 4, but .*all.txt has vectors of 3 .* set word_dim: 3"),
        ("none", {}, MissingResource, r"none.txt: no such file; text\.gru\.vectors needs"),
        ("all", {"sha256": "0" * 64}, IntegrityError, r"all\.txt: sha256 is .*, expected 000"),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, file, options, error, said):
    _text_file(tmp_path / "all.txt", VECTORS)
    with pytest.raises(error, match=said):
        inputs.word_vectors(_text(tmp_path / f"{file}.txt", **options), some_pairs().texts)


def test_other_vectors_are_another_run_and_the_file_is_needed_for_training_alone(project, capsys):
    rng, path = np.random.default_rng(0), project / "vectors.txt"
    known = {word: rng.standard_normal(6).round(3).tolist() for word in WORDS}
    _text_file(path, known)
    run = PARAMS["runs"]["sum"] | {"options": {"text": {"vectors": str(path)}}}
    params = load_params(project, runs={"sum": run}, train=PARAMS["train"] | {"epochs": 1})

    first = [(train(params, "sum", "cpu") / "model.safetensors").read_bytes() for _ in range(2)]
    assert first[0] == first[1]
    assert "is up to date" in capsys.readouterr().err
    _text_file(path, known | {"dog": [0.0] * 6})
    assert (train(params, "sum", "cpu") / "model.safetensors").read_bytes() != first[0]
    path.unlink()
    embed(params, "sum", "cpu")


# Samplers: every pair in its batch, nothing more than once, and the order of the generator.


def _checked(member, owners: np.ndarray, size: int, **options) -> list[np.ndarray]:
    """Batches that depend on the generator only; positions within range, no pair twice in a batch, no batch of one."""
    drawn = []
    for seed, number in ((5, 0), (5, 1), (6, 1)):
        np.random.seed(number)
        drawn.append(member.batches(owners, size, member.Params(**options), np.random.default_rng(seed)))
    same, again, changed = ([chosen.tolist() for chosen in batches] for batches in drawn)
    assert same == again != changed
    for chosen in same:
        assert len(set(chosen)) == len(chosen) > 1
        assert 0 <= min(chosen) <= max(chosen) < len(owners)
    return drawn[0]


def _plain_and_more(options: dict, seed: int, owners: np.ndarray, size: int, *texts: np.ndarray):
    """Each batch without these options, and what they add to it."""
    plain, more = (
        by_captions.batches(owners, size, by_captions.Params(**chosen), np.random.default_rng(seed), *texts)
        for chosen in ({}, options)
    )
    for before, after in zip(plain, more, strict=True):
        assert after[: len(before)].tolist() == before.tolist()
        assert len(set(after.tolist())) == len(after)
        yield before, after[len(before) :]


@pytest.mark.parametrize(("size", "sizes"), [(5, [5, 5, 5, 5, 3]), (11, [11, 11])])
def test_every_pair_once_but_for_a_last_batch_of_one(size, sizes):
    batches = _checked(by_captions, OWNERS, size)
    assert [len(chosen) for chosen in batches] == sizes
    assert len(set(np.concatenate(batches).tolist())) == sum(sizes)


@given(st.integers(1, 4), st.integers(0, 20), st.integers(2, 9))
def test_extra_positives_are_other_captions_of_the_batch_s_images(each, seed, size):
    owners = np.random.default_rng(seed).integers(0, 8, 30)
    for before, added in _plain_and_more({"extra_positives": each}, seed, owners, size):
        for image in np.unique(owners[before]):
            free = (owners == image).sum() - (owners[before] == image).sum()
            assert (owners[added] == image).sum() == min(each, free)
        assert set(owners[added]) <= set(owners[before])


@given(st.integers(0, 2), st.integers(1, 3), st.integers(0, 20), st.integers(2, 9))
def test_extra_pairs_bring_new_members_to_the_batch(texts_each, images_each, seed, size):
    """Many-to-many pairs: further texts of the batch's images that are not among its texts, and the reverse."""
    owners, texts = np.divmod(np.random.default_rng(seed).choice(56, 30, replace=False), 7)
    options = {"extra_positives": texts_each, "extra_images": images_each}
    for before, added in _plain_and_more(options, seed, owners, size, texts):
        for side, opposite, each in ((owners, texts, texts_each), (texts, owners, images_each)):
            for number in np.unique(side[before]):
                new = [pair for pair in np.flatnonzero(side == number) if opposite[pair] not in opposite[before]]
                assert np.isin(new, added).sum() == min(each, len(new))
        sides = {(owners[pair] in owners[before], texts[pair] in texts[before]) for pair in added}
        assert sides <= {(True, False), (False, True)}


@pytest.mark.parametrize("count", [1, 2, 3])
def test_each_image_once_with_the_wanted_number_of_captions(count):
    batches = _checked(by_images, TILED, 4, captions=count)
    owners = np.concatenate([np.unique(TILED[chosen]) for chosen in batches])
    assert sorted(owners) == sorted(np.unique(TILED)), "no image twice in an epoch"
    for chosen in batches:
        assert set(np.unique(TILED[chosen], return_counts=True)[1]) == {count}


def _with_weights(folder, values: dict[int, float]) -> pa.Table:
    """pairs.parquet of noise ``clean`` with a weight of 1, but for ``values`` by row."""
    table = pairs.read(folder)
    weights = np.ones(len(table), np.float32)
    weights[list(values)] = list(values.values())
    table = table.append_column("weight", pa.array(weights))
    pairs.write(folder, table, {key.decode(): value.decode() for key, value in table.schema.metadata.items()})
    return pairs.read(folder)


def test_pairs_of_weight_0_are_left_out_and_others_are_trusted_as_far_as_they_weigh(project):
    inject(load_params(project), "clean")
    told, folder = captions.read(paths.prepared("toy")), paths.injected("toy", "clean")
    source, words = features.read(paths.extracted("toy", "plain")), texts.read(paths.extracted("toy", "words"))
    plain = TrainTable.join(told, pairs.read(folder), source, words)
    dropped = TrainTable.join(told, _with_weights(folder, {1: 0, 4: 0}), source, words)
    kept = np.setdiff1d(plain.train_rows, [1, 4])
    assert (plain.train_pairs.trust, dropped.train_pairs.trust, dropped.left_out) == (None, None, (0, 0))
    assert dropped.train_rows.tolist() == kept.tolist()
    places = np.searchsorted(plain.train_rows, kept)
    for name in ("rows", "places", "owners"):
        assert np.array_equal(getattr(dropped.train_pairs, name), getattr(plain.train_pairs, name)[places]), name
    table = pairs.read(folder).drop_columns(["weight"])
    pairs.write(folder, table)
    weighed = TrainTable.join(told, _with_weights(folder, {1: 0, 2: 0.25}), source, words).train_pairs.trust
    assert (weighed.dtype, weighed.tolist()) == (np.float32, [1, 0.25, *[1.0] * (len(weighed) - 2)])


def test_weights_reach_the_loss_as_targets_or_stop_the_run(project):
    runs = {
        name: {**PARAMS["runs"]["sum"], "loss": loss, "scheme": scheme}
        for name, loss, scheme in (("crcl", "crcl", "plain"), ("sum", "sum", "plain"), ("own", "crcl", "crcl"))
    }
    params = load_params(project, runs=runs)
    inject(params, "clean")
    plain = (train(params, "crcl", out=project / "before") / "model.safetensors").read_bytes()
    _with_weights(paths.injected("toy", "clean"), {0: 0.5, 2: 0.25})
    assert (train(params, "crcl") / "model.safetensors").read_bytes() != plain
    for run, loss, scheme in (("sum", "sum", "plain"), ("own", "crcl", "crcl")):
        told = f"pairs of noise 'clean' have weights between 0 and 1, which loss '{loss}' under scheme '{scheme}' does"
        with pytest.raises(InputError, match=f"train {run}: {told} not take"):
            train(params, run)
        assert not paths.trained(run).exists()
