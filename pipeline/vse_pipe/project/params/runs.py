"""What runs are made from: the entries under datasets, features, texts and noises."""

from collections.abc import Iterator
from typing import Any

from vse_pipe.core.errors import near_miss
from vse_pipe.core.files import refuse_secrets
from vse_pipe.project.params.reader import ParamsReader
from vse_pipe.project.params.schema import (
    DatasetNode,
    FeaturesNode,
    NoiseNode,
    Root,
    RunNode,
    TeacherNode,
    TextsNode,
    TrainParams,
)
from vse_pipe.project.params.typed import Dataset, FeatureSet, GivenModel, Noise, Run, TextSet
from vse_pipe.project.registry import (
    BACKBONES,
    FORMATS,
    IMAGE_ENCODERS,
    PROPOSALS,
    PROTOCOLS,
    RUN_FAMILIES,
    SIMILARITIES,
    TEXT_ENCODERS,
    TEXT_FEATURES,
)


def dataset(reader: ParamsReader, name: str, node: DatasetNode) -> Dataset:
    address = f"datasets.{name}"
    member = reader.member(FORMATS, node.format, node.model_extra, address, f"{address}.format")
    if member and FORMATS.traits(node.format).proposes:
        own = member.params
        reader.member(PROPOSALS, own.proposals, own.options, f"{address}.options", f"{address}.proposals")
    refuse_secrets(node.source)
    return Dataset(member, node.source, node.on_error, node.memory)


def features(reader: ParamsReader, root: Root, name: str, node: FeaturesNode) -> FeatureSet:
    address = f"features.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    backbone = reader.member(BACKBONES, node.backbone, node.model_extra, address, f"{address}.backbone")
    held = root.datasets.get(node.dataset)
    on_error = node.on_error or (held.on_error if held else "fail")
    return FeatureSet(node.dataset, backbone, on_error, node.max_errors)


def texts(reader: ParamsReader, root: Root, name: str, node: TextsNode) -> TextSet:
    address = f"texts.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    held = root.features.get(name)
    if held is not None and held.dataset == node.dataset:
        reader.problem(
            address, f"features.{name} of the same data set is written to the same folder; rename one of them"
        )
    method = reader.member(TEXT_FEATURES, node.method, node.model_extra, address, f"{address}.method")
    if method and TEXT_FEATURES.traits(node.method).mixes:
        for index, part in enumerate(method.params.parts):
            _part(reader, part, f"{address}.parts.{index}")
        if not reader.problems and (text := method.params.objection()):
            reader.problem(f"{address}.parts", text)
    return TextSet(node.dataset, method)


def _part(reader: ParamsReader, part: Any, address: str) -> None:
    """part: of a method that mixes others, which must give vectors."""
    if reader.member(TEXT_FEATURES, part.method, part.model_extra, address, f"{address}.method"):
        said = {name: TEXT_FEATURES.traits(name) for name in TEXT_FEATURES.names()}
        able = [name for name, traits in said.items() if traits.gives == "vectors" and not traits.mixes]
        if part.method not in able:
            reader.problem(f"{address}.method", f"'{part.method}' cannot be a part; those that can: {', '.join(able)}")


def noise(reader: ParamsReader, root: Root, name: str, node: NoiseNode) -> Noise:
    address = f"noises.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    protocol = reader.member(PROTOCOLS, node.protocol, node.model_extra, address, f"{address}.protocol")
    held = root.datasets.get(node.dataset)
    if (
        protocol
        and held is not None
        and held.format in FORMATS.names()
        and not FORMATS.traits(held.format).knows_truth
        and PROTOCOLS.traits(node.protocol).knows_truth
    ):
        reader.problem(
            f"{address}.protocol",
            f"data set '{node.dataset}' ({held.format}) is noisy by itself, and nobody knows which of its pairs "
            f"match; use protocol as_is, not '{node.protocol}'",
        )
    return Noise(node.dataset, protocol)


def teacher(reader: ParamsReader, root: Root, name: str, node: TeacherNode) -> TeacherNode:
    address = f"teachers.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    known: dict[str, NoiseNode | TeacherNode] = {**root.noises, **root.teachers}
    if reader.reference(node.noise, known, "noise", f"{address}.noise") and known[node.noise].dataset != node.dataset:
        reader.problem(
            f"{address}.noise",
            f"'{node.noise}' belongs to data set '{known[node.noise].dataset}', not '{node.dataset}'",
        )
    return node


# The first may name the second in its traits, ``losses=("hal",)``, when it works with some of them only.
_PARTNERS = (
    ("scheme", "loss", "losses"),
    ("scheme", "similarity", "similarities"),
    ("loss", "similarity", "similarities"),
)


def run(reader: ParamsReader, root: Root, name: str, node: RunNode) -> Run:
    address = f"runs.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    for key, nodes in (("features", root.features), ("texts", root.texts), ("noise", {**root.noises, **root.teachers})):
        _of_its_dataset(reader, nodes, node, key, address)
    for key in set(node.options) - set(RUN_FAMILIES):
        close = near_miss(key, list(RUN_FAMILIES)) or ";"
        reader.problem(f"{address}.options.{key}", f"unknown family{close} known: {', '.join(RUN_FAMILIES)}")
    members = {key: _member(reader, root, node, key, address) for key in RUN_FAMILIES}
    for key, text in _misfits(root, node, {key for key, member in members.items() if member}):
        reader.problem(f"{address}.{key}", text)
    train = reader.model(TrainParams, {**root.train.model_dump(), **node.train}, f"{address}.train")
    if train and train.warm_up >= train.epochs:
        place = f"{address}.train" if node.train.keys() & {"warm_up", "epochs"} else "train"
        reader.problem(f"{place}.warm_up", f"{train.warm_up:g} epochs leave none of train.epochs {train.epochs}")
    given = _given(reader, node, address)
    return Run(node.dataset, node.features, node.texts, node.noise, **members, train=train, row=node.row, model=given)


def _given(reader: ParamsReader, node: RunNode, address: str) -> GivenModel | None:
    """The model that the run takes instead of training one."""
    if node.model is None or node.sha256 is None:
        if node.model is not None:
            reader.problem(
                f"{address}.sha256", "is missing: the digest of the model's config.json, as its README.md has it"
            )
        if node.sha256 is not None:
            reader.problem(f"{address}.model", "is missing: the folder whose config.json has this sha256")
        return None
    if node.seeds is not None:
        reader.problem(
            f"{address}.seeds", "the run takes one model from a folder, which no seed changes; leave one of them out"
        )
    return GivenModel(node.model, node.sha256)


def _of_its_dataset(reader: ParamsReader, nodes: dict, node: RunNode, key: str, address: str) -> None:
    """``key`` must name a node of the run's own data set."""
    chosen = getattr(node, key)
    if reader.reference(chosen, nodes, key, f"{address}.{key}") and nodes[chosen].dataset != node.dataset:
        reader.problem(
            f"{address}.{key}", f"'{chosen}' belongs to data set '{nodes[chosen].dataset}', not '{node.dataset}'"
        )


def _member(reader: ParamsReader, root: Root, node: RunNode, key: str, address: str) -> Any:
    chosen, own = getattr(node, key), node.options.get(key, {})
    shared, section = getattr(root, key).get(chosen) or {}, f"{key}.{chosen}"
    place = f"{address}.options.{key}" if own else section
    elsewhere = dict.fromkeys(shared.keys() - own.keys(), section)
    return reader.member(RUN_FAMILIES[key], chosen, {**shared, **own}, place, f"{address}.{key}", elsewhere)


def _misfits(root: Root, node: RunNode, valid: set[str]) -> Iterator[tuple[str, str]]:
    """(entry of the run, what is wrong) of members that do not fit; valid: those whose name and options are right."""
    held = root.texts.get(node.texts)
    if "text" in valid and held and held.method in TEXT_FEATURES.names():
        given, wanted = TEXT_FEATURES.traits(held.method).gives, TEXT_ENCODERS.traits(node.text).reads
        if given != wanted:
            yield (
                "text",
                f"text encoder '{node.text}' reads {wanted}, but texts '{node.texts}' ({held.method}) are {given}",
            )
    for key, other, plural in _PARTNERS:
        if {key, other} <= valid:
            chosen, beside = getattr(node, key), getattr(node, other)
            partners = getattr(RUN_FAMILIES[key].traits(chosen), plural)
            if partners is not None and beside not in partners:
                yield key, f"{key} '{chosen}' works with {other} {', '.join(partners)}, not '{beside}'"
    if "scheme" in valid:
        yield from _teacher(root, node)
    if {"scheme", "image", "text"} <= valid:
        yield from _learners(node)
    if {"loss", "similarity"} <= valid and (found := never_learns(node.loss, node.similarity)):
        yield "loss", found
    if {"similarity", "image", "text"} <= valid:
        yield from (("similarity", text) for text in _fragments(node))
    source = root.features.get(node.features)
    if "image" in valid and source and source.backbone in BACKBONES.names():
        pixels = IMAGE_ENCODERS.traits(node.image).reads == "pixels"
        if pixels and not BACKBONES.traits(source.backbone).trainable:
            yield (
                "image",
                f"image encoder '{node.image}' reads pixels, but features '{node.features}' ({source.backbone}) are not made from images",
            )


def never_learns(loss: str, similarity: str) -> str | None:
    """Why a pair would learn nothing from this loss of this similarity, both known members."""
    if RUN_FAMILIES["loss"].traits(loss).above_zero and not SIMILARITIES.traits(similarity).above_zero:
        return f"loss '{loss}' pulls a pair together only while its similarity is above 0, and '{similarity}' never is"
    return None


def _fragments(node: RunNode) -> Iterator[str]:
    """What is wrong when a similarity of fragments meets encoders of one vector, or the reverse."""
    wanted = SIMILARITIES.traits(node.similarity).fragments
    images, words = IMAGE_ENCODERS.traits(node.image).regions, TEXT_ENCODERS.traits(node.text).words
    if wanted and not images:
        yield f"similarity '{node.similarity}' compares regions, but image encoder '{node.image}' gives one vector an image"
    if wanted and not words:
        yield f"similarity '{node.similarity}' compares words, but text encoder '{node.text}' gives one vector a caption"
    if images and not wanted:
        yield f"image encoder '{node.image}' gives regions, but similarity '{node.similarity}' compares one vector an image"


def _learners(node: RunNode) -> Iterator[tuple[str, str]]:
    """What is wrong when a scheme that trains finds nothing to train, or one that trains nothing finds weights."""
    learn = {key: RUN_FAMILIES[key].traits(getattr(node, key)).learns for key in ("image", "text")}
    if not RUN_FAMILIES["scheme"].traits(node.scheme).trains:
        for key in filter(learn.__getitem__, learn):
            yield (
                key,
                f"{key} encoder '{getattr(node, key)}' has weights, and scheme '{node.scheme}' trains none; take identity",
            )
    elif not any(learn.values()):
        yield (
            "scheme",
            f"scheme '{node.scheme}' has nothing to train: neither encoder has weights; take scheme zero_shot",
        )


def _teacher(root: Root, node: RunNode) -> Iterator[tuple[str, str]]:
    """What is wrong when a scheme that learns from a teacher has none, or another one has. A model that is given has learnt."""
    if node.model is not None:
        return
    wanted, there = RUN_FAMILIES["scheme"].traits(node.scheme).teacher, node.noise in root.teachers
    if wanted and not there:
        yield "scheme", f"scheme '{node.scheme}' learns from a teacher; name an entry of teachers as noise"
    if there and not wanted:
        yield "noise", f"'{node.noise}' is a teacher, whom scheme '{node.scheme}' does not ask; take scheme distil"
