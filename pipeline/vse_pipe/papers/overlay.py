"""Rows of papers as parameters, and figures and settings of a run beside those of its row."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from vse_pipe.core.errors import UsageError
from vse_pipe.core.strict import Problem
from vse_pipe.papers import catalogue
from vse_pipe.papers.catalogue import MEMBERS, Entry, MemberKey, Settings
from vse_pipe.project import paths, registry
from vse_pipe.project.params.nodes import RunNode
from vse_pipe.project.params.relations import never_learns
from vse_pipe.project.params.schema import EnsembleNode, Root, TrainParams
from vse_pipe.project.params.typed import FeatureSet, Member, Run
from vse_pipe.project.registry import RUN_FAMILIES


def row_problems(root: Root) -> Iterator[Problem]:
    """The problem of every ``row`` that no paper has. Papers are read only if a row is named."""
    sections: dict[str, Mapping[str, RunNode | EnsembleNode]] = {"ensembles": root.ensembles, "runs": root.runs}
    for section, name, node in [(key, *item) for key, nodes in sections.items() for item in nodes.items()]:
        try:
            if node.row is not None:
                catalogue.located(node.row)
        except UsageError as error:
            yield (section, name, "row"), str(error)


# Models of papers that are two runs, evaluated by the mean of their scores.
ENSEMBLES = {"sgraf": ("sgr", "saf")}
_MEASURED: dict[str, dict[str, Any]] = {
    "1k": {"split": "test", "protocol": "full"},
    "5k": {"split": "test", "protocol": "full"},
    "c1": {"split": "test", "protocol": "first", "fold_size": 1000},
    "c2": {"split": "test", "protocol": "folds", "fold_size": 1000},
    "phrases": {"split": "test", "protocol": "full"},
}


def overlay(paper: str, row: str) -> dict:
    """The part of params.yaml for ``row`` of ``paper``: nodes, runs, criteria, protocol.

    The run has every value of its members and its training, defaults included, so that the rest of
    the file cannot change the row. Raises UsageError for an unknown paper or row, for quoted
    figures, and for a row that this version cannot run.
    """
    entry = catalogue.find(paper, row)
    lacking = needs(entry)
    if entry.settings is None:
        raise UsageError(f"row {row} of {paper} quotes {entry.row.method}: there is nothing to run")
    if lacking:
        raise UsageError(f"row {row} of {paper} needs {' and '.join(lacking)}, which this version does not have")
    chosen = _settings(entry)
    nodes = {key: dict(getattr(chosen, key)) for key in ("features", "texts", "noise")}
    named = {key: node.pop("name") for key, node in nodes.items()}
    inferences = ["nns"] if entry.row.inference == "nns" else ["nns", entry.row.inference]
    document: dict[str, Any] = {
        "grid": {"inferences": inferences},
        "datasets": _datasets(chosen.dataset),
        "features": {named["features"]: {"dataset": chosen.dataset, **nodes["features"]}},
        "texts": {named["texts"]: {"dataset": chosen.dataset, **nodes["texts"]}},
        "noises": {named["noise"]: {"dataset": chosen.dataset, **nodes["noise"]}},
        **_runs(entry, {"dataset": chosen.dataset, **named}),
        "evaluate": {**_MEASURED[entry.block.protocol], "bank": "test", "tune": False, "ties": "pessimistic"},
        "report": {"title": entry.marker},
    }
    if entry.block.protocol == "phrases":
        document["report"]["localized"] = list(document["runs"])
    parts = {part for name in inferences[1:] for part in name.split("+")}
    if parts:
        document["inference"] = {}
        for part in sorted(parts):  # without grids for tuning
            values = registry.INFERENCES.options(part)(**chosen.inference.get(part, {})).model_dump()
            document["inference"][part] = {key: value for key, value in values.items() if not key.endswith("_grid")}
    return document


def _settings(entry: Entry) -> Settings:
    """The settings of a row that is not quoted."""
    assert entry.settings is not None
    return entry.settings


def _datasets(name: str | None) -> dict[str, dict]:
    """The data set, after its source data sets."""
    assert name is not None
    nodes = catalogue.common().datasets
    source = Path(nodes[name]["source"])
    earlier = _datasets(source.name) if source == paths.prepared(source.name) else {}
    return {**earlier, name: dict(nodes[name])}


def run_name(entry: Entry) -> str:
    """A name without dots, which separate keys in overrides and in DVC: ``hal-aaai2020_2_12``."""
    return re.sub(r"[^A-Za-z0-9-]", "_", entry.marker)


def needs(entry: Entry) -> list[str]:
    """What the row needs and no version has; empty for a row that can run."""
    chosen = entry.settings
    if chosen is None or not never_learns(str(chosen.loss), _members(entry, "similarity")[0]):
        return []
    return [f"a loss '{chosen.loss}' that learns from similarity '{chosen.similarity}' (never above 0)"]


def _members(entry: Entry, key: str) -> tuple[str, ...]:
    """The members of family ``key`` of the row's runs; several for an ensemble."""
    name = getattr(entry.settings, key)
    return ENSEMBLES.get(name, (name,)) if key == "similarity" else (name,)


def _runs(entry: Entry, nodes: dict) -> dict:
    """The section ``runs``, and ``ensembles`` where the row is the mean of two."""
    name, similarities = run_name(entry), _members(entry, "similarity")
    if len(similarities) == 1:
        return {"runs": {name: {**nodes, **_run(entry, similarities[0]), "row": entry.marker}}}
    names = {similarity: f"{name}_{similarity}" for similarity in similarities}
    return {
        "runs": {run: {**nodes, **_run(entry, similarity)} for similarity, run in names.items()},
        "ensembles": {name: {"runs": list(names.values()), "row": entry.marker}},
    }


def _run(entry: Entry, similarity: str) -> dict:
    chosen = _settings(entry)
    members: dict[MemberKey, str] = {**{key: getattr(chosen, key) for key in MEMBERS}, "similarity": similarity}
    options = {key: _complete(entry, key, name) for key, name in members.items()}
    train = {key: value for key, value in TrainParams(**chosen.train).model_dump().items() if key not in COMPUTING}
    return {**members, "options": {key: values for key, values in options.items() if values}, "train": train}


def _complete(entry: Entry, key: MemberKey, name: str) -> dict:
    """The values of member ``name`` of family ``key``, defaults included. Raises ParamsError."""
    values, address = _settings(entry).options.get(key, {}), f"{entry.paper} {entry.id} {key}.{name}"
    return catalogue.validated(RUN_FAMILIES[key].options(name), values, address).model_dump()


# Options that change the computation of a step and not its result; every run may choose them.
COMPUTING = ("precision", "chunk", "processes")


def setting_differences(entry: Entry, run: Run) -> list[str]:
    """A phrase for each difference in data set, members, their options and training values."""
    chosen = entry.settings
    if chosen is None:
        return []
    differences = [_phrase("dataset", run.dataset, chosen.dataset)] if run.dataset != chosen.dataset else []
    for key in MEMBERS:
        member, name = getattr(run, key), getattr(chosen, key)
        if member.name != name:
            differences.append(_phrase(key, member.name, name))
            continue
        params = RUN_FAMILIES[key].options(name)(**chosen.options.get(key, {}))
        differences += _values(f"{key}.", member.params.model_dump(), params.model_dump())
    expected = TrainParams(**chosen.train).model_dump(exclude=set(COMPUTING))
    return [*differences, *_values("train.", run.train.model_dump(exclude=set(COMPUTING)), expected)]


def _values(prefix: str, ours: dict, theirs: dict) -> list[str]:
    return [_phrase(prefix + key, ours.get(key), value) for key, value in theirs.items() if ours.get(key) != value]


def _phrase(address: str, ours: object, theirs: object) -> str:
    return f"{address} {ours} here, {theirs} in the row"


# A paper's direction, and the part of metrics.json, of an evaluation or a localisation.
_WAYS = {"i2t": "image_to_text", "t2i": "text_to_image", "phrase": "all"}
# The paper's word, and the key in metrics.json.
_NAMES = {
    "r1": ("R@1", "r@1"),
    "r5": ("R@5", "r@5"),
    "r10": ("R@10", "r@10"),
    "medr": ("Med r", "med_r"),
    "meanr": ("Mean r", "mean_r"),
    "map": ("mAP", "map"),
}
# Table 3 of two-branch networks: the overlap of a correct box, and the split.
_LOCALISED = {"threshold": 0.5, "split": "test"}


def compared_figures(
    marker: str, metrics: Mapping, inference: str = "nns", trained: Iterable[tuple[Run, FeatureSet]] = ()
) -> list[tuple[str, float, float, float | None]]:
    """(figure, published, ours, ours - published) for every printed figure in ``metrics``. The
    difference is None where ``incomparable`` has a reason.

    marker: ``runs.<name>.row``, such as ``hal-aaai2020 2.12``; metrics: of an evaluation, as in
    metrics.json, or of a localisation, with the mean average precision of
    ``localize.average_precision``. inference: the criterion of ``metrics``; the paper may rank the
    model under it in another row. Empty if it does not. trained: as for ``incomparable``. Raises
    UsageError for an unknown row.
    """
    entry = rows_of_model(marker).get(inference)
    if entry is None:
        return []
    is_comparable = not incomparable(marker, metrics, inference, trained)
    figures = [(name, value, measured(metrics, name)) for name, value in entry.published.items()]
    return [
        (label(name), value, ours, round(ours - value, 4) if is_comparable else None)
        for name, value, ours in figures
        if ours is not None
    ]


# Test images by the protocol of a paper.
_IMAGES = {"1k": 1000, "5k": 5000, "c1": 1000, "c2": 5000}


def incomparable(
    marker: str, metrics: Mapping, inference: str = "nns", trained: Iterable[tuple[Run, FeatureSet]] = ()
) -> list[str]:
    """Why a difference from the row means nothing: another data set, backbone, weights, crops,
    protocol or size. trained: the trainings of the measured model, with their features."""
    entry = rows_of_model(marker).get(inference) or catalogue.located(marker)
    chosen, reasons = entry.settings or Settings(dataset=entry.block.dataset), []
    for run, features in trained:
        if run.dataset != chosen.dataset:
            reasons.append(_phrase("data set", run.dataset, chosen.dataset))
        if chosen.features:
            reasons += _other_features(features.backbone, chosen.features)
    protocol, images = _MEASURED[entry.block.protocol]["protocol"], metrics.get("image_to_text", {}).get("queries")
    if metrics.get("protocol", protocol) != protocol:
        reasons.append(_phrase("protocol", metrics["protocol"], f"{protocol} ({entry.block.protocol})"))
    expected = _IMAGES.get(entry.block.protocol, images)
    if images is not None and images != expected:
        reasons.append(_phrase("test images", f"{images:,}", f"{expected:,}"))
    return list(dict.fromkeys(reasons))


def _other_features(ours: Member, row: dict) -> list[str]:
    theirs = row["backbone"]
    if ours.name != theirs:
        return [_phrase("backbone", ours.name, theirs)]
    values = {key: value for key, value in row.items() if key not in ("name", "backbone")}
    params = registry.BACKBONES.options(theirs)(**values).model_dump(include={"model", "weights", "crops"})
    return _values("", ours.params.model_dump(), params)


def rows_of_model(marker: str) -> dict[str, Entry]:
    """The rows that rank the model of row ``marker``, by criterion. Raises UsageError."""
    named = catalogue.located(marker)
    model = named.row.trains or named.row.id
    rows: dict[str, Entry] = {}
    for entry in catalogue.entries(named.paper):
        if model in (entry.row.id, entry.row.trains):
            rows.setdefault(entry.row.inference, entry)
    return rows


def cautions(marker: str, metrics: Mapping, run: Run | None = None) -> list[str]:
    """Sentences on what differs from the row: assumptions, and settings of ``run``."""
    entry = catalogue.located(marker)
    remarks = catalogue.load(entry.paper).remarks
    sentences = [text for text in (remarks.get(entry.row.assumed, ""), entry.row.note) if text]
    if entry.block.protocol == "phrases" and "threshold" in metrics:
        sentences += [
            f"measured with {key} {metrics[key]}, the row with {value}"
            for key, value in _LOCALISED.items()
            if metrics[key] != value
        ]
    differences = setting_differences(entry, run) if run else []
    if differences:
        sentences.append(f"the run is not the row: {'; '.join(differences)}")
    return sentences


def measured(metrics: Mapping, name: str) -> float | None:
    """The figure ``name`` of a paper, such as ``i2t.medr``, in a document of metrics, or None."""
    way, _, figure = name.rpartition(".")
    if not way:
        return metrics.get(name)
    return metrics.get(_WAYS.get(way), {}).get(_NAMES[figure][1]) if figure in _NAMES else None


def label(name: str) -> str:
    """``i2t R@1`` for ``i2t.r1``."""
    way, _, figure = name.rpartition(".")
    return f"{way} {_NAMES.get(figure, (figure,))[0]}" if way else name.replace("_", "-")
