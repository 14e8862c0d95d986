"""Checks between the entries of params.yaml: the names in them, what they share, and members that
do not fit together.

A check yields the problems of a file whose single values are right.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from vse_pipe.core.errors import missing, unknown
from vse_pipe.core.strict import Problem
from vse_pipe.project.params.nodes import EntryName, RunNode, TeacherNode
from vse_pipe.project.params.schema import EvaluateParams, Root, TransferNode
from vse_pipe.project.registry import (
    BACKBONES,
    FORMATS,
    IMAGE_ENCODERS,
    LOSSES,
    PROTOCOLS,
    RUN_FAMILIES,
    SCHEMES,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
)


def references(root: Root) -> Iterator[Problem]:
    """EntryName that no entry has, and entries of another data set."""
    for place, node, link, name in _links(root, ()):
        entries: dict[str, Any] = getattr(root, link.entries)
        if name not in entries:
            yield place, unknown(link.kind, name, entries)
        elif link.of_dataset and entries[name].dataset != node.dataset:
            yield place, f"'{name}' belongs to data set '{entries[name].dataset}', not '{node.dataset}'"
    for name, dataset in root.report.cleaning.items():
        noise, place = root.noises.get(name), ("report", "cleaning", name)
        if noise is None:
            yield place, unknown("noise", name, root.noises)
        elif noise.seeds is not None:
            yield place, f"noise '{name}' has several draws; audit one of them by `vse-pipe audit --noise`"
        elif noise.dataset != dataset:
            yield place, f"noise '{name}' is of data set '{noise.dataset}', not of '{dataset}'"
    for name in root.evaluate.by_dataset.keys() - root.datasets:
        yield ("evaluate", "judgements", name), unknown("data set", name, root.datasets)


def _links(node: BaseModel, place: tuple) -> Iterator[tuple[tuple, Any, EntryName, str]]:
    """(place, node, metadata, name) of every name of an entry in ``node`` and below."""
    for key, field in type(node).model_fields.items():
        value, address = getattr(node, key), (*place, key)
        for link in [extra for extra in field.metadata if isinstance(extra, EntryName)]:
            names = enumerate(value) if isinstance(value, list) else [(None, value)]
            for index, name in names:
                if name not in (None, link.besides):
                    yield address if index is None else (*address, index), node, link, name
        inner = value.items() if isinstance(value, dict) else [(None, value)]
        for name, entry in inner:
            if isinstance(entry, BaseModel):
                yield from _links(entry, address if name is None else (*address, name))


def problems(root: Root) -> Iterator[Problem]:
    """Entries that do not fit together, where all names are right."""
    for section, rival in (("texts", root.features), ("teachers", root.noises)):
        for name, node in getattr(root, section).items():
            if name in rival and rival[name].dataset == node.dataset:
                kind = "features" if section == "texts" else "noises"
                yield (section, name), f"{kind}.{name} of the same data set is written to the same folder; rename one"
    for name, noise in root.noises.items():
        chosen, format_name = noise.protocol, root.datasets[noise.dataset].format.name
        protocol = chosen.params.base if chosen.name == "decisions" else chosen.name
        is_known = FORMATS.traits(format_name).knows_truth
        if PROTOCOLS.traits(protocol).knows_truth and not is_known:
            text = f"nobody knows which pairs of data set '{noise.dataset}' ({format_name}) match"
            yield ("noises", name, "protocol"), f"{text}; use protocol as_is, not '{protocol}'"
    for name, teacher in root.teachers.items():
        yield from ((("teachers", name, *place), text) for place, text in _teacher(root, name, teacher))
    for name, run in root.runs.items():
        yield from ((("runs", name, key), text) for key, text in _misfits(root, run))
    yield from _ensembles(root)
    yield from _transfers(root)
    yield from _sweeps(root)
    yield from unnamed(root.evaluate)


def _teacher(root: Root, name: str, node: TeacherNode) -> Iterator[Problem]:
    noise = root.noises.get(node.noise)
    if noise is not None and noise.seeds is not None:
        yield ("noise",), f"noise '{node.noise}' has several draws; a teacher takes a noise with one"
    similarity = root.models[node.run].similarity
    if similarity != "cosine":
        yield ("run",), f"'{node.run}' is compared by {similarity}; a teacher is compared by cosine"
    before: set[str] = set()
    waiting = [name]
    while waiting:
        teacher = root.teachers[waiting.pop()]
        new = {teacher.noise, root.models[teacher.run].noise} & root.teachers.keys() - before
        before |= new
        waiting += new
    if name in before:
        yield (), "what it is made of is trained on it, in a circle"


def _ensembles(root: Root) -> Iterator[Problem]:
    for name, node in root.ensembles.items():
        place = ("ensembles", name)
        if name in root.runs:
            yield place, "a run has this name, and its folder in data/evaluate; rename one of them"
        yield from _one_dataset(root, place, node.members)


def _transfers(root: Root) -> Iterator[Problem]:
    """Problems of transfers, and of the files of several data sets."""
    for name, node in root.transfers.items():
        place, run = ("transfers", name), root.models[node.run]
        if name in {*root.runs, *root.ensembles}:
            yield place, "a run or an ensemble has this name, and its folder in data/embed; rename one of them"
        if node.dataset == run.dataset:
            text = f"run '{node.run}' was trained on '{run.dataset}' itself; name another data set"
            yield (*place, "dataset"), text
        if node.bank not in (None, node.dataset, run.dataset):
            text = f"'{node.bank}' is neither of the data sets '{node.dataset}' and '{run.dataset}'"
            yield (*place, "bank"), text
        backbone, needed = (root.features[entry].backbone.name for entry in (node.features, run.features))
        if backbone != needed:
            yield (*place, "features"), f"'{node.features}' is of {backbone}; run '{node.run}' reads {needed}"
    nodes: list[RunNode | TransferNode] = [*root.runs.values(), *root.transfers.values()]
    measured = dict.fromkeys(node.dataset for node in nodes)
    if isinstance(root.evaluate.judgements, str) and len(measured) > 1:
        text = f"runs are on several data sets, {', '.join(measured)}; give each its file, as {{name: file}}"
        yield ("evaluate", "judgements"), text


def _sweeps(root: Root) -> Iterator[Problem]:
    for name, node in root.report.sweeps.items():
        yield from _one_dataset(root, ("report", "sweeps", name, "runs"), (*node.runs, *node.baselines))
        if node.inference not in root.grid.inferences:
            text = missing(f"'{node.inference}' is not in grid.inferences", node.inference, root.grid.inferences)
            yield ("report", "sweeps", name, "inference"), text


def _one_dataset(root: Root, place: tuple[str, ...], runs: tuple[str, ...]) -> Iterator[Problem]:
    datasets = {root.models[run].dataset: run for run in runs}
    if len(datasets) > 1:
        listing = " and ".join(f"'{run}' is of '{dataset}'" for dataset, run in datasets.items())
        yield place, f"all runs must be of one data set, but {listing}"


def unnamed(evaluate: EvaluateParams) -> Iterator[Problem]:
    """Digests of files that are no judgements."""
    for path in evaluate.sha256.keys() - set(evaluate.by_dataset.values() or [evaluate.judgements]):
        yield ("evaluate", "sha256", path), "judgements does not name that file"


# The first may name in its traits those of the second that it supports: ``losses=("hal",)``.
_PARTNERS = (
    ("scheme", "loss", "losses"),
    ("scheme", "similarity", "similarities"),
    ("loss", "similarity", "similarities"),
)


def _misfits(root: Root, run: RunNode) -> Iterator[tuple[str, str]]:
    """(entry of the run, problem) of values that do not fit together."""
    noise = root.noises.get(run.noise)
    if noise is not None and noise.seeds is not None and not set(run.seeds or [-1]) <= set(noise.seeds):
        yield "seeds", f"the run's seeds must be among those of noise '{run.noise}': {', '.join(map(str, noise.seeds))}"
    for key, partner, plural in _PARTNERS:
        chosen, name = getattr(run, key), getattr(run, partner)
        partners = getattr(RUN_FAMILIES[key].traits(chosen), plural)
        if partners is not None and name not in partners:
            yield key, f"{key} '{chosen}' works with {partner} {', '.join(partners)}, not '{name}'"
    if problem := never_learns(run.loss, run.similarity):
        yield "loss", problem
    for key, is_wrong, text in _rules(root, run):
        if is_wrong:
            kind = RUN_FAMILIES[key].kind if key in RUN_FAMILIES else key
            yield key, f"{kind} '{getattr(run, key)}' {text}"


def _rules(root: Root, run: RunNode) -> list[tuple[str, bool, str]]:
    """(entry of the run, whether it does not fit, the end of the sentence about it)"""
    scheme, similarity = SCHEMES.traits(run.scheme), SIMILARITIES.traits(run.similarity)
    image, text = IMAGE_ENCODERS.traits(run.image), TEXT_ENCODERS.traits(run.text)
    method, backbone = root.texts[run.texts].method.name, root.features[run.features].backbone.name
    gives, is_network = TEXT_FEATURES.traits(method).gives, BACKBONES.traits(backbone).trainable
    has_teacher = run.noise in root.teachers
    is_fine, learns = similarity.fragments, image.learns or text.learns
    is_pixels = image.reads == "pixels" and image.backbones is None
    gives_vector = f"but image encoder '{run.image}' gives one vector"
    idle = f"has weights, and scheme '{run.scheme}' trains none; take identity"
    features = f"features '{run.features}' ({backbone})"
    another = f"is of another network than {features}"
    reads = f"cannot read texts '{run.texts}' ({method}), which are {gives}"
    return [
        ("text", gives != text.reads or method not in (text.methods or [method]), reads),
        ("scheme", scheme.teacher and not has_teacher, "needs a teacher as noise"),
        ("noise", has_teacher and not scheme.teacher, "is a teacher; take scheme distil"),
        ("scheme", scheme.trains and not learns, "has nothing to train; take scheme zero_shot"),
        ("image", image.learns and not scheme.trains, idle),
        ("text", text.learns and not scheme.trains, idle),
        ("similarity", is_fine and not image.regions, f"compares regions, {gives_vector}"),
        ("similarity", is_fine and not text.words, f"compares words, which '{run.text}' does not give"),
        ("similarity", image.regions and not is_fine, f"compares no regions, which '{run.image}' gives"),
        ("image", backbone not in (image.backbones or [backbone]), another),
        ("text", backbone not in (text.backbones or [backbone]), another),
        ("image", is_pixels and not is_network, f"cannot train the network of {features}"),
    ]


def never_learns(loss: str, similarity: str) -> str | None:
    """The reason why a pair learns nothing from this loss with this similarity, or None."""
    if LOSSES.traits(loss).above_zero and not SIMILARITIES.traits(similarity).above_zero:
        return f"loss '{loss}' pulls a pair together only while its similarity is above 0, and '{similarity}' never is"
    return None
