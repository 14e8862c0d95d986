"""Rows of papers as parameters: a row's overlay, and the rows that runs and ensembles name."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from vse_pipe.core.errors import ParamsError, UsageError
from vse_pipe.papers import catalogue
from vse_pipe.papers.catalogue import MEMBERS, Entry, MemberKey, Settings
from vse_pipe.papers.compare import COMPUTING
from vse_pipe.project import paths, registry
from vse_pipe.project.params.load import never_learns
from vse_pipe.project.params.schema import EnsembleNode, Root, RunNode, TrainParams


def row_problems(root: Root) -> Iterator[tuple[str, str]]:
    """(address, problem) of every ``row`` that no paper has. Papers are read only if a row is named."""
    nodes: dict[str, RunNode | EnsembleNode] = {f"ensembles.{name}": node for name, node in root.ensembles.items()}
    nodes |= {f"runs.{name}": node for name, node in root.runs.items()}
    for address, row in [(address, node.row) for address, node in nodes.items() if node.row is not None]:
        try:
            catalogue.located(row)
        except UsageError as error:
            yield f"{address}.row", str(error)


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
    """The part of params.yaml for ``row`` of ``paper``: nodes, a run or two with their ensemble, criteria, protocol.

    The run has every value of its members and its training, defaults included, so that the rest of the file cannot
    change the row. Raises UsageError for an unknown paper or row, for quoted figures, and for a row that this version
    cannot run.
    """
    entry = catalogue.find(paper, row)
    lacking = needs(entry)
    if entry.settings is None:
        raise UsageError(f"row {row} of {paper} quotes {entry.row.method}: there is nothing to run")
    if lacking:
        raise UsageError(f"row {row} of {paper} needs {' and '.join(lacking)}, which this version does not have")
    chosen = _settings(entry)
    nodes = _nodes(chosen)
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
        document["inference"] = {part: _criterion(entry, part) for part in sorted(parts)}
    return document


def _settings(entry: Entry) -> Settings:
    """The settings of a row that is not quoted."""
    assert entry.settings is not None
    return entry.settings


def _nodes(chosen: Settings) -> dict[str, dict]:
    return {key: dict(getattr(chosen, key)) for key in ("features", "texts", "noise")}


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
    """Members and options that the row needs and this version lacks; empty for a row that can run."""
    chosen = entry.settings
    if chosen is None:
        return []
    nodes = _nodes(chosen)
    datasets = _datasets(chosen.dataset).values()
    members: list[tuple[registry.Family, str]] = [
        *((registry.FORMATS, node["format"]) for node in datasets),
        *((registry.PROPOSALS, node["proposals"]) for node in datasets if "proposals" in node),
        (registry.BACKBONES, nodes["features"]["backbone"]),
        (registry.TEXT_FEATURES, nodes["texts"]["method"]),
        (registry.PROTOCOLS, nodes["noise"]["protocol"]),
        *((registry.RUN_FAMILIES[key], name) for key in MEMBERS for name in _members(entry, key)),
        *((registry.INFERENCES, part) for part in entry.row.inference.split("+")),
    ]
    lacking = [f"{family.kind} '{name}'" for family, name in members if name not in family.names()]
    options = [f"train.{key}" for key in chosen.train if key not in TrainParams.model_fields]
    lacking += [", ".join(options)] if options else []
    if not lacking and never_learns(str(chosen.loss), _members(entry, "similarity")[0]):
        lacking.append(f"a loss '{chosen.loss}' that learns from similarity '{chosen.similarity}' (never above 0)")
    return lacking


def _members(entry: Entry, key: str) -> tuple[str, ...]:
    """The members of family ``key`` that the row's runs have; several where its model is an ensemble."""
    name = getattr(entry.settings, key)
    return ENSEMBLES.get(name, (name,)) if key == "similarity" else (name,)


def _runs(entry: Entry, nodes: dict) -> dict:
    """The section ``runs``, and ``ensembles`` where the row is the mean of two."""
    name, similarities = run_name(entry), _members(entry, "similarity")
    if len(similarities) == 1:
        return {"runs": {name: {**nodes, **_run(entry, similarities[0]), "row": entry.marker}}}
    names = {similarity: f"{name}_{similarity}" for similarity in similarities}
    first, second = names.values()
    return {
        "runs": {run: {**nodes, **_run(entry, similarity)} for similarity, run in names.items()},
        "ensembles": {name: {"first": first, "second": second, "row": entry.marker}},
    }


def _run(entry: Entry, similarity: str) -> dict:
    chosen = _settings(entry)
    members: dict[MemberKey, str] = {**{key: getattr(chosen, key) for key in MEMBERS}, "similarity": similarity}
    options = {key: _complete(entry, key, name) for key, name in members.items()}
    train = {key: value for key, value in TrainParams(**chosen.train).model_dump().items() if key not in COMPUTING}
    return {**members, "options": {key: values for key, values in options.items() if values}, "train": train}


def _complete(entry: Entry, key: MemberKey, name: str) -> dict:
    """The values of member ``name`` of family ``key``, defaults included. Raises ParamsError."""
    values = _settings(entry).options.get(key, {})
    try:
        return registry.RUN_FAMILIES[key].options(name)(**values).model_dump()
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise ParamsError([f"{entry.paper} {entry.id} {key}.{name} {one}" for one in problems]) from error


def _criterion(entry: Entry, name: str) -> dict:
    """The values of a criterion, with the papers' defaults and without grids for tuning."""
    values = registry.INFERENCES.options(name)(**_settings(entry).inference.get(name, {})).model_dump()
    return {key: value for key, value in values.items() if not key.endswith("_grid")}
