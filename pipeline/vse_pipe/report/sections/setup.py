"""The setup: data sets, runs with all their options, criteria, and versions of the libraries."""

import platform
from importlib.metadata import version

from vse_pipe.artifacts.images import DESCRIBED, SPLITS
from vse_pipe.report import settings
from vse_pipe.report.pictures import Collector
from vse_pipe.report.results import Group, Results, RunResult, TrainedRun

_FUSIONS = {"mean": "the mean of the scores", "zscore": "the mean of the z-scores", "rrf": "the reciprocal rank fusion"}
_LIBRARIES = ("vse-pipe", "torch", "torchvision", "numpy", "pandas", "pyarrow", "dvc")


def setup(results: Results, collector: Collector) -> dict:
    params = results.params
    present = {split for group in results.groups for split in group.catalogue.images["split"].unique()}
    splits = [split for split in SPLITS if split in (*DESCRIBED, *present)]
    return {
        "datasets": [_dataset(group, splits) for group in results.groups],
        "splits": splits,
        "runs": [
            _run(run, results) for group in results.groups for run in group.first_models if isinstance(run, TrainedRun)
        ],
        "sentences": [
            *(_ensemble(run) for run in results.runs() if run.parts),
            *(_transfer(run) for run in results.runs() if run.moved),
        ],
        "criteria": settings.of_criteria(results),
        "tuned": _tuned(results),
        "fingerprints": [row for group in results.groups for row in _fingerprints(group)],
        "evaluate": {key: settings.value_text(value) for key, value in params.evaluate.model_dump().items()},
        "seed": params.seed,
        "versions": [("Python", platform.python_version()), *((name, version(name)) for name in _LIBRARIES)],
    }


def _dataset(group: Group, splits: list[str]) -> dict:
    catalogue = group.catalogue
    pictures, texts = catalogue.images["split"].value_counts(), catalogue.captions["split"].value_counts()
    counts = [(int(pictures.get(split, 0)), int(texts.get(split, 0))) for split in splits]
    return {"name": catalogue.name, "counts": counts}


def _run(run: TrainedRun, results: Results) -> dict:
    rows = settings.of_run(run, results.params)
    names = {row.kind: row.member.text for row in rows}
    return {
        "name": run.name,
        "loss": names["loss"],
        "scheme": "" if names["scheme"] == "plain" else f" with {names['scheme']}",
        "rest": f"{names['similarity']} similarity, {names['text']} text, {names['image']} image",
        "rows": rows,
        "changed": any(row.changed for row in rows),
    }


def _ensemble(run: RunResult) -> str:
    """The ensemble in a sentence."""
    ensemble = run.best.metrics.get("ensemble")
    if ensemble is None:
        return f"{run.name} is the mean of the scores of {' and '.join(run.parts)}."
    if "cascade" in ensemble:
        first, second = ensemble["runs"]
        return f"{run.name} is a cascade: the best {ensemble['cascade']} of each query by {first}, in the order of {second}."
    shares = ", ".join(
        f"{part} {weight:.3g}" for part, weight in zip(ensemble["runs"], ensemble["weights"], strict=True)
    )
    chosen = ", chosen on val" if ensemble["weights_from"] == "val" else ""
    return f"{run.name} is {_FUSIONS[ensemble['fusion']]} of its runs, weighted{chosen}: {shares}."


def _transfer(run: RunResult) -> str:
    """The transfer in a sentence."""
    transfer = run.best.metrics["transfer"]
    share = transfer.get("unknown_words")
    words = f"; {share:.1%} of the words of its captions are unknown to it" if share is not None else ""
    return f"{run.name} is {transfer['run']}, trained on {transfer['trained_on']}, on {transfer['dataset']}{words}."


def _fingerprints(group: Group) -> list[tuple[str, str, str]]:
    """(subject, name, SHA-256): the tables of the data set, then the training inputs and the weights of each run."""
    catalogue = group.catalogue
    rows = [(catalogue.name, name, digest) for name, digest in catalogue.digests.items()]
    return rows + [(run.name, name, digest) for run in group.trained for name, digest in run.digests.items()]


def _tuned(results: Results) -> list[dict]:
    """The parameters that evaluate chose on the validation split."""
    return [
        {"run": result.run, "inference": result.inference, "values": settings.listed(chosen) + suffix}
        for run in results.runs()
        for result in run.evaluations.values()
        if (chosen := settings.flat(result.metrics["tuned"]))
        for suffix in [f" (chosen on {result.metrics['tuned_on']})" if "tuned_on" in result.metrics else ""]
    ]
