"""params.yaml, read once and validated completely. Every problem is reported with its address."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ValidationError

from vse_pipe.core.errors import ParamsError
from vse_pipe.core.strict import Problem, Strict, in_words
from vse_pipe.project import paths
from vse_pipe.project.params import relations, schema, typed
from vse_pipe.project.params.document import read_document, with_overrides
from vse_pipe.project.params.nodes import NoiseNode, RunNode
from vse_pipe.project.params.typed import Member, Params, Run
from vse_pipe.project.registry import INFERENCES, RUN_FAMILIES, criterion_parts

Model = TypeVar("Model", bound=BaseModel)
Groups = dict[str, tuple[str, ...]]
# A check gives the problems of a file of the right form.
Check = Callable[[schema.Root], Iterable[Problem]]


def load(path: Path, overrides: list[str] | None = None, further: Iterable[Check] = ()) -> Params:
    """The typed params.yaml. Raises ParamsError with every problem of its form, or else of its
    entries.

    overrides: ``["train.lr=1e-4"]``, for this call only; further: checks by higher rooms.
    """
    file = path.name
    root = validated(schema.Root, with_overrides(read_document(path), overrides or [], file), file)
    _require(file, relations.references(root))
    runs, unfit = _runs(root)
    _require(file, [*unfit, *(problem for check in (relations.problems, *further) for problem in check(root))])
    params = _params(root, runs)
    _require(file, (*_sweeps(params), *_ensembles(params)))
    return params


def load_measuring(overrides: list[str]) -> tuple[schema.EvaluateParams, dict[str, Strict], int]:
    """Parameters of evaluate, of the criteria in ``overrides`` by name, and the seed, without
    params.yaml: the defaults changed by ``["evaluate.ties=optimistic"]``. Raises
    ParamsError with every problem."""
    root = validated(schema.Measuring, with_overrides({}, overrides, "the command line"), "--set")
    text = "names data sets, and vectors from files are of none; give the file alone"
    named = [(("evaluate", "judgements"), text)] if root.evaluate.by_dataset else []
    _require("--set", [*named, *relations.unnamed(root.evaluate)])
    options = {name: INFERENCES.read(name, values) for name, values in root.inference.items()}
    return root.evaluate, options, root.seed


def validated(model: type[Model], values: dict, file: str) -> Model:
    """The content of a file. Raises ParamsError with the address of each problem after its name."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise ParamsError(*_lines(file, in_words(error))) from error


def _require(file: str, problems: Iterable[Problem]) -> None:
    """Raises ParamsError unless there is no problem."""
    if lines := _lines(file, problems):
        raise ParamsError(*lines)


def _lines(file: str, problems: Iterable[Problem]) -> list[str]:
    addressed = [(" ".join([file, ".".join(map(str, place))]).strip(), text) for place, text in problems]
    return list(dict.fromkeys(f"{address}: {text}" for address, text in addressed))


def _params(root: schema.Root, runs: dict[str, Run]) -> Params:
    groups = _groups(root.runs)
    moved, moved_groups = _transfers(root.transfers, groups)
    expanded = {key: paths.expand_groups(groups, getattr(root.report, key)) for key in ("audits", "localized")}
    ensembles = {
        name: node.model_copy(update={"runs": paths.expand_groups(groups, node.runs)})
        for name, node in root.ensembles.items()
    }
    unchanged = ["seed", "grid", "datasets", "features", "texts", "teachers", "embed", "evaluate", "localize", "engine"]
    return Params(
        **{key: getattr(root, key) for key in unchanged},
        noises={
            draw: typed.Noise(node.dataset, node.protocol, seed)
            for name, node in root.noises.items()
            for draw, seed in _seeds(name, node, root.seed if node.seed is None else node.seed).items()
        },
        draws=_groups(root.noises),
        runs=runs,
        groups={**groups, **moved_groups},
        transfers=moved,
        ensembles=ensembles,
        inference=_inference(root),
        report=root.report.model_copy(update=expanded),
    )


def _seeds(name: str, node: RunNode | NoiseNode, seed: int) -> dict[str, int]:
    """The seed of each model of a run, or draw of a noise; ``seed`` without seeds."""
    return {name: seed} if node.seeds is None else {paths.seed_run(name, each): each for each in node.seeds}


def _groups(nodes: dict[str, Any]) -> Groups:
    """The names of the seeds of each entry that has seeds."""
    return {name: tuple(_seeds(name, node, 0)) for name, node in nodes.items() if node.seeds is not None}


def _transfers(nodes: dict[str, schema.TransferNode], groups: Groups) -> tuple[dict[str, schema.TransferNode], Groups]:
    """A transfer for each model: ``max_on_mine/1`` of ``max/1``, and their names."""
    transfers: dict[str, schema.TransferNode] = {}
    repeated: Groups = {}
    for name, node in nodes.items():
        models = {name: node.run}
        if node.run in groups:
            models = {paths.seed_run(name, int(run.rpartition("/")[2])): run for run in groups[node.run]}
            repeated[name] = tuple(models)
        transfers |= {model: node.model_copy(update={"run": run}) for model, run in models.items()}
    return transfers, repeated


def _inference(root: schema.Root) -> dict[str, Strict]:
    """Options of the criteria that rank every run, and of all others in the file."""
    names = {*root.inference, *(part for entry in root.grid.inferences for part in criterion_parts(entry))}
    return {name: INFERENCES.read(name, root.inference.get(name, {})) for name in sorted(names)}


def _runs(root: schema.Root) -> tuple[dict[str, Run], list[Problem]]:
    """A run for each model, and problems of values that do not fit members or training."""
    problems: list[Problem] = []
    runs = {}
    for name, node in root.runs.items():
        run = _run(root, node, ("runs", name), problems)
        drawn = node.noise in root.noises and root.noises[node.noise].seeds is not None
        for model, seed in _seeds(name, node, root.seed).items():
            noise = paths.seed_run(node.noise, seed) if drawn else node.noise
            runs[model] = replace(run, seed=seed, noise=noise)
    return runs, problems


def _run(root: schema.Root, node: RunNode, place: tuple[str, ...], problems: list[Problem]) -> Run:
    """The run with its members; what cannot be read is None and adds to ``problems``."""

    def merged(read: Callable[[dict], Any], shared: dict, changes: dict, *keys: str) -> Any:
        try:
            return read({**shared, **changes})
        except ValidationError as error:
            problems.extend(((*place, *keys, *at), text) for at, text in in_words(error))

    members: dict[str, Any] = {}
    options = cast(dict[str, dict], node.options)
    for key, family in RUN_FAMILIES.items():
        name = getattr(node, key)
        shared, changes = getattr(root, key).get(name, {}), options.get(key, {})
        members[key] = Member(name, merged(partial(family.read, name), shared, changes, "options", key))
    train = merged(schema.TrainParams.model_validate, root.train.model_dump(), node.train, "train")
    return Run(node.dataset, node.features, node.texts, node.noise, **members, train=train, row=node.row)


def _sweeps(params: Params) -> Iterator[Problem]:
    """Runs without a number at the address of their sweep."""
    for name, sweep in params.report.sweeps.items():
        for run in sweep.runs if sweep.x != schema.EPOCH else ():
            if params.number(run, sweep.x) is None:
                yield ("report", "sweeps", name, "x"), f"run '{run}' has no number at '{sweep.x}'"


def _ensembles(params: Params) -> Iterator[Problem]:
    """Problems of ensembles with all seeds of their runs."""
    for name, node in params.ensembles.items():
        if len(node.runs) < 2 or not node.members:
            text = "name two models, one of them trained; a run with several seeds counts as several"
            yield ("ensembles", name, "runs"), text
        count = len(node.runs) - (node.rescore is not None)
        if len(node.shares) != count:
            yield (
                ("ensembles", name, "weights"),
                f"{len(node.shares)} weights for {count} models whose scores are joined",
            )
