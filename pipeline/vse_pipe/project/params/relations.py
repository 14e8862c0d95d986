"""Checks between the entries of params.yaml: the names in them, what they share, and members that
do not fit together.

A check yields the problems of a file whose single values are right.
"""

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from vse_pipe.core.errors import missing, unknown
from vse_pipe.core.strict import Problem
from vse_pipe.project import registry
from vse_pipe.project.params.nodes import EntryName, RunNode, TeacherNode
from vse_pipe.project.params.schema import EvaluateParams, Root
from vse_pipe.project.registry import RUN_FAMILIES, SIMILARITIES, TEXT_FEATURES


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
    for key, files in root.evaluate.by_dataset.items():
        for name in set(files) - set(root.datasets):
            yield ("evaluate", key, name), unknown("data set", name, root.datasets)


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
        is_known = registry.FORMATS.traits(format_name).knows_truth
        if registry.PROTOCOLS.traits(protocol).knows_truth and not is_known:
            text = f"nobody knows which pairs of data set '{noise.dataset}' ({format_name}) match"
            yield ("noises", name, "protocol"), f"{text}; use protocol as_is, not '{protocol}'"
    for name, teacher in root.teachers.items():
        yield from ((("teachers", name, *place), text) for place, text in _teacher(root, name, teacher))
    for name, run in root.runs.items():
        yield from ((("runs", name, key), text) for key, text in _misfits(root, run))
    yield from _ensembles(root)
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
    """Digests of files that no other key names."""
    for path in evaluate.sha256.keys() - evaluate.files:
        yield ("evaluate", "sha256", path), "neither judgements nor labels nor groups name that file"


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
    yield from _texts(root, run)
    yield from _training(root, run)
    yield from _fragments(run)
    yield from _networks(root, run)


def _texts(root: Root, run: RunNode) -> Iterator[tuple[str, str]]:
    method, encoder = root.texts[run.texts].method.name, registry.TEXT_ENCODERS.traits(run.text)
    output = TEXT_FEATURES.traits(method).gives
    if output != encoder.reads:
        yield (
            "text",
            f"text encoder '{run.text}' reads {encoder.reads}, but texts '{run.texts}' ({method}) are {output}",
        )
    elif encoder.methods and method not in encoder.methods:
        yield "text", f"text encoder '{run.text}' reads texts of method {' or '.join(encoder.methods)}, not {method}"


def _training(root: Root, run: RunNode) -> Iterator[tuple[str, str]]:
    """A scheme without its teacher, or with encoders that it does not train."""
    scheme, has_teacher = registry.SCHEMES.traits(run.scheme), run.noise in root.teachers
    if run.model is None and scheme.teacher and not has_teacher:
        yield "scheme", f"scheme '{run.scheme}' learns from a teacher; name an entry of teachers as noise"
    if run.model is None and has_teacher and not scheme.teacher:
        yield "noise", f"'{run.noise}' is a teacher, whom scheme '{run.scheme}' does not ask; take scheme distil"
    learn = [key for key in ("image", "text") if RUN_FAMILIES[key].traits(getattr(run, key)).learns]
    if scheme.trains and not learn:
        yield "scheme", f"scheme '{run.scheme}' has nothing to train; take scheme zero_shot"
    for key in learn if not scheme.trains else ():
        text = f"{key} encoder '{getattr(run, key)}' has weights, and scheme '{run.scheme}' trains none; take identity"
        yield key, text


def _fragments(run: RunNode) -> Iterator[tuple[str, str]]:
    """Problems of a similarity of fragments with encoders of one vector, or the reverse."""
    compares_fragments = SIMILARITIES.traits(run.similarity).fragments
    images, words = registry.IMAGE_ENCODERS.traits(run.image).regions, registry.TEXT_ENCODERS.traits(run.text).words
    chosen, image = f"similarity '{run.similarity}'", f"image encoder '{run.image}'"
    if compares_fragments and not images:
        yield "similarity", f"{chosen} compares regions, but {image} gives one vector an image"
    if compares_fragments and not words:
        yield "similarity", f"{chosen} compares words, but text encoder '{run.text}' gives one vector a caption"
    if images and not compares_fragments:
        yield "similarity", f"{image} gives regions, but {chosen} compares one vector an image"


def _networks(root: Root, run: RunNode) -> Iterator[tuple[str, str]]:
    """Problems of encoders that hold another network than that of the features."""
    backbone = root.features[run.features].backbone.name
    for key in ("image", "text"):
        able = RUN_FAMILIES[key].traits(getattr(run, key)).backbones
        if able is not None and backbone not in able:
            network = f"{key} encoder '{getattr(run, key)}' trains the network of features of {' or '.join(able)}"
            yield key, f"{network}, and features '{run.features}' are of {backbone}"
    traits = registry.IMAGE_ENCODERS.traits(run.image)
    if traits.reads == "pixels" and traits.backbones is None and not registry.BACKBONES.traits(backbone).trainable:
        text = f"features '{run.features}' ({backbone}) are not made from images by a network that it can train"
        yield "image", f"image encoder '{run.image}' reads pixels, but {text}"


def never_learns(loss: str, similarity: str) -> str | None:
    """The reason why a pair learns nothing from this loss with this similarity, or None."""
    if registry.LOSSES.traits(loss).above_zero and not SIMILARITIES.traits(similarity).above_zero:
        return f"loss '{loss}' pulls a pair together only while its similarity is above 0, and '{similarity}' never is"
    return None
