"""Checks of params.yaml that look at several entries: judgements, criteria, ensembles, teachers, sweeps and transfers.

A check yields (address, problem) for every mistake.
"""

from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

from vse_pipe.core.errors import UsageError, missing, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.project import paths
from vse_pipe.project.params.schema import BESIDE, EnsembleNode, EvaluateParams, SweepNode, TransferNode
from vse_pipe.project.params.typed import Member, Params, Run
from vse_pipe.project.registry import INFERENCES, SIMILARITIES


def evaluation_problems(params: Params) -> Iterator[tuple[str, str]]:
    """Problems of evaluate.judgements and evaluate.labels: their ids belong to one data set."""
    measured = dict.fromkeys(map(params.dataset, (*params.runs, *params.transfers)))
    for key in BESIDE:
        setting = getattr(params.evaluate, key)
        if isinstance(setting, str) and len(measured) > 1:
            text = f"runs are on several data sets, {', '.join(measured)}; say which the file is of, as {{{next(iter(measured))}: {setting}}}"
            yield f"evaluate.{key}", text
        for name in setting if isinstance(setting, dict) else ():
            if name not in params.datasets:
                yield f"evaluate.{key}.{name}", unknown("data set", name, sorted(params.datasets))
    yield from unnamed(params.evaluate)


def without_project(evaluate: EvaluateParams) -> Iterator[tuple[str, str]]:
    """``evaluation_problems`` where vectors come from files."""
    for key in BESIDE:
        if isinstance(getattr(evaluate, key), dict):
            yield f"evaluate.{key}", "names data sets, and vectors from files are of none; give the file alone"
    yield from unnamed(evaluate)


def unnamed(evaluate: EvaluateParams) -> Iterator[tuple[str, str]]:
    settings = [getattr(evaluate, key) for key in BESIDE]
    files = {file for one in settings for file in (one.values() if isinstance(one, dict) else [one])}
    for path in evaluate.sha256:
        if path not in files:
            yield f"evaluate.sha256.{path}", f"neither {' nor '.join(BESIDE)} name that file"


def parts(criterion: str) -> list[str]:
    return criterion.split("+")


def matches(criterion: str) -> bool:
    """Whether it ends in a matching."""
    return INFERENCES.traits(parts(criterion)[-1]).matches


def ranked_under(params: Params, name: str) -> list[str]:
    """The criteria of the grid that rank a run or ensemble. One that rescores takes no matching: its queries have
    different scales."""
    node = params.ensembles.get(name)
    rescored = node is not None and node.rescore is not None
    return [one for one in params.grid.inferences if not (rescored and matches(one))]


def options(params: Params, criterion: str) -> dict:
    """The options of its parts in params.yaml, without grids of values to choose from."""
    sections = [params.inference[name].model_dump(mode="json") for name in parts(criterion) if name in params.inference]
    return {key: value for section in sections for key, value in section.items() if not key.endswith("_grid")}


def made_with(metrics: dict) -> dict[str, dict]:
    """{direction: options} of an evaluation, without options that validation data chose. metrics: its metrics.json."""
    parameters, tuned = metrics.get("parameters", {}), metrics.get("tuned", {})
    return {
        direction: {key: value for key, value in values.items() if key not in tuned.get(direction, {})}
        for direction, values in parameters.items()
    }


def objection(criterion: str) -> str | None:
    """The problem of parts that do not fit together. Raises UnknownMember for an unknown part."""
    names = parts(criterion)
    problem = _objection(names, [INFERENCES.traits(name).matches for name in names])
    return f"inference criterion '{criterion}': {problem}" if problem else None


def _objection(names: list[str], matching: list[bool]) -> str | None:
    if len(names) > 2:
        return f"{len(names)} parts; give one rescoring and one matching at most, such as is+rgm"
    if matching == [True, True]:
        return "two matchings; the first leaves no scores for the second"
    if matching == [True, False]:
        return f"a matching comes last; write '{names[1]}+{names[0]}'"
    if matching == [False, False]:
        return "two rescorings; combine one with a matching, such as is+rgm"
    if matching == [False, True] and not INFERENCES.traits(names[0]).comparable_rows:
        return f"the rows of {names[0]} are on different scales and a matching compares rows; use is+{names[1]}"
    return None


def ensemble_problems(params: Params) -> Iterator[tuple[str, str]]:
    """Unknown or repeated runs, runs of different data sets, the name of a run, weights that do not fit."""
    for name, node in params.ensembles.items():
        address = f"ensembles.{name}"
        if name in params.runs or name in params.groups:
            yield address, "a run has this name, and its folder in data/evaluate; rename one of them"
        if len(node.runs) < 2 or not node.members:
            yield f"{address}.runs", "name two models, one of them trained; a run with several seeds counts as several"
        yield from _members(params, node, address)
        if node.weights is not None and len(node.weights) != node.count:
            yield f"{address}.weights", f"{len(node.weights)} weights for {node.count} models whose scores are joined"
        elif node.weights is not None and not any(node.weights):
            yield f"{address}.weights", "all are 0; at least one run must count"


def _members(params: Params, node: EnsembleNode, address: str) -> Iterator[tuple[str, str]]:
    for run in node.members:
        if run not in params.runs:
            yield f"{address}.runs", unknown("run", run, sorted(params.runs))
    for run in sorted({run for run in node.runs if node.runs.count(run) > 1}):
        yield f"{address}.runs", f"'{run}' is named twice; its mean with itself is itself"
    datasets = {run: params.runs[run].dataset for run in node.members if run in params.runs}
    if len(set(datasets.values())) > 1:
        description = " and ".join(f"'{run}' is of '{dataset}'" for run, dataset in datasets.items())
        yield address, f"all runs must be of one data set, but {description}"


def teacher_problems(params: Params) -> Iterator[tuple[str, str]]:
    """An unknown run, a run of another data set or without one vector a side, the folder of another node, a circle."""
    for name, node in params.teachers.items():
        address = f"teachers.{name}"
        noise = params.noises.get(name)
        if noise is not None and noise.dataset == node.dataset:
            yield address, f"noises.{name} of the same data set is written to the same folder; rename one of them"
        first = params.models(node.run)[0]
        if first not in params.runs:  # a transfer may have several models too
            run_names = {*params.runs, *(name for name, models in params.groups.items() if models[0] in params.runs)}
            yield f"{address}.run", unknown("run", node.run, sorted(run_names))
            continue
        run = params.runs[first]
        if run.dataset != node.dataset:
            yield f"{address}.run", f"'{node.run}' is of data set '{run.dataset}', not '{node.dataset}'"
        if SIMILARITIES.traits(run.similarity.name).fragments or run.similarity.name != "cosine":
            text = f"'{node.run}' is compared by {run.similarity.name}; a teacher is compared by cosine"
            yield f"{address}.run", text
        if name in _before(params, name):
            yield address, "what it is made of is trained on it, in a circle"


def _before(params: Params, name: str) -> set[str]:
    """The teachers that must exist before this one: those of its pairs, and of the pairs that its run is trained on."""
    teachers: set[str] = set()
    waiting = [name]
    while waiting:
        node = params.teachers[waiting.pop()]
        pairs = [node.noise, *(params.runs[one].noise for one in params.models(node.run) if one in params.runs)]
        new = {one for one in pairs if one in params.teachers} - teachers
        teachers |= new
        waiting += new
    return teachers


EPOCH = "epoch"
# Entries of a run that name a node; their values are the options of the node's member.
_NODES = {"dataset": "datasets", "features": "features", "texts": "texts", "noise": "noises"}


def value(params: Params, run: str, x: str) -> int | float:
    """The number at ``x`` in a run, for sweeps without problems. Raises KeyError where it is missing."""
    return _values(params, _first(params, run))[x]


def _is_run(params: Params, run: str) -> bool:
    return params.models(run)[0] in params.runs


def _first(params: Params, run: str) -> Run:
    """The run, or its first seed: the seeds differ in nothing else."""
    return params.runs[params.models(run)[0]]


def sweep_problems(params: Params) -> list[tuple[str, str]]:
    problems = []
    for name, sweep in params.report.sweeps.items():
        address = f"report.sweeps.{name}"
        objections = (*_run_problems(params, sweep), *_criterion(params, sweep))
        problems += [(f"{address}.{key}", text) for key, text in objections]
        if sweep.x != EPOCH:
            texts = [_number(params, run, sweep.x) for run in sweep.runs if _is_run(params, run)]
            problems += [(f"{address}.x", text) for text in dict.fromkeys(texts) if text]
    return problems


def _run_problems(params: Params, sweep: SweepNode):
    for key, runs in (("runs", sweep.runs), ("baselines", sweep.baselines)):
        for index, run in enumerate(runs):
            if not _is_run(params, run):
                yield f"{key}.{index}", unknown("run", run, sorted({*params.runs, *params.named(params.runs)}))
            elif run in runs[:index]:
                yield f"{key}.{index}", f"run '{run}' is named twice"
    runs_named = [run for run in (*sweep.runs, *sweep.baselines) if _is_run(params, run)]
    datasets = {_first(params, run).dataset: run for run in runs_named}
    if len(datasets) > 1:
        listing = ", ".join(f"'{run}' is of '{dataset}'" for dataset, run in datasets.items())
        yield "runs", f"runs of several data sets cannot be compared: {listing}"


def _criterion(params: Params, sweep: SweepNode):
    if sweep.x == EPOCH:
        for key in sorted({"baselines", "inference"} & sweep.model_fields_set):
            yield key, "learning curves (x: epoch) have none; leave it out"
    elif sweep.inference not in params.grid.inferences:
        problem = f"'{sweep.inference}' is not in grid.inferences"
        yield "inference", missing(problem, sweep.inference, params.grid.inferences)


def _number(params: Params, run: str, x: str) -> str | None:
    """The problem of the value at ``x``; None if it is a number."""
    values = _values(params, _first(params, run))
    if x not in values:
        related = [known for known in values if known.startswith(x.partition(".")[0] + ".")]
        addresses = [EPOCH, *values]
        return missing(f"run '{run}' has no value '{x}'", x, addresses, f"known: {', '.join(related or addresses)}")
    number = values[x]
    if isinstance(number, bool) or not isinstance(number, int | float):
        return f"expected a number, but {x} of run '{run}' is {number!r}"
    return None


def _values(params: Params, run: Run) -> dict[str, Any]:
    """{address: value} of a run: ``{"loss.margin": 0.2, "noise.rate": 0.0, "train.lr": 0.0005, ...}``."""
    values: dict[str, Any] = {}
    for field in fields(run):
        part = getattr(run, field.name)
        if field.name in _NODES:
            node = getattr(params, _NODES[field.name]).get(part)
            part = next((one for one in vars(node).values() if isinstance(one, Member)), None) if node else None
        options = part.params if isinstance(part, Member) else part
        if isinstance(options, Strict):
            values |= flat(options.model_dump(), f"{field.name}.")
    return values


def flat(values: dict, prefix: str = "") -> dict[str, Any]:
    """The leaves of nested dictionaries, with keys ``outer.inner``."""
    leaves: dict[str, Any] = {}
    for key, value in values.items():
        leaves |= flat(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value}
    return leaves


Groups = dict[str, tuple[str, ...]]


def expanded(nodes: dict[str, TransferNode], groups: Groups) -> tuple[dict[str, TransferNode], Groups]:
    """A transfer for each model, and the names for a run with seeds: ``max_on_mine/1`` of ``max/1``."""
    transfers: dict[str, TransferNode] = {}
    repeated: Groups = {}
    for name, node in nodes.items():
        models = {name: node.run}
        if node.run in groups:
            models = {paths.seed_run(name, int(str(one).rpartition("/")[2])): one for one in groups[node.run]}
            repeated[name] = tuple(models)
        transfers |= {one: node.model_copy(update={"run": run}) for one, run in models.items()}
    return transfers, repeated


def transfer_problems(params: Params) -> Iterator[tuple[str, str]]:
    """Problems of transfers, for params without other problems."""
    for name, node in params.transfers.items():
        entry = paths.run_entry(name)
        address = f"transfers.{entry}"
        if entry in {*map(paths.run_entry, params.runs), *params.ensembles}:
            yield address, "a run or an ensemble has this name, and its folder in data/embed; rename one of them"
        if node.run not in params.runs:
            run_names = sorted({*params.runs, *map(paths.run_entry, params.runs)})
            yield f"{address}.run", unknown("run", node.run, run_names)
            continue
        trained_on = params.runs[node.run].dataset
        if node.dataset not in params.datasets:
            yield f"{address}.dataset", unknown("data set", node.dataset, sorted(params.datasets))
        elif node.dataset == trained_on:
            yield f"{address}.dataset", f"run '{node.run}' was trained on '{trained_on}' itself; name another data set"
        else:
            yield from ((f"{address}.features", text) for text in _features(params, node))
            if node.bank not in (None, node.dataset, trained_on):
                yield (
                    f"{address}.bank",
                    f"'{node.bank}' is neither of the data sets '{node.dataset}' and '{trained_on}'",
                )


def completed(params: Params) -> Params:
    """``params`` with the features and the bank that transfers leave open, for params without problems."""
    return replace(params, transfers={name: _completed(params, node) for name, node in params.transfers.items()})


def with_transfers(params: Params, runs: list[str], dataset: str) -> tuple[Params, list[str]]:
    """``params`` with a transfer to ``dataset`` for each run, and their names: from an entry of params.yaml, else
    ``hal@mine``, which no entry can have. Raises UsageError."""
    existing = {
        run: [name for name, node in params.transfers.items() if (node.run, node.dataset) == (run, dataset)]
        for run in runs
    }
    for run, names in existing.items():
        if len(names) > 1:
            listing = ", ".join(map(paths.run_entry, names))
            duplicate = f"run '{run}' has several transfers to '{dataset}': {listing}"
            raise UsageError(f"{duplicate}; name one of them with --run")
    named = {run: names[0] if names else _name(run, dataset) for run, names in existing.items()}
    new = {run: name for run, name in named.items() if name not in params.transfers}
    added = {name: TransferNode(run=run, dataset=dataset) for run, name in new.items()}
    if wrong := list(transfer_problems(replace(params, transfers=added))):
        raise UsageError(*dict.fromkeys(text for _, text in wrong))
    complete = {
        run: models for run, models in params.groups.items() if {*models} <= {*runs} and named[models[0]] in added
    }
    groups = {_name(run, dataset): tuple(named[one] for one in models) for run, models in complete.items()}
    both = replace(params, transfers={**params.transfers, **added}, groups={**params.groups, **groups})
    if objections := [f"params.yaml {address}: {text}" for address, text in evaluation_problems(both)]:
        raise UsageError(*objections)
    return completed(both), list(named.values())


def _name(run: str, dataset: str) -> str:
    """``max@mine/1`` of ``max/1``, whose folder lies beside those of the other seeds."""
    entry, seed = paths.run_entry(run), paths.run_seed(run)
    return f"{entry}@{dataset}" if seed is None else paths.seed_run(f"{entry}@{dataset}", seed)


def _completed(params: Params, node: TransferNode) -> TransferNode:
    features = node.features or _matching_features(params, node)[0]
    return node.model_copy(update={"features": features, "bank": node.bank or node.dataset})


def _features(params: Params, node: TransferNode) -> Iterator[str]:
    trained_on = params.runs[node.run].features
    backbone = params.features[trained_on].backbone
    if node.features is not None:
        features = params.features.get(node.features)
        if features is None:
            yield unknown("features", node.features, sorted(params.features))
        elif features.dataset != node.dataset:
            yield f"'{node.features}' belongs to data set '{features.dataset}', not '{node.dataset}'"
        elif features.backbone.name != backbone.name:
            yield f"'{node.features}' is of backbone {features.backbone.name}; run '{node.run}' reads {backbone.name}"
        return
    candidates = _matching_features(params, node)
    if not candidates:
        added = f"{trained_on}_{node.dataset}"
        yield (
            f"run '{node.run}' reads features.{trained_on} ({backbone.name}) and data set '{node.dataset}' has none of that backbone "
            f"and its options; add features.{added}, of dataset {node.dataset} and else as features.{trained_on}, and run "
            f"`vse-pipe extract --features {added}`"
        )
    elif len(candidates) > 1:
        yield f"data set '{node.dataset}' has several that run '{node.run}' can read; name one: {', '.join(candidates)}"


def _matching_features(params: Params, node: TransferNode) -> list[str]:
    """Features of the transfer's data set with the backbone and options of the run's features."""
    backbone = params.features[params.runs[node.run].features].backbone
    return [name for name, one in params.features.items() if (one.dataset, one.backbone) == (node.dataset, backbone)]
