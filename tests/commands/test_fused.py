"""Several models ranked together: files against loops over queries, and ensembles of params.yaml."""

from dataclasses import replace

import numpy as np
import pytest

from tests.command_line import failure, json_document, output
from tests.commands.script import arguments
from tests.evaluate.embedded import ABOUT, sides
from tests.evaluate.files import Sample, sample, write, write_npy
from tests.naive import criteria
from tests.naive import evaluate as naive
from tests.toy_project import PARAMS, write_params
from vse_pipe.artifacts import embeddings, evaluation
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate.files import InputFiles, MoreFiles, evaluate_files
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams

RULES = {"mean": lambda row: row, "rrf": criteria.reciprocal_ranks}


def _models(tmp_path, count: int = 3) -> tuple[list[Sample], InputFiles]:
    """The rows of every model but the first are in another order, and as wide as they like."""
    first, rng = sample(noise=1.2), np.random.default_rng(3)
    models, files = [first], write(first, tmp_path)
    for number in range(1, count):
        turn = rng.standard_normal((first.images.shape[1], 5 + number))
        noisy = [side + number * rng.standard_normal(side.shape) for side in (first.images, first.captions)]
        models.append(first.but(images=(noisy[0] @ turn).astype("f4"), captions=(noisy[1] @ turn).astype("f4")))
        turns = [rng.permutation(len(ids)) for ids in (first.image_ids, first.caption_ids)]
        names = (("image_ids", "images"), ("caption_ids", "owners", "captions"))
        moved = {key: getattr(models[-1], key)[turn] for keys, turn in zip(names, turns, strict=True) for key in keys}
        other = write(Sample(**moved), tmp_path, prefix=str(number))
        more = MoreFiles([*files.more.images, other.images], [*files.more.captions, other.captions])
        files = replace(files, more=more)
    return models, files


def _evaluated(files: InputFiles, inference: str = "nns") -> dict:
    return evaluate_files(files, [inference], EvaluateParams(resamples=0), {}, "cpu")[inference]


def _expected(models: list[Sample], rule, weights) -> dict[str, list[int]]:
    cosines, own = [one.cosines() for one in models], models[0].image_ids[:, None] == models[0].owners[None]
    found = {}
    for name, each, truth in (("image_to_text", cosines, own), ("text_to_image", [one.T for one in cosines], own.T)):
        rows = criteria.fused([one.tolist() for one in each], rule, weights)
        correct = [set(np.flatnonzero(right)) for right in truth]
        found[name] = [naive.best_rank(row, of, "pessimistic") for row, of in zip(rows, correct, strict=True)]
    return found


@pytest.mark.parametrize("name", RULES)
@pytest.mark.parametrize("weights", [(), (3, 0, 1)])
def test_the_figures_are_those_of_a_loop(tmp_path, name, weights):
    models, files = _models(tmp_path)
    files = replace(files, more=replace(files.more, fusion=name, weights=weights))
    found, shares = _evaluated(files), [weight / 4 for weight in weights] or [1 / 3] * 3
    for direction, ranks in _expected(models, RULES[name], shares).items():
        assert found[direction]["mean_r"] == pytest.approx(naive.mean_rank(ranks), abs=1e-5)
        assert found[direction]["r@1"] == pytest.approx(naive.recall(ranks, 1), abs=1e-5)
    assert (found["fusion"], found["weights"]) == (name, shares)


def test_arrays_have_their_ids_in_one_file_and_the_command_fuses_them(tmp_path, call):
    one = write_npy(sample(), tmp_path)
    beside = ("--more-images", one.images, "--more-captions", one.captions, "--fusion", "rrf", "--weights", "2,1")
    found = json_document(call, "evaluate", *arguments(one), *beside, "--inference", "nns", "--json", "--device", "cpu")
    assert (found["weights"], found["rsum"]) == ([2 / 3, 1 / 3], _evaluated(one)["rsum"])
    err = failure(call, 2, "evaluate", *arguments(one), "--weights", "2;1")
    assert "--weights 2;1: expected numbers with commas between" in err


def test_files_of_further_models_that_do_not_fit_are_refused(tmp_path):
    one = sample()
    files = write(one, tmp_path)
    other = write(one.but(image_ids=one.image_ids + 3, owners=one.owners + 3), tmp_path, prefix="x")
    files = replace(files, more=MoreFiles([other.images], [other.captions]))
    with pytest.raises(InputError, match=r"xa\.parquet: other image_ids than .*a\.parquet, 2 are in one of them only"):
        _evaluated(files)
    models, files = _models(tmp_path, 2)
    owners = models[1].owners.copy()
    owners[[2, -1]] = owners[[-1, 2]]
    write(models[1].but(owners=owners), tmp_path, prefix="1")
    message = r"1b\.parquet: 2 captions belong to other images than in .*b\.parquet, the first is caption_id "
    with pytest.raises(InputError, match=f"{message}{models[0].caption_ids[2]}; every model needs the same"):
        _evaluated(files)
    models, files = _models(tmp_path, 2)
    narrow = models[1].but(images=models[1].images[:, :-1], captions=models[1].captions[:, :-1])
    more = MoreFiles(files.more.images, [write(narrow, tmp_path, prefix="narrow").captions])
    message = r"narrow.*: vectors of 5 values, those of .* have 6; both must come from one model"
    with pytest.raises(InputError, match=message):
        _evaluated(replace(files, more=more))
    _, files = _models(tmp_path, 2)
    with pytest.raises(UsageError, match="--more-images take no bank"):
        _evaluated(replace(files, bank_images=files.images, bank_captions=files.captions), "is")


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
        _evaluated(replace(files, more=MoreFiles(**of)))


RUN, ON_CPU = PARAMS["runs"]["sum"], ("--device", "cpu")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Two embedded runs with the same items: one whose vectors tell much, one whose vectors tell little."""
    monkeypatch.chdir(tmp_path)
    both = {"runs": ["sum", "max"]}
    more = {
        "ranks": {"runs": ["max", "sum"], "rule": "rrf"},
        "quick": {"runs": ["max", "sum"], "rescore": 7},
        "given": {"runs": ["max", "sum"], "weights": [0, 3]},
    }
    grid = {"inferences": ["nns", "csls", "gm", "is+rgm"]}
    write_params(tmp_path, grid=grid, runs={"sum": RUN, "max": RUN}, ensembles={"both": both, **more})
    for run, noise in (("sum", 0.3), ("max", 3.0)):
        folder = paths.embedded(run)
        folder.mkdir(parents=True)
        for name, side in zip(("images", "captions"), sides({"test": 30, "val": 20}, noise=noise), strict=True):
            embeddings.write(folder / f"{name}.parquet", replace(side, about={**ABOUT, "run": run}))


def test_runs_and_their_ensembles_are_ranked(project, call):
    found = json_document(call, "evaluate", "--inference", "nns", "--json", *ON_CPU)
    assert set(found) == {"sum", "max", "both", "ranks", "given", "quick"}
    entries = {name: found[name]["nns"]["ensemble"] for name in ("both", "ranks", "given", "quick")}
    assert entries["both"] == {"runs": ["sum", "max"], "weights": [0.5, 0.5], "rule": "mean", "rescore": None}
    assert (entries["ranks"]["rule"], entries["given"]["weights"]) == ("rrf", [0, 1])
    assert entries["quick"] == {"runs": ["max", "sum"], "weights": [1], "rule": "mean", "rescore": 7}
    same = ("image_to_text", "text_to_image", "rsum", "intervals")
    assert {key: found["given"]["nns"][key] for key in same} == {key: found["sum"]["nns"][key] for key in same}
    assert (paths.evaluated("both", "nns") / "metrics.json").is_file()
    one = json_document(call, "evaluate", "--run", "both", "--inference", "nns", "--json", *ON_CPU)
    assert one == {"both": found["both"]}
    assert found["max"]["nns"]["rsum"] < found["both"]["nns"]["rsum"] < found["sum"]["nns"]["rsum"]


def test_an_ensemble_that_cannot_be_ranked_is_one_line(project, call):
    err = failure(call, 2, "evaluate", "--run", "bothh", *ON_CPU)
    assert "unknown run 'bothh'; did you mean 'both'? known: both, given, max, quick, ranks, sum" in err
    err = failure(call, 2, "evaluate", "--run", "quick", "--inference", "gm", *ON_CPU)
    assert "gm matches all queries at once and ensemble 'quick' rescores, with one scale for a query only" in err


def test_a_cascade_is_ranked_under_the_grid_but_for_matchings(project, call):
    found = json_document(call, "evaluate", "--run", "quick", "--json", "--device", "cpu")["quick"]
    assert list(found) == ["csls", "nns"]
    # What is not among the first's best seven is where the first has it.
    first = evaluation.read_ranks(paths.evaluated("quick", "nns")).to_pandas()
    output(call, "evaluate", "--run", "max", "--inference", "nns", "--device", "cpu")
    alone = evaluation.read_ranks(paths.evaluated("max", "nns")).to_pandas()
    behind = alone["rank"] > 7
    assert behind.any()
    assert (first["rank"][behind] == alone["rank"][behind]).all()
    assert (first["rank"][~behind] != alone["rank"][~behind]).any()
