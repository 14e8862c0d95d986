"""What runs are made from: the entries under datasets, features, texts and noises."""

from typing import Any

from vse_pipe.core.files import refuse_secrets
from vse_pipe.project.params.reader import ParamsReader
from vse_pipe.project.params.schema import DatasetNode, FeaturesNode, NoiseNode, Root, TeacherNode, TextsNode
from vse_pipe.project.params.typed import Dataset, FeatureSet, Noise, TextSet
from vse_pipe.project.registry import BACKBONES, FORMATS, PROPOSALS, PROTOCOLS, TEXT_FEATURES


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
