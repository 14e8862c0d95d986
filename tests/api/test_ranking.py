"""The Python door ranks as the command does, and says what is wrong with its arguments."""

import contextlib
import doctest
import importlib
import inspect
import pkgutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import vse_pipe as vp
from tests.api import refused
from tests.evaluate.files import Files
from tests.naive import criteria as naive
from vse_pipe import api
from vse_pipe.api import criteria as page
from vse_pipe.export.export import export_vectors
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.registry import INFERENCES, LOSSES
from vse_pipe.ranking.inference import options

RNG = np.random.default_rng(1)
IMAGES = RNG.normal(size=(40, 6)).astype(np.float32)
OWNERS = RNG.permutation(np.repeat(np.arange(40), 3))
CAPTIONS = (IMAGES[OWNERS] + RNG.normal(size=(120, 6))).astype(np.float32)
BANK, BANK_IMAGES = RNG.normal(size=(2, 50, 6)).astype(np.float32)
UNIT = [side / np.linalg.norm(side, axis=1, keepdims=True) for side in (IMAGES, CAPTIONS)]
SCORES = UNIT[0] @ UNIT[1].T


EXAMPLES = ["vse_pipe", *(f"vse_pipe.api.{each.name}" for each in pkgutil.iter_modules(api.__path__))]


@pytest.mark.parametrize("module", [name for name in EXAMPLES if name != "vse_pipe.api.models"])  # needs a project
def test_the_examples_of_the_docstrings_run(module):
    found = doctest.testmod(importlib.import_module(module))
    assert found.failed == 0


def test_the_package_starts_without_torch_and_names_what_it_has():
    code = "import sys, vse_pipe as vp; assert not {'torch', 'numpy', 'pandas'} & set(sys.modules); print(set(vp.__all__) <= set(dir(vp)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"
    with pytest.raises(AttributeError, match="no attribute 'ranks'; it has "):
        _ = vp.ranks


def test_every_criterion_has_its_name_here():
    members = [value for title, value in vars(page).items() if inspect.isfunction(value) and title[0].isupper()]
    assert {member().name for member in members} <= set(INFERENCES.names())
    assert {getattr(page, name)().name for name in INFERENCES.names()} == set(INFERENCES.names())
    with pytest.raises(AttributeError, match=r"unknown inference.* 'CSL'"):
        _ = vp.criteria.CSL


@pytest.fixture
def written(tmp_path):
    sides = {"images": IMAGES, "captions": CAPTIONS, "owners": OWNERS, "bank": BANK, "bank_images": BANK_IMAGES}
    for name, array in sides.items():
        np.save(tmp_path / f"{name}.npy", array)
    return {name: tmp_path / f"{name}.npy" for name in sides}


@pytest.mark.parametrize("has_bank", [False, True])
@pytest.mark.parametrize("name", [*INFERENCES.names(), "is+rgm", "csls+gm"])
def test_the_figures_are_those_of_the_command(written, name, has_bank):
    given = {"rgm": options.RgmOptions(lam=2.0)}
    matching = vp.criteria.RGM(lam=2)
    criterion = {"is+rgm": vp.criteria.IS() + matching, "rgm": matching}.get(name, name)
    banks = {key: written[key] for key in ("bank", "bank_images")} if has_bank else {}
    files = Files(
        written["images"], written["captions"], caption_images=written["owners"],
        bank_images=banks.get("bank_images"), bank_captions=banks.get("bank"),
    )  # fmt: skip
    (expected,) = files.ranked([name], EvaluateParams(), given).values()
    arrays = {"bank": BANK, "bank_images": BANK_IMAGES} if has_bank else {}
    result = vp.rank(IMAGES, CAPTIONS, OWNERS, criterion=criterion, **arrays)
    figures = result.metrics()
    for key in ("image_to_text", "text_to_image", "rsum", "hs_sum", "inference", "parameters", "ties", "transductive"):
        assert figures[key] == expected[key], key
    assert result.intervals(seed=1) == expected["intervals"]


def test_ranks_are_those_of_a_loop_and_lists_those_of_a_sort():
    result = vp.rank(IMAGES, CAPTIONS, OWNERS)
    for direction, scores, correct in (
        ("image_to_text", SCORES, [np.flatnonzero(image == OWNERS) for image in range(40)]),
        ("text_to_image", SCORES.T, OWNERS[:, None]),
    ):
        expected = [1 + int((row > row[list(right)].max()).sum()) for row, right in zip(scores, correct, strict=True)]
        assert result.ranks(direction).tolist() == expected
        values, items = result.top(5, direction)
        assert np.array_equal(items, np.argsort(-scores, axis=1, kind="stable")[:, :5])
        np.testing.assert_allclose(values, -np.sort(-scores, axis=1)[:, :5], rtol=1e-5)


def test_lists_are_those_under_the_criterion():
    _, items = vp.rank(IMAGES, CAPTIONS, OWNERS, criterion=vp.criteria.NNN(k=3, alpha=0.5)).top(4, "text_to_image")
    expected = np.array(naive.nnn(SCORES.T.tolist(), SCORES.T.tolist(), 3, 0.5))
    assert np.array_equal(items, np.argsort(-expected, axis=1, kind="stable")[:, :4])


@pytest.mark.parametrize("criterion", ["nns", "csls", "is", "nnn", "qb_norm", "sinkhorn", "mutual_proximity", "gm"])
@pytest.mark.parametrize("has_bank", [False, True])
def test_scores_are_ranked_as_the_vectors_that_they_come_from(criterion, has_bank):
    left, right, bank, bank_images = (torch.from_numpy(side) for side in (*UNIT, BANK, BANK_IMAGES))
    banks = {"bank": left @ bank.T, "bank_images": bank_images @ right.T} if has_bank else {}
    found = vp.rank_scores(left @ right.T, OWNERS, criterion=criterion, **banks).metrics()
    arrays = {"bank": bank, "bank_images": bank_images} if has_bank else {}
    expected = vp.rank(left, right, OWNERS, criterion=criterion, similarity="dot", **arrays).metrics()
    for direction in ("image_to_text", "text_to_image"):
        assert found[direction] == pytest.approx(expected[direction], abs=3)
    assert found["rsum"] == pytest.approx(expected["rsum"], abs=3)


SIGNS = np.packbits(IMAGES.repeat(3, axis=1) > 0, axis=1)
REPEATED = IMAGES[OWNERS]
HIDDEN = np.ma.array(CAPTIONS, mask=CAPTIONS > 3)
SILENT = {
    "codes": (lambda: vp.rank(SIGNS, SIGNS), r"images has shape .* of uint8; expected \(rows, dim\) numbers"),
    "owned one by one": (lambda: vp.rank(REPEATED, CAPTIONS, np.arange(120)), "120 images have 40 different vectors"),
    "audit": (lambda: vp.noise.audit(REPEATED, CAPTIONS), "images: 120 images have 40 different vectors"),
    "masked": (lambda: vp.rank(IMAGES, HIDDEN, OWNERS), r"captions: values are masked"),
    "bank": (lambda: vp.rank(IMAGES, CAPTIONS, OWNERS, criterion="csls", bank=BANK), r"bank_images has shape \(\) of object"),
}  # fmt: skip


@pytest.mark.parametrize("name", SILENT)
def test_what_would_be_wrong_without_a_word_is_refused(name):
    refused(*SILENT[name])


def test_few_repeated_pictures_whole_numbers_and_repeated_pictures_with_captions_of_their_own_are_ranked():
    assert vp.rank(np.eye(3, dtype=int), [[1, 0, 0], [0, 1, 0], [0, 0, 1]]).metrics()["rsum"] == 600
    assert vp.rank(IMAGES, np.ma.array(CAPTIONS), OWNERS).metrics() == vp.rank(IMAGES, CAPTIONS, OWNERS).metrics()
    some = np.concatenate([IMAGES, IMAGES[:3]])
    vp.rank(some, some)
    vp.rank(np.repeat(IMAGES, 2, axis=0), CAPTIONS[:80].repeat(2, axis=0), np.arange(160) // 2)


def test_open_parameters_are_chosen_on_validation_data():
    validation = (IMAGES[::-1] + 1, CAPTIONS[::-1] + 1, 39 - OWNERS[::-1])
    found = vp.rank(IMAGES, CAPTIONS, OWNERS, criterion="csls+rgm", validation=validation).metrics()
    assert set(found["tuned"]["text_to_image"]) == {"k", "lambda"}


def test_pairs_may_be_many_to_many_and_graded():
    pairs = np.array([(caption, image) for caption, image in enumerate(OWNERS)])
    plain = vp.rank(IMAGES, CAPTIONS, OWNERS).metrics()
    assert vp.rank(IMAGES, CAPTIONS, qrels=pairs).metrics()["rsum"] == plain["rsum"]
    grades = np.concatenate([pairs, [(caption, (image + 1) % 40) for caption, image in pairs]])
    graded = vp.rank(IMAGES, CAPTIONS, qrels=np.column_stack([grades, [2] * 120 + [1] * 120])).metrics()
    assert graded["text_to_image"]["r@1"] >= plain["text_to_image"]["r@1"]
    assert graded["judged"]["text_to_image"]["queries"] == 120
    some = vp.rank(IMAGES, CAPTIONS, qrels=pairs[:10])
    assert np.isfinite(some.ranks("text_to_image")).tolist() == [True] * 10 + [False] * 110


def test_a_comparison_has_the_difference_the_interval_and_holms_p():
    first, second, third = (vp.rank(IMAGES, CAPTIONS, OWNERS, criterion=name) for name in ("nns", "csls", "is"))
    table, several = vp.compare(first, second), vp.compare(first, second, third)
    row = table.loc[(1, "both", "rsum")]
    assert row["difference"] == pytest.approx(second.metrics()["rsum"] - first.metrics()["rsum"])
    assert row["low"] <= row["difference"] <= row["high"]
    assert (several.loc[1]["p"].dropna() >= table.loc[1]["p"].dropna()).all()
    assert set(several.index.get_level_values("ranking")) == {1, 2}
    with pytest.raises(vp.InputError, match=r"data.* in the first"):
        vp.compare(first, vp.rank(IMAGES, CAPTIONS[:80], np.arange(80) % 40))


@pytest.mark.parametrize("criterion", ["is", "csls", "nnn", "dual_is", "sinkhorn"])
def test_corrected_vectors_are_those_of_export_and_rank_as_the_criterion(written, tmp_path, criterion):
    found = vp.correct(IMAGES, BANK, criterion, bank_items=BANK_IMAGES)
    files = Files(
        written["images"], written["captions"], caption_images=written["owners"],
        bank_images=written["bank_images"], bank_captions=written["bank"],
    )  # fmt: skip
    export_vectors(files.sources(), criterion, EvaluateParams(), {}, "npy", "text_to_image", tmp_path / "out", "cpu")
    np.testing.assert_array_equal(found.items, np.load(tmp_path / "out/items.npy"))
    np.testing.assert_array_equal(found.queries(CAPTIONS), np.load(tmp_path / "out/queries.npy"))
    _, items = vp.rank(IMAGES, CAPTIONS, OWNERS, criterion=criterion, bank=BANK, bank_images=BANK_IMAGES).top(
        3, "text_to_image"
    )
    order = np.argsort(-(found.queries(CAPTIONS) @ found.items.T), axis=1, kind="stable")[:, :3]
    assert (order == items).mean() > 0.99


def test_an_order_of_rows_and_what_the_caller_does_with_the_figures_change_nothing():
    backwards = vp.rank_scores(SCORES[::-1], 39 - OWNERS)
    assert backwards.metrics()["rsum"] == vp.rank_scores(SCORES, OWNERS).metrics()["rsum"]
    assert vp.hubness(SCORES[::-1])["largest_hub"] == vp.hubness(SCORES)["largest_hub"]
    backwards.metrics()["text_to_image"]["r@1"] = 0
    assert backwards.metrics()["text_to_image"]["r@1"] > 0
    assert vp.rank(IMAGES.astype(">f4"), CAPTIONS, OWNERS).metrics() == vp.rank(IMAGES, CAPTIONS, OWNERS).metrics()
    pairs = np.array([(caption, image) for caption, image in enumerate(OWNERS)])
    more = np.concatenate([pairs, [(0, (OWNERS[0] + 1) % 40)]])
    with pytest.raises(vp.InputError, match=r"data.* in the first"):
        vp.compare(vp.rank(IMAGES, CAPTIONS, qrels=pairs), vp.rank(IMAGES, CAPTIONS, qrels=more))


def test_scores_are_not_copied_and_their_memory_changes_nothing():
    large = np.random.default_rng(1).random((600, 1200)).astype(np.float32)
    owners = np.arange(1200) // 2
    ranking = vp.rank_scores(large, owners, memory=8)
    assert ranking.metrics() == vp.rank_scores(large, owners).metrics()
    large[0, 7] = 2.0
    assert ranking.top(1, "image_to_text")[1][0, 0] == 7


def test_hubness_is_that_of_the_ranking():
    found, figures = vp.hubness(SCORES.T, k=10), vp.rank(IMAGES, CAPTIONS, OWNERS).metrics()["text_to_image"]
    for key, name in (("skewness", "skew"), ("gini", "gini"), ("robin_hood", "robin_hood"), ("anti_hubs", "anti_hubs")):
        assert found[key] == pytest.approx(figures[f"{name}@10"], abs=1e-5)
    assert found["occurrence"].sum() == 10 * 120
    assert found["largest_hub"] == found["occurrence"].max()


def test_a_criterion_says_the_parameters_that_were_given():
    assert repr(vp.criteria.IS(beta=20) + vp.criteria.GM()) == "is(beta=20.0)+gm"
    assert str(vp.criteria.CSLS(k=np.int64(3))) == "csls(k=3)"


def test_tensors_in_tensors_out():
    result = vp.rank(torch.from_numpy(IMAGES), torch.from_numpy(CAPTIONS).bfloat16().float(), torch.from_numpy(OWNERS))
    assert all(isinstance(side, torch.Tensor) for side in result.top(2, "image_to_text"))
    corrected = vp.correct(torch.from_numpy(IMAGES), torch.from_numpy(BANK))
    assert isinstance(corrected.items, torch.Tensor)
    assert isinstance(corrected.queries(torch.from_numpy(CAPTIONS)), torch.Tensor)
    vp.rank(torch.from_numpy(IMAGES).requires_grad_(), torch.from_numpy(CAPTIONS).bfloat16(), OWNERS)


BAD = {
    "no owners": (lambda: vp.rank(IMAGES, CAPTIONS), "owners is missing: 120 captions for 40 images"),
    "same bank": (lambda: vp.rank(IMAGES, CAPTIONS, OWNERS, bank=CAPTIONS, bank_images=BANK), "120 of the 120 captions that are ranked are in the bank too"),
    "validation is test": (
        lambda: vp.rank(IMAGES, CAPTIONS, OWNERS, criterion="rgm", validation=(IMAGES[::-1], CAPTIONS[::-1], 39 - OWNERS[::-1])),
        "40 of the 40 images that are ranked are in the validation data",
    ),
    "open": (lambda: vp.rank(IMAGES, CAPTIONS, OWNERS, criterion="rgm"), r"without validation.* vp.criteria.RGM.*lam"),
    "no bank items": (lambda: vp.correct(IMAGES, BANK, "dual_is"), "dual_is compares items with the items of the bank; give bank_items"),
    "needs vectors": (lambda: vp.rank_scores(SCORES, OWNERS, criterion="dual_is"), "compares items with items and there are only scores"),
    "hubness": (lambda: vp.hubness(SCORES * np.nan), "scores holds NaN or infinite values"),
}  # fmt: skip


def few(count: int) -> list:
    """Calls of every public function with this number of rows."""
    images, captions, bank, bank_images = np.random.default_rng(count).normal(size=(4, count, 4))
    names = [name for name in INFERENCES.names() if name != "rgm"]
    banks = {"bank": bank, "bank_images": bank_images}
    calls = [lambda name=name: vp.rank(images, captions, criterion=name).intervals(resamples=10) for name in names]
    calls += [lambda name=name: vp.rank(images, captions, criterion=name, **banks) for name in names]
    calls += [lambda name=name: vp.rank_scores(images @ captions.T, criterion=name) for name in names]
    foldable = [name for name in names if INFERENCES.traits(name).item_bias]
    calls += [lambda name=name: vp.correct(images, bank, name, bank_items=bank_images) for name in foldable]
    tensors = [torch.from_numpy(side) for side in (images, captions)]
    calls += [lambda name=name: getattr(vp.losses, name)()(*tensors) for name in LOSSES.names()]
    plain = vp.rank(images, captions)
    return [
        *calls,
        lambda: plain.top(5, "text_to_image"),
        lambda: vp.compare(plain, vp.rank(images, bank)),
        lambda: vp.hubness(images @ captions.T),
        lambda: vp.noise.inject(np.arange(count), 0.5),
        lambda: vp.noise.posterior(images[:, 0] ** 2),
        lambda: vp.noise.posterior(images[:, 0] ** 2, "gaussian"),
        lambda: vp.noise.transport(captions[:, :1] ** 2 + images[:, 0] ** 2),
        lambda: vp.noise.audit(images, captions),
        lambda: vp.noise.doubts(images, captions),
        lambda: vp.noise.doubts(images, captions[:, :3]),
    ]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_few_rows_have_a_result_or_an_error_of_ours(count):
    for call in few(count):
        with contextlib.suppress(vp.PipelineError):
            call()


@pytest.mark.parametrize("name", BAD)
def test_bad_arguments_are_named_in_one_line(name):
    refused(*BAD[name])
