"""A row of a paper as an overlay of params.yaml."""

import re
from typing import Literal, get_args, get_origin

from pydantic import ValidationError

from pipeline.errors import ParamsError, UsageError
from pipeline.papers import catalogue
from pipeline.papers.catalogue import Entry
from pipeline.papers.differences import COMPUTING
from pipeline.papers.schema import MEMBERS
from pipeline.params.schema import EvaluateParams, TrainParams
from pipeline.registry import (
    BACKBONES,
    FORMATS,
    IMAGE_ENCODERS,
    INFERENCES,
    LOSSES,
    PROTOCOLS,
    SAMPLERS,
    SCHEMES,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
)

_FAMILIES = {
    "loss": LOSSES,
    "scheme": SCHEMES,
    "similarity": SIMILARITIES,
    "text": TEXT_ENCODERS,
    "image": IMAGE_ENCODERS,
    "sampler": SAMPLERS,
}
_MEASURED = {
    "1k": {"split": "test", "protocol": "full"},
    "5k": {"split": "test", "protocol": "full"},
    "c1": {"split": "test", "protocol": "first", "fold_size": 1000},
    "c2": {"split": "test", "protocol": "folds", "fold_size": 1000},
    "phrases": {"split": "test", "protocol": "phrases"},
}


def overlay(paper: str, row: str) -> dict:
    """What params.yaml must say to run ``row`` of ``paper``: nodes, one run, the criteria, the protocol.

    The run carries every value of its members and of its training, defaults included, so that nothing in the file it is
    written into changes the row. Raises UsageError for an unknown paper or row, for figures quoted from others, and for
    a row that needs what this version does not have.
    """
    entry = catalogue.find(paper, row)
    lacking = needs(entry)
    if entry.settings is None:
        raise UsageError(f"row {row} of {paper} quotes {entry.row.method}: there is nothing to run")
    if lacking:
        raise UsageError(
            f"row {row} of {paper} needs {' and '.join(lacking)}, which this version does not have"
        )
    chosen = entry.settings
    nodes = {key: dict(getattr(chosen, key)) for key in ("features", "texts", "noise")}
    named = {key: node.pop("name") for key, node in nodes.items()}
    inferences = ["nns"] if entry.row.inference == "nns" else ["nns", entry.row.inference]
    found = {
        "grid": {"inferences": inferences},
        "datasets": {chosen.dataset: dict(catalogue.common().datasets[chosen.dataset])},
        "features": {named["features"]: {"dataset": chosen.dataset, **nodes["features"]}},
        "texts": {named["texts"]: {"dataset": chosen.dataset, **nodes["texts"]}},
        "noises": {named["noise"]: {"dataset": chosen.dataset, **nodes["noise"]}},
        "runs": {run_name(entry): {"dataset": chosen.dataset, **named, **_run(entry)}},
        "evaluate": {**_MEASURED[entry.block.protocol], "bank": "test", "tune": False, "ties": "pessimistic"},
        "report": {"title": entry.marker},
    }
    parts = {part for name in inferences[1:] for part in name.split("+")}
    if parts:
        found["inference"] = {part: _criterion(entry, part) for part in sorted(parts)}
    return found


def run_name(entry: Entry) -> str:
    """A name without dots, which separate keys in overrides and in DVC: ``hal-aaai2020_2_12``."""
    return re.sub(r"[^A-Za-z0-9-]", "_", entry.marker)


def needs(entry: Entry) -> list[str]:
    """What this version lacks for the row, asked of the families' folders and the schema; empty for a row it can run."""
    chosen = entry.settings
    if chosen is None:
        return []
    wanted = [
        (FORMATS, catalogue.common().datasets[chosen.dataset]["format"]),
        (BACKBONES, chosen.features["backbone"]),
        (TEXT_FEATURES, chosen.texts["method"]),
        (PROTOCOLS, chosen.noise["protocol"]),
        *((_FAMILIES[key], getattr(chosen, key)) for key in MEMBERS),
        *((INFERENCES, part) for part in entry.row.inference.split("+")),
    ]
    lacking = [f"{family.kind} '{name}'" for family, name in wanted if name not in family.names()]
    options = [f"train.{key}" for key in chosen.train if key not in TrainParams.model_fields]
    lacking += [", ".join(options)] if options else []
    protocol = _MEASURED[entry.block.protocol]["protocol"]
    if protocol not in _choices(EvaluateParams, "protocol"):
        lacking.append(f"evaluation protocol '{protocol}'")
    return lacking


def _run(entry: Entry) -> dict:
    chosen = entry.settings
    options = {key: _complete(entry, key) for key in MEMBERS}
    train = {
        key: value for key, value in TrainParams(**chosen.train).model_dump().items() if key not in COMPUTING
    }
    return {
        **{key: getattr(chosen, key) for key in MEMBERS},
        "row": entry.marker,
        "options": {key: values for key, values in options.items() if values},
        "train": train,
    }


def _complete(entry: Entry, key: str) -> dict:
    """The values of the run's member of family ``key``, defaults included. Raises ParamsError."""
    name, own = getattr(entry.settings, key), entry.settings.options.get(key, {})
    try:
        return _FAMILIES[key].load(name).Params(**own).model_dump()
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()]
        raise ParamsError([f"{entry.paper} {entry.id} {key}.{name} {one}" for one in problems]) from error


def _criterion(entry: Entry, name: str) -> dict:
    """The values of a criterion, defaults being the papers'; the grids of a tuning that does not take place left out."""
    values = INFERENCES.load(name).Params(**entry.settings.inference.get(name, {})).model_dump()
    return {key: value for key, value in values.items() if not key.endswith("_grid")}


def _choices(model: type, field: str) -> tuple:
    annotation = model.model_fields[field].annotation
    return get_args(annotation) if get_origin(annotation) is Literal else ()
