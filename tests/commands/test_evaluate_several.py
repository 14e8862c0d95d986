"""Files of several models, fused: against loops over queries, whatever the order of their rows."""

import json
from dataclasses import replace

import numpy as np
import pytest

from tests.commands.options import arguments
from tests.evaluate.files import Sample, sample, write, write_npy
from tests.naive import criteria
from tests.naive import evaluate as naive
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate.files import InputFiles, MoreFiles, evaluate_files
from vse_pipe.project.params.schema import EvaluateParams

RULES = {"mean": lambda row: row, "zscore": criteria.standardised, "rrf": criteria.reciprocal_ranks}


def _models(tmp_path, count: int = 3) -> tuple[list[Sample], InputFiles]:
    """The rows of every model but the first are in another order, and as wide as they like."""
    first, rng = sample(noise=1.2), np.random.default_rng(3)
    models, files = [first], write(first, tmp_path)
    for number in range(1, count):
        turn = rng.standard_normal((first.images.shape[1], 5 + number))
        noisy = [side + number * rng.standard_normal(side.shape) for side in (first.images, first.captions)]
        models.append(first.but(images=(noisy[0] @ turn).astype("f4"), captions=(noisy[1] @ turn).astype("f4")))
        order = [rng.permutation(len(ids)) for ids in (first.image_ids, first.caption_ids)]
        one = models[-1]
        moved = Sample(*(side[order[0]] for side in (one.image_ids, one.images)), *_moved(one, order[1]))
        other = write(moved, tmp_path, prefix=str(number))
        more = MoreFiles([*files.more.images, other.images], [*files.more.captions, other.captions])
        files = replace(files, more=more)
    return models, files


def _moved(one: Sample, order: np.ndarray) -> tuple:
    return tuple(side[order] for side in (one.caption_ids, one.owners, one.captions))


def _expected(models: list[Sample], rule, weights) -> dict[str, list[int]]:
    cosines, own = [one.cosines() for one in models], models[0].image_ids[:, None] == models[0].owners[None]
    found = {}
    for name, each, truth in (
        ("image_to_text", cosines, own),
        ("text_to_image", [one.T for one in cosines], own.T),
    ):
        rows = criteria.fused([one.tolist() for one in each], rule, weights)
        correct = [set(np.flatnonzero(right)) for right in truth]
        found[name] = [naive.best_rank(row, of, "pessimistic") for row, of in zip(rows, correct, strict=True)]
    return found


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("weights", [(), (3, 0, 1)])
def test_the_figures_are_those_of_a_loop(tmp_path, name, weights):
    models, files = _models(tmp_path)
    files = replace(files, more=replace(files.more, fusion=name, weights=weights))
    found = evaluate_files(files, ["nns"], EvaluateParams(resamples=0), {}, "cpu")["nns"]
    shares = [weight / 4 for weight in weights] or [1 / 3] * 3
    for direction, ranks in _expected(models, RULES[name], shares).items():
        assert found[direction]["mean_r"] == pytest.approx(naive.mean_rank(ranks), abs=1e-5)
        assert found[direction]["r@1"] == pytest.approx(naive.recall(ranks, 1), abs=1e-5)
    assert (found["fusion"], found["weights"]) == (name, shares)


def test_arrays_have_their_ids_in_one_file_and_the_command_fuses_them(tmp_path, call):
    one = write_npy(sample(), tmp_path)
    beside = ("--more-images", one.images, "--more-captions", one.captions, "--fusion", "rrf", "--weights", "2,1")
    status, out, err = call("evaluate", *arguments(one), *beside, "--inference", "nns", "--json", "--device", "cpu")
    assert status == 0, err
    found = json.loads(out)
    alone = evaluate_files(one, ["nns"], EvaluateParams(resamples=0), {}, "cpu")["nns"]
    assert found["weights"] == [2 / 3, 1 / 3]
    assert found["rsum"] == alone["rsum"]


def test_other_ids_than_those_of_the_first_model_are_refused(tmp_path):
    one = sample()
    files = write(one, tmp_path)
    other = write(one.but(image_ids=one.image_ids + 3, owners=one.owners + 3), tmp_path, prefix="x")
    files = replace(files, more=MoreFiles([other.images], [other.captions]))
    with pytest.raises(InputError, match=r"xa\.parquet: other image_ids than .*a\.parquet, 2 are in one of them only"):
        evaluate_files(files, ["nns"], EvaluateParams(), {}, "cpu")


def test_captions_of_other_images_than_those_of_the_first_model_are_refused(tmp_path):
    models, files = _models(tmp_path, 2)
    owners = models[1].owners.copy()
    owners[[2, -1]] = owners[[-1, 2]]
    write(models[1].but(owners=owners), tmp_path, prefix="1")
    message = r"1b\.parquet: 2 captions belong to other images than in .*b\.parquet, the first is caption_id "
    with pytest.raises(InputError, match=f"{message}{models[0].caption_ids[2]}; every model needs the same"):
        evaluate_files(files, ["nns"], EvaluateParams(), {}, "cpu")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"captions": ()}, "--more-images 1 times and --more-captions 0 times"),
        ({"fusion": "rff"}, "--fusion: unknown fusion 'rff'; did you mean 'rrf'"),
        ({"weights": [1.0]}, "--weights: 2 models need 2 numbers"),
        ({"weights": [0.0, 0.0]}, "not all of them 0"),
        ({"weights": [float("nan"), 1.0]}, "2 numbers from 0 up"),
        ({"images": (), "captions": (), "weights": [1.0]}, "--fusion and --weights are for several models"),
    ],
)
def test_what_does_not_go_together_is_said(tmp_path, more, message):
    files = write(sample(), tmp_path)
    of = {"images": [files.images], "captions": [files.captions], **more}
    with pytest.raises(UsageError, match=message):
        evaluate_files(replace(files, more=MoreFiles(**of)), ["nns"], EvaluateParams(), {}, "cpu")


def test_a_bank_would_be_needed_of_every_model(tmp_path):
    _, files = _models(tmp_path, 2)
    files = replace(files, bank_images=files.images, bank_captions=files.captions)
    with pytest.raises(UsageError, match="--more-images take no bank"):
        evaluate_files(files, ["is"], EvaluateParams(), {}, "cpu")


def test_weights_that_are_no_numbers_are_a_users_error(tmp_path, call):
    status, _, err = call("evaluate", *arguments(write(sample(), tmp_path)), "--weights", "2;1")
    assert status == 2
    assert "--weights 2;1: expected numbers with commas between" in err


def test_sides_of_a_further_model_that_do_not_fit_are_one_line(tmp_path):
    models, files = _models(tmp_path, 2)
    narrow = models[1].but(images=models[1].images[:, :-1], captions=models[1].captions[:, :-1])
    more = MoreFiles(files.more.images, [write(narrow, tmp_path, prefix="narrow").captions])
    with pytest.raises(
        InputError, match=r"narrow.*: vectors of 5 values, those of .* have 6; both must come from one model"
    ):
        evaluate_files(replace(files, more=more), ["nns"], EvaluateParams(), {}, "cpu")
