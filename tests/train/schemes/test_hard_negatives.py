"""Whole runs on a tiny data set of regions: hard negative mining, and what every run knows of phrases and regions."""

import shutil
from collections import Counter
from contextlib import chdir
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock, create_autospec

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from tests.naive import losses as naive
from tests.regions_project import FEATURES, NOISE, REGIONS, SECTIONS, TEXTS, run_of, write_regions_project
from tests.toy_project import PARAMS, load_params
from tests.train.some import (
    CPU,
    MEMBERS,
    MINED,
    check_resumes,
    member,
    ready,
    some_model,
    some_pairs,
    some_scheme,
    weights_file,
)
from vse_pipe.artifacts import captions as captions_artefact
from vse_pipe.artifacts import features, model_files, regions, texts
from vse_pipe.artifacts import images as images_artefact
from vse_pipe.artifacts import pairs as pairs_artefact
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.extract.text_stage import extract_texts
from vse_pipe.inject.stage import inject
from vse_pipe.project import paths
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.train.data import Pairs, TrainTable
from vse_pipe.train.losses import structure
from vse_pipe.train.matches import Incidence
from vse_pipe.train.model import evaluating
from vse_pipe.train.pictures import Pictures
from vse_pipe.train.schemes.hard_negatives import HardNegatives, Mined, TrainRegions, joined_boxes, mine
from vse_pipe.train.stage import train


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    with chdir(root := tmp_path_factory.mktemp("mining")):
        params = write_regions_project(root, mined=MINED)
        train(params, "mined", "cpu")
    return root, params


@pytest.fixture
def project(trained, tmp_path, monkeypatch):
    monkeypatch.chdir(shutil.copytree(trained[0], tmp_path / "project"))
    return trained[1]


# Just before the mining, and after it.
@pytest.mark.acceptance
def test_a_killed_run_goes_on_and_ends_bit_equal(project):
    check_resumes(project, "mined", 2, 4)


def test_the_last_epoch_is_the_model_or_the_best_after_the_mining(project, capsys):
    """The same training under both; only the kept epoch differs."""
    params = load_params(Path(), **SECTIONS, runs={"mined": MINED, "best": _with(MINED, keep="best")})
    train(params, "best", "cpu")
    histories = [model_files.read_history(paths.trained(run))["val_rsum"].tolist() for run in ("mined", "best")]
    assert histories[0] == histories[1]
    later = histories[0][2:]
    kept = [model_files.read_config(paths.trained(run))["best"] for run in ("mined", "best")]
    assert kept[0] == {"epoch": 5, "val_rsum": later[-1]}
    assert kept[1] == {"epoch": 3 + later.index(max(later)), "val_rsum": max(later)}
    assert (weights_file("mined") == weights_file("best")) == (kept[0] == kept[1])
    with pytest.raises(UsageError, match="keeps the last epoch"):
        train(load_params(Path(), **SECTIONS, runs={"mined": _patient(MINED)}), "mined", "cpu")


def _with(run: dict, **scheme) -> dict:
    return {**run, "options": {**run["options"], "scheme": {**run["options"]["scheme"], **scheme}}}


def _patient(run: dict) -> dict:
    return {**run, "train": {**run["train"], "patience": 1}}


def test_mined_regions_enter_as_negatives_of_their_phrases(project, monkeypatch):
    # Proposals of pictures of the phrase, two each at most; the terms within views are gone.
    seen, real = [], HardNegatives.terms

    def spy(self, images, said, batch):
        found, before = real(self, images, said, batch), within.call_count
        within.reset_mock()
        seen.append((self, len(images) - len(batch.pairs), batch, self._mined_for, before))
        return found

    within = Mock(wraps=structure._within)
    monkeypatch.setattr(structure, "_within", within)
    monkeypatch.setattr(HardNegatives, "terms", spy)
    shutil.rmtree(paths.trained("mined"))
    train(project, "mined", "cpu")
    plain, mined = seen[: 2 * (len(seen) // 5)], seen[2 * (len(seen) // 5) :]
    assert all(count == 0 and calls == 2 for _, count, _, _, calls in plain)
    assert sum(count for _, count, *_ in mined) > 10
    table = regions.read(paths.prepared(REGIONS)).to_pandas()
    for scheme, count, batch, mined_for, calls in mined:
        pairs, of = scheme.setting.pairs, batch.pairs[mined_for.numpy()]
        assert not calls
        assert len(mined_for) == count == len(batch.features) - len(batch.pairs)
        assert np.bincount(pairs.incidence.texts[of], minlength=1).max(initial=0) <= 2
        for feature, pair in zip(batch.features[len(batch.pairs) :], of, strict=True):
            rows = table[(pairs.array == feature.numpy()).all(axis=1)]
            assert rows.proposed.any()
            same = pairs.incidence.texts == pairs.incidence.texts[pair]
            assert rows.source_id.isin(scheme.regions.pictures[pairs.incidence.images[same]]).any()


def _stored() -> features.Features:
    return features.read(paths.extracted(REGIONS, FEATURES))


def _joined(mentions: pa.Table) -> TrainTable:
    told, shown = captions_artefact.read(paths.prepared(REGIONS)), pairs_artefact.read(paths.injected(REGIONS, NOISE))
    words = texts.read(paths.extracted(REGIONS, TEXTS))
    return TrainTable.join(told, shown, _stored(), words, mentions=mentions)


def _matches(pairs: Pairs) -> torch.Tensor:
    return pairs.matches(np.arange(len(pairs))).same


def _belonging(rows: pd.DataFrame, known: pd.DataFrame) -> list[list[bool]]:
    """Whether the text of each row is known of the image of each."""
    seen = {*zip(known.image_id, known.text, strict=True)}
    return [[(image, text) in seen for text in rows.text] for image in rows.image_id]


def _fewer_pairs(each: int) -> None:
    """Of each phrase in train the first ``each`` mentions alone stay captions, as ``regions_per_phrase`` does; regions without any
    caption are no rows any more."""
    folder = paths.prepared(REGIONS)
    told = captions_artefact.read(folder)
    rows = told.to_pandas()
    kept = ((rows.groupby(["split", "text"]).cumcount() < each) | (rows.split != "train")).to_numpy()
    captions_artefact.write(folder, told.filter(pa.array(kept)))
    gone = pa.array(sorted(set(rows.image_id) - set(rows.image_id[kept])))
    pictured, boxes = images_artefact.read(folder), regions.read(folder)
    left = pc.invert(pc.is_in(boxes["image_id"], value_set=gone))
    images_artefact.write(folder, pictured.filter(left), str(images_artefact.root(pictured)))
    regions.write(folder, boxes.filter(left), str(regions.source(boxes)))


def test_regions_that_were_not_drawn_for_a_phrase_are_its_own_all_the_same(project):
    folder = paths.prepared(REGIONS)
    spoken = regions.read_phrases(folder).to_pandas()
    # Two blocks of every picture are called the same, and each keeps another name beside.
    spoken.loc[spoken.split.eq("train") & spoken.text.str.startswith("a "), "text"] = "it"
    regions.write_phrases(folder, pa.Table.from_pandas(spoken, preserve_index=False))
    told = captions_artefact.read(folder)
    text = spoken.set_index("phrase_id").text[told["caption_id"].to_numpy()]
    captions_artefact.write(folder, told.set_column(2, "text", [text.to_numpy()]))
    _fewer_pairs(3)
    inject(project, NOISE)
    extract_texts(project, TEXTS)
    found = _joined(regions.read_phrases(folder)).train_pairs
    rows, whole = captions_artefact.read(folder).to_pandas().query("split == 'train'"), spoken.query("split == 'train'")
    assert len(rows) == len(found) < len(whole.drop_duplicates(["region_id", "text"]))
    known_by = whole[["region_id", "text"]].rename(columns={"region_id": "image_id"})
    assert _matches(found).tolist() == _belonging(rows, known_by)
    assert _matches(_joined(regions.read_phrases(folder)[:0]).train_pairs).sum() < _matches(found).sum()
    known = found.incidence
    assert set(known.ids.tolist()) == set(whole.region_id)
    assert len(known.ids) > rows.image_id.nunique()
    of = joined_boxes(regions.read(folder), regions.read_phrases(folder), _stored(), known)
    boxes = spoken.drop_duplicates("region_id").set_index("region_id").loc[known.ids]
    assert of.boxes.tolist() == boxes[["x1", "y1", "x2", "y2"]].to_numpy().tolist()
    assert of.pictures.tolist() == boxes.image_id.tolist()


def test_a_data_set_without_boxes_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = {**PARAMS["runs"]["sum"], "scheme": "hard_negatives", "loss": "structure", "similarity": "cosine"}
    params = ready(load_params(tmp_path, runs={"mined": run}))
    with pytest.raises(InputError, match=r"data/prepare/toy/regions\.parquet does not exist"):
        train(params, "mined", "cpu")
    assert not paths.trained("mined").exists()


def test_chunks_and_pixels_are_refused(project):
    members = {**MEMBERS, "image": "linear"}
    run = run_of(**members, options={"text": {"batch_norm": "none"}}, train={"chunk": 4})
    with pytest.raises(UsageError, match=r"hard_negatives.*train\.chunk 0"):
        train(load_params(Path.cwd(), **SECTIONS, runs={"mined": run}), "mined", "cpu")
    pixels = create_autospec(Pictures, instance=True, batch_size=1)
    with pytest.raises(UsageError, match="among stored features"):
        some_scheme(replace(some_pairs(), pictures=pixels), "structure", "hard_negatives")


def _boxes(rng, count: int) -> np.ndarray:
    corners = rng.integers(0, 12, (count, 2))
    return np.concatenate([corners, corners + rng.integers(4, 14, (count, 2))], axis=1).astype(np.float64)


def _setting(seed: int, count: int = 40, proposals: int = 60, pictures: int = 7):
    """Pairs of ten regions and six texts in seven pictures, proposals in all but the last, and a model of them."""
    rng = np.random.default_rng(seed)
    array = rng.standard_normal((10 + proposals, 6)).astype(np.float32)
    owners, said = np.divmod(np.sort(rng.choice(60, count, replace=False)), 6)
    vectors = rng.standard_normal((6, 5)).astype(np.float32)
    texts = Texts("vectors", np.arange(6), {}, None, [], vectors, np.arange(6))
    # Regions 10 to 14 belong to texts and are in no pair.
    further = rng.integers(0, 15, 12), rng.integers(0, 6, 12)
    known = Incidence.from_pairs(owners, said, *further)
    pairs = Pairs(array, owners, texts, said, owners, incidence=known)
    of_region, boxes = rng.permutation(15) % pictures, _boxes(rng, 15)
    shown = np.setdiff1d(of_region[owners], [pictures - 1])
    where = np.sort(rng.choice(shown, proposals))
    named = boxes[known.ids], of_region[known.ids]
    regions = TrainRegions(known, *named, 10 + rng.permutation(proposals), _boxes(rng, proposals), where)
    model = some_model(pairs, text=member(TEXT_ENCODERS, "two_branch", nonlinear=False), size=4, seed=seed)
    return model, pairs, regions


def _expected(model, pairs, regions, limit) -> set[tuple[int, int]]:
    with evaluating(model):
        scores = model.score(model.img(torch.from_numpy(pairs.array)), model.txt(torch.from_numpy(pairs.texts.array)))
    known, shown = pairs.incidence, set(pairs.rows.tolist())
    paired = {*zip(pairs.rows.tolist(), pairs.places.tolist(), strict=True)}
    told = [
        {
            "text": text,
            "picture": regions.pictures[number],
            "box": regions.boxes[number].tolist(),
            "score": float(scores[region, text]) if region in shown else None,
            "pair": (region, text) in paired,
        }
        for number, region in enumerate(known.ids.tolist())
        for text in range(6)
        if known.by_image[number, text]
    ]
    proposed = (side.tolist() for side in (regions.rows, regions.proposed_in, regions.proposals))
    others = [
        {"row": row, "picture": picture, "box": box, "score": scores[row].tolist()}
        for row, picture, box in zip(*proposed, strict=True)
    ]
    return naive.mined(told, others, limit)


def _found(mined: Mined) -> set[tuple[int, int]]:
    return {*zip(mined.texts.tolist(), mined.rows.tolist(), strict=True)}


@pytest.mark.parametrize("limit", [0.5, 0.2])
def test_equals_plain_loops(limit):
    for seed in range(4):
        setting = _setting(seed)
        found = mine(*setting, 60, limit, CPU, np.random.default_rng(0))
        expected = _expected(*setting, limit)
        assert _found(found) == expected
        assert len(found.texts) == len(expected) > 5
        assert (np.diff(found.texts) >= 0).all()


def test_so_many_of_each_text_are_kept_and_drawn():
    setting = _setting(1)
    everything, some, others = (
        mine(*setting, most, 0.5, CPU, np.random.default_rng(seed)) for most, seed in ((60, 0), (3, 0), (3, 1))
    )
    counts = Counter(everything.texts.tolist())
    assert max(counts.values()) > 3
    assert Counter(some.texts.tolist()) == {text: min(count, 3) for text, count in counts.items()}
    assert some.rows.tolist() != others.rows.tolist()
    assert _found(some) < _found(everything)
