"""The card of a pack: README.md with the figures of the run, how to use it, and what it was made
from."""

import io
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from ruamel.yaml import YAML

from vse_pipe.artifacts import captions, evaluation, images, model_files
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import IMAGE_ENCODERS, RUN_FAMILIES, SCHEMES

_TEMPLATE = Path(__file__).with_name("card.md.jinja")
LOADER = """\
import vse_pipe as vp

model = vp.load(".")  # this folder
captions = model.encode_captions(["two dogs run along a beach", "a red car in the snow"])
images = model.encode_images(["a.jpg", "b.jpg"])
print(model.similarity(images, captions))  # a row for each image, a column for each caption
"""


def card_text(params: Params, run: str, config: dict, weights: dict[str, str], **content: Any) -> str:
    """The card as Markdown with front matter.

    config: of the model; weights: places in the pack by paths here; content: ``licence`` as hubs
    name it, None if unknown; ``digests`` of the packed files; ``features``, their meta.json;
    ``parameters``, their number in a network; ``figures``, metrics.json by criterion."""
    node = params.runs[run]
    text, prepared = params.texts[node.texts].method, paths.prepared(node.dataset)
    options = (text.params, *(part.params for part in text.params.further()))
    tables = images.read(prepared), captions.read(prepared, columns=["split"])
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701 (Markdown)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        run=run,
        config=config,
        version=version("vse-pipe"),
        members={key: config[key]["name"] for key in RUN_FAMILIES},
        trains=SCHEMES.traits(config["scheme"]["name"]).trains,
        unconverged=model_files.unconverged(config),
        ks=evaluation.KS,
        directions=evaluation.DIRECTIONS,
        loader=LOADER,
        reads_pixels=IMAGE_ENCODERS.traits(config["image"]["name"]).reads == "pixels",
        encoders=[member.model for member in options if isinstance(member, EncoderParams)],
        entries=_entries(params, run, config, content["digests"][model_files.CONFIG], weights),
        dataset=node.dataset,
        format=params.datasets[node.dataset].format.name,
        counts=[Counter(table["split"].to_pylist()) for table in tables],
        noise=params.pairs(node.noise).protocol,
        backbone=params.features[node.features].backbone.name,
        method=text.name,
        **content,
    )


def _entries(params: Params, name: str, config: dict, digest: str, weights: dict[str, str]) -> str:
    """The entries of params.yaml under which another project takes the model."""
    run = params.runs[name]
    noise = run.noise.replace("/", "-")
    places = {path: f"models/{name}/{place}" for path, place in weights.items()}

    def place(path: str) -> str:
        return places.get(path, path)

    members = {
        "features": (run.features, "backbone", params.features[run.features].backbone),
        "texts": (run.texts, "method", params.texts[run.texts].method),
        "noises": (noise, "protocol", params.pairs(run.noise).protocol),
    }
    nodes: dict = {
        key: {node: {"dataset": run.dataset} | with_weights(_named(kind, member), place)}
        for key, (node, kind, member) in members.items()
    }
    families = {key: getattr(run, key) for key in RUN_FAMILIES}
    options = {key: member.params.model_dump(mode="json") for key, member in families.items()}
    entry: dict = {"dataset": run.dataset, "features": run.features, "texts": run.texts, "noise": noise}
    entry |= {key: member.name for key, member in families.items()}
    entry |= {"options": {key: value for key, value in options.items() if value}}
    entry |= {"train": {"embed_size": config["embed_size"]}}
    entry |= {"model": f"models/{name}", "sha256": digest}
    stream, writer = io.StringIO(), YAML()
    writer.width = 4096
    writer.dump(nodes | {"runs": {name.replace("/", "-"): entry}}, stream)
    return stream.getvalue()


def _named(kind: str, member: Member) -> dict:
    return {kind: member.name} | member.params.model_dump(mode="json", exclude_defaults=True)


def with_weights(options: Any, place: Callable[[str], str]) -> Any:
    """Options of a meta.json with ``place(weights)`` for all ``weights``, also of parts."""
    if isinstance(options, list):
        return [with_weights(part, place) for part in options]
    if not isinstance(options, dict):
        return options
    return {
        key: place(value) if key.endswith("weights") and isinstance(value, str) else with_weights(value, place)
        for key, value in options.items()
    }
