from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tests.toy_project import PARAMS, load_params, write_decisions, write_prepared
from vse_pipe.artifacts import captions, images, pairs
from vse_pipe.core.errors import IntegrityError, ParamsError
from vse_pipe.core.files import sha256
from vse_pipe.inject.declaration import STAGES
from vse_pipe.inject.stage import inject
from vse_pipe.project.params.typed import Params
from vse_pipe.project.paths import prepared


@pytest.fixture
def params(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_prepared()
    table = images.read(prepared("toy"))
    digests = pa.array([f"digest {number}" for number in range(len(table))])
    images.write(prepared("toy"), table.set_column(table.schema.get_field_index("sha256"), "sha256", digests), ".")
    return load_params(tmp_path)


def test_only_train_pairs_move_and_the_truth_is_kept(params):
    table = pairs.read(inject(params, "half")).to_pandas()
    assert 0.2 < table.mismatched[table.split == "train"].mean() <= 0.5
    assert not table.mismatched[table.split != "train"].any()
    source = captions.read(prepared("toy")).to_pandas()
    assert (table.true_image_id == source.image_id).all()
    assert set(table.image_id[table.split == "train"]) <= set(source.image_id[source.split == "train"])


def test_the_same_seed_gives_the_same_bytes(params):
    first = (inject(params, "half") / pairs.NAME).read_bytes()
    assert (inject(params, "half") / pairs.NAME).read_bytes() == first


def test_a_draw_has_a_seed_of_its_own_and_models_learn_from_the_draw_of_their_seed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_prepared()
    half = PARAMS["noises"]["half"]
    noises = {**PARAMS["noises"], "second": {**half, "seed": 2}, "drawn": {**half, "seeds": [PARAMS["seed"], 2]}}
    run = {**PARAMS["runs"]["sum"], "noise": "drawn", "seeds": [2]}
    params = load_params(tmp_path, noises=noises, runs={"sum": run})
    assert params.runs["sum/2"].noise == "drawn/2"
    draws = (f"drawn/{PARAMS['seed']}", "drawn/2")
    assert params.draws == {"drawn": draws}
    project, first, second = (pairs.read(inject(params, name))["image_id"] for name in ("half", *draws))
    assert first.equals(project)
    assert second.equals(pairs.read(inject(params, "second"))["image_id"])
    assert not second.equals(first)


def published(values: np.ndarray) -> Params:
    """Params with a noise ``published`` that reads ``values`` from a file."""
    np.save("index.npy", values)
    node = {"dataset": "toy", "protocol": "file", "path": "index.npy", "sha256": sha256(Path("index.npy"))}
    return load_params(Path(), noises={**PARAMS["noises"], "published": node})


def test_an_index_per_image_moves_the_captions_of_train_images(params):
    order = np.random.default_rng(0).permutation(30)
    table = pairs.read(inject(published(order), "published"))
    frame = table.to_pandas()
    train = frame[frame.split == "train"]
    expected = [order[(true - 7) // 10] * 10 + 7 for true in train.true_image_id]
    assert train.image_id.tolist() == expected
    assert (frame.mismatched == (frame.image_id != frame.true_image_id)).all()
    assert table.schema.metadata[b"protocol"] == b"file"
    assert float(table.schema.metadata[b"mismatched"]) == pytest.approx(train.mismatched.mean(), abs=1e-5)


def test_a_file_that_was_exchanged_stops_the_stage(params):
    given = published(np.arange(30))
    np.save("index.npy", np.arange(30)[::-1])
    with pytest.raises(IntegrityError, match="put the right file there"):
        inject(given, "published")


def test_as_is_knows_nothing_about_train_pairs(params, capsys):
    own = load_params(Path(), noises={**PARAMS["noises"], "own": {"dataset": "toy", "protocol": "as_is"}})
    table = pairs.read(inject(own, "own"))
    source = captions.read(prepared("toy"))
    assert table["image_id"].equals(source["image_id"])
    train = np.asarray(table["split"]) == "train"
    for column in ("true_image_id", "mismatched"):
        assert (np.asarray(table[column].is_null()) == train).all(), column
    assert table.schema.metadata[b"mismatched"] == b"unknown"
    assert "60 train pairs, an unknown share mismatched (protocol as_is)" in capsys.readouterr().err


def decided(*rows: dict, **options: object) -> Params:
    """Params with a noise ``cleaned`` that applies ``rows`` to the pairs of ``half``, or of ``options``."""
    write_decisions("toy", [{"kind": "pair"} | row for row in rows], None if options else "half")
    base = options or {"base": "caption", "rate": 0.5}
    node = {"dataset": "toy", "protocol": "decisions", "file": "decisions.csv", **base}
    return load_params(Path(), noises={**PARAMS["noises"], "cleaned": node})


def test_decisions_drop_rematch_and_weigh_the_pairs_of_their_base(params, capsys):
    before = pairs.read(inject(params, "half")).to_pandas().set_index("caption_id")
    pictures = images.read(prepared("toy")).to_pandas().set_index("image_id")
    files, digests = pictures.file, pictures.sha256
    wrong = before.index[before.mismatched.astype(bool)]
    a, b, c, d, e, f, g = (int(one) for one in wrong[:7])
    val = int(before.index[before.split == "val"][0])
    given = decided(
        {"id": a, "decision": "drop"},
        {"id": b, "decision": "take", "proposal": "picture", "other": int(before.true_image_id[b])},
        {"id": c, "decision": "drop"},
        {"id": d, "decision": "weight", "doubt": 0.75},
        {"id": e, "decision": "drop", "sha256": digests[before.true_image_id[e]]},  # the pair of another draw
        {"id": f, "decision": "take", "proposal": "picture", "other": int(before.image_id[val])},  # into test data
        {"id": val, "decision": "drop"},  # of prepare
        {"id": val + 1, "decision": "keep"},
        {"id": g, "decision": "keep"},
        {"id": 0, "decision": "keep", "by": "anna"},
        {"id": 0, "decision": "undo", "by": "anna"},
    )
    table = pairs.read(inject(given, "cleaned"))
    after = table.to_pandas().set_index("caption_id")
    expected = before.assign(weight=np.float32(1))
    expected.loc[b, "image_id"], expected.loc[b, "mismatched"] = before.true_image_id[b], False
    expected.loc[[a, c], "weight"], expected.loc[d, "weight"] = 0, 0.25
    pd.testing.assert_frame_equal(after, expected, check_dtype=False)
    told = capsys.readouterr().err
    assert (
        "not applied, because their picture or caption is another one now: "
        f"2 (pair {e} of {files[before.image_id[e]]}, row 6; pair {f} of {files[before.image_id[f]]}, row 7)" in told
    )
    assert (
        "decisions on pairs of val and test that are not applied: 1; set datasets.toy.decisions: decisions.csv" in told
    )
    rate = f"{expected[(expected.split == 'train') & (expected.weight > 0)].mismatched.mean():.2%}"
    assert (
        f"60 train pairs, 2 dropped, 1 rematched, 1 weighted, {rate} mismatched (protocol decisions on caption)" in told
    )


def test_on_pairs_as_they_are_the_truth_stays_unknown(params):
    given = decided({"id": 3, "decision": "drop"}, {"id": 5, "decision": "weight", "doubt": 1.0}, base="as_is")
    frame = pairs.read(inject(given, "cleaned")).to_pandas()
    assert frame.mismatched[frame.split == "train"].isna().all()
    assert frame.caption_id[frame.weight == 0].tolist() == [3, 5]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"base": "imag"}, r"noises\.cleaned\.base: unknown noise protocol 'imag'; did you mean 'image'"),
        ({"base": "file", "path": "index.npy"}, r"noises\.cleaned\.sha256: field required"),
    ],
)
def test_options_of_the_base_are_checked(params, options, message):
    with pytest.raises(ParamsError, match=message):
        decided({"id": 1, "decision": "drop"}, **options)


def test_the_decisions_and_the_files_of_the_base_are_sources(params):
    given = decided({"id": 1, "decision": "drop"}, base="file", path="index.npy", sha256="0" * 64)
    (declaration,) = (one for one in STAGES if one.group == "inject")
    assert [source.place for source in declaration.reads(given, "cleaned")] == ["decisions.csv", "index.npy"]
