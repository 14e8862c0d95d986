"""Read params.yaml once, validate all of it, and report every problem with its address."""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from vse_pipe.core.errors import ParamsError
from vse_pipe.core.strict import Strict
from vse_pipe.project import repetitions
from vse_pipe.project.params import checks as params_checks
from vse_pipe.project.params import runs
from vse_pipe.project.params.checks import (
    ensemble_problems,
    evaluation_problems,
    sweep_problems,
    teacher_problems,
    transfer_problems,
)
from vse_pipe.project.params.document import read_document, with_overrides
from vse_pipe.project.params.reader import ParamsReader
from vse_pipe.project.params.schema import EngineParams, EnsembleNode, EvaluateParams, Measuring, Root
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.registry import INFERENCES

# (address, what is wrong there) of the mistakes that a check finds in a file of the right form.
Check = Callable[[Root], Iterable[tuple[str, str]]]


def load(path: Path, overrides: list[str] | None = None, shown_as: str = "", further: Iterable[Check] = ()) -> Params:
    """Raises ParamsError with every problem found.

    overrides: ``["train.lr=1e-4"]``, applied for this call only; shown_as: the file's name in messages; further: checks of
    what params.yaml says about things that this package does not know.
    """
    name = shown_as or path.name
    reader = ParamsReader(name)
    root = reader.model(Root, with_overrides(read_document(path), overrides or [], name), "")
    if root is None:
        raise ParamsError(reader.problems)
    loaded = _params(reader, root)
    _report(reader, (problem for check in further for problem in check(root)))
    if not reader.problems:  # these look into their runs
        checks = (teacher_problems, ensemble_problems, transfer_problems, sweep_problems, evaluation_problems)
        _report(reader, dict.fromkeys(problem for check in checks for problem in check(loaded)))
    if reader.problems:
        raise ParamsError(reader.problems)
    return params_checks.completed(loaded)


def load_measuring(overrides: list[str]) -> tuple[EvaluateParams, dict[str, Strict], int, EngineParams]:
    """How to measure where there is no params.yaml: the defaults, changed by ``["evaluate.ties=average"]``.

    Returns the parameters of evaluate, those of the criteria that ``overrides`` speak of, by name, the seed, and
    the engine. Raises ParamsError with every problem found.
    """
    reader = ParamsReader("--set")
    root = reader.model(Measuring, with_overrides({}, overrides, "the command line"), "")
    found = {} if root is None else _criteria(reader, root.inference, list(root.inference))
    _report(reader, [] if root is None else params_checks.without_project(root.evaluate))
    if reader.problems:
        raise ParamsError(reader.problems)
    return root.evaluate, found, root.seed, root.engine


def _params(reader: ParamsReader, root: Root) -> Params:
    """Of use only where ``reader`` has found no problem."""
    models, groups = _models(root, {name: runs.run(reader, root, name, node) for name, node in root.runs.items()})
    moved, of_moved = params_checks.expanded(root.transfers, groups)
    return Params(
        seed=root.seed,
        grid=root.grid,
        datasets={name: runs.dataset(reader, name, node) for name, node in root.datasets.items()},
        features={name: runs.features(reader, root, name, node) for name, node in root.features.items()},
        texts={name: runs.texts(reader, root, name, node) for name, node in root.texts.items()},
        noises={name: runs.noise(reader, root, name, node) for name, node in root.noises.items()},
        teachers={name: runs.teacher(reader, root, name, node) for name, node in root.teachers.items()},
        runs=models,
        groups={**groups, **of_moved},
        transfers=moved,
        ensembles={name: _ensemble(node, groups) for name, node in root.ensembles.items()},
        embed=root.embed,
        evaluate=root.evaluate,
        localize=root.localize,
        engine=root.engine,
        inference=_ranked(reader, root),
        report=_audited(reader, root, groups),
    )


def _models(root: Root, read: dict[str, Run]) -> tuple[dict[str, Run], dict[str, tuple[str, ...]]]:
    """One run a model, and the names of those that repeat a run with seeds."""
    models: dict[str, Run] = {}
    groups = {}
    for name, run in read.items():
        seeds = root.runs[name].seeds
        names = {name: root.seed} if seeds is None else {repetitions.name(name, seed): seed for seed in seeds}
        models |= {one: run and replace(run, seed=seed) for one, seed in names.items()}
        if seeds is not None:
            groups[name] = tuple(names)
    return models, groups


def _ensemble(node: EnsembleNode, groups: dict[str, tuple[str, ...]]) -> EnsembleNode:
    """With the repetitions of its runs with seeds."""
    return node if node.runs is None else node.model_copy(update={"runs": repetitions.expanded(groups, node.runs)})


def _ranked(reader: ParamsReader, root: Root) -> dict[str, Strict]:
    """Options of the criteria that rank every run, and of those that the file speaks of besides."""
    names = set(root.inference)
    for index, entry in enumerate(root.grid.inferences):
        address, parts = f"grid.inferences.{index}", params_checks.parts(entry)
        known = [part for part in parts if reader.known(INFERENCES, part, address)]
        names.update(known)
        if known == parts and (text := params_checks.objection(entry)):
            reader.problem(address, text)
    return _criteria(reader, root.inference, sorted(names))


def _criteria(reader: ParamsReader, options: dict[str, dict], names: list[str]) -> dict[str, Strict]:
    places = {name: f"inference.{name}" for name in names}
    members = [reader.member(INFERENCES, name, options.get(name, {}), place, place) for name, place in places.items()]
    return {member.name: member.params for member in members if member}


def _audited(reader: ParamsReader, root: Root, groups: dict[str, tuple[str, ...]]):
    """The report; what it names for a stage of theirs must be runs, and is all repetitions of those with seeds."""
    for key, names in (("audits", root.report.audits), ("localized", root.report.localized)):
        for index, name in enumerate(names):
            address = f"report.{key}.{index}"
            if reader.reference(name, root.runs, "run", address) and name in names[:index]:
                reader.problem(address, f"'{name}' is named twice")
    report = root.report
    update = {key: repetitions.expanded(groups, getattr(report, key)) for key in ("audits", "localized")}
    return report.model_copy(update=update)


def _report(reader: ParamsReader, problems: Iterable[tuple[str, str]]) -> None:
    for address, text in problems:
        reader.problem(address, text)
