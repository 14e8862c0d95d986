"""What was run: data sets, runs with all their options, criteria, and the versions of the libraries."""

import platform
from importlib.metadata import version

from pipeline.artifacts.images import DESCRIBED, SPLITS
from pipeline.project.params.typed import Member
from pipeline.report.engine.collector import Collector
from pipeline.report.engine.results import Group, Results, RunResult, TrainedRun

TITLE = "Parameters, fingerprints and versions"
_LONGEST = 6
_FUSIONS = {"mean": "the mean of the scores", "zscore": "the mean of the z-scores", "rrf": "the reciprocal rank fusion"}
_LIBRARIES = ("vse-pipe", "torch", "torchvision", "numpy", "pandas", "pyarrow", "dvc")


def context(results: Results, collector: Collector) -> dict:
    params = results.params
    held = {split for group in results.groups for split in group.catalogue.images["split"].unique()}
    splits = [split for split in SPLITS if split in (*DESCRIBED, *held)]
    options = {name: _options(member.model_dump()) for name, member in params.inference.items()}
    return {
        "datasets": [_dataset(group, splits) for group in results.groups],
        "splits": splits,
        "runs": [_run(run, results) for group in results.groups for run in group.shown if isinstance(run, TrainedRun)],
        "sentences": [
            *(_ensemble(run) for run in results.runs() if run.parts),
            *(_transfer(run) for run in results.runs() if run.moved),
        ],
        "criteria": [
            (name, [(part, options.get(part, "")) for part in name.split("+")]) for name in params.grid.inferences
        ],
        "tuned": _tuned(results),
        "fingerprints": [row for group in results.groups for row in _fingerprints(group)],
        "evaluate": {key: _value(value) for key, value in params.evaluate.model_dump().items()},
        "seed": params.seed,
        "versions": [("Python", platform.python_version()), *_versions()],
    }


def _dataset(group: Group, splits: list[str]) -> dict:
    catalogue = group.catalogue
    pictures, texts = catalogue.images["split"].value_counts(), catalogue.captions["split"].value_counts()
    counts = [(int(pictures.get(split, 0)), int(texts.get(split, 0))) for split in splits]
    return {"name": catalogue.name, "counts": counts}


def _run(run: TrainedRun, results: Results) -> dict:
    chosen = run.params
    params = results.params
    members = {
        "features": params.features[chosen.features].backbone,
        "texts": params.texts[chosen.texts].method,
        "pairs": params.pairs(chosen.noise).protocol,
        "sampler": chosen.sampler,
        "loss": chosen.loss,
        "scheme": chosen.scheme,
        "similarity": chosen.similarity,
        "text": chosen.text,
        "image": chosen.image,
    }
    return {
        "name": run.name,
        "loss": chosen.loss.name,
        "scheme": "" if chosen.scheme.name == "plain" else f" with {chosen.scheme.name}",
        "rest": f"{chosen.similarity.name} similarity, {chosen.text.name} text, {chosen.image.name} image",
        "rows": [*_members(members), ("train", "", _options(chosen.train.model_dump()))],
    }


def _ensemble(run: RunResult) -> str:
    """What it is, as a sentence."""
    said = run.best.metrics.get("ensemble")
    if said is None:
        return f"{run.name} is the mean of the scores of {' and '.join(run.parts)}."
    if "cascade" in said:
        first, second = said["runs"]
        return (
            f"{run.name} is a cascade: the best {said['cascade']} of each query by {first}, in the order of {second}."
        )
    shares = ", ".join(f"{part} {weight:.3g}" for part, weight in zip(said["runs"], said["weights"], strict=True))
    chosen = ", chosen on val" if said["weights_from"] == "val" else ""
    return f"{run.name} is {_FUSIONS[said['fusion']]} of its runs, weighted{chosen}: {shares}."


def _transfer(run: RunResult) -> str:
    """What it is, as a sentence."""
    said = run.best.metrics["transfer"]
    share = said.get("unknown_words")
    words = f"; {share:.1%} of the words of its captions are unknown to it" if share is not None else ""
    return f"{run.name} is {said['run']}, trained on {said['trained_on']}, on {said['dataset']}{words}."


def _members(members: dict[str, Member]) -> list[tuple[str, str, str]]:
    return [(kind, member.name, _options(member.params.model_dump())) for kind, member in members.items()]


def _fingerprints(group: Group) -> list[tuple[str, str, str]]:
    """(of what, name, SHA-256): the tables of the data set, then what each run was trained on and its weights."""
    catalogue = group.catalogue
    rows = [(catalogue.name, name, digest) for name, digest in catalogue.digests.items()]
    return rows + [(run.name, name, digest) for run in group.trained for name, digest in run.digests.items()]


def _options(values: dict) -> str:
    return ", ".join(f"{key} {_value(value)}" for key, value in values.items())


def _value(value: object) -> str:
    """As in params.yaml; of a long list its ends, since the grid of a search fills lines and says little."""
    if isinstance(value, list):
        shown = [_value(one) for one in value]
        few = len(shown) <= _LONGEST
        return f"[{', '.join(shown)}]" if few else f"{shown[0]} to {shown[-1]} ({len(shown)} values)"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    return "null" if value is None else str(value)


def _tuned(results: Results) -> list[dict]:
    """Values that evaluate chose on the validation split, where a criterion has any."""
    return [
        {"run": one.run, "inference": one.inference, "values": _options(chosen) + _elsewhere(one.metrics)}
        for run in results.runs()
        for one in run.evaluations.values()
        if (chosen := _flat(one.metrics["tuned"]))
    ]


def _elsewhere(metrics: dict) -> str:
    return f" (chosen on {metrics['tuned_on']})" if "tuned_on" in metrics else ""


def _flat(values: dict, prefix: str = "") -> dict:
    flat: dict = {}
    for key, value in values.items():
        flat |= _flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return flat


def _versions() -> list[tuple[str, str]]:
    return [(name, version(name)) for name in _LIBRARIES]
