"""The card of a pack: README.md with the figures of the run, how to use it, and what it was made
from."""

from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from vse_pipe.artifacts import captions, evaluation, images, model_files
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS, RUN_FAMILIES, SCHEMES

_TEMPLATE = Path(__file__).with_name("card.md.jinja")
LOADER = """\
import vse_pipe as vp

model = vp.load(".")  # this folder
captions = model.encode_captions(["two dogs run along a beach", "a red car in the snow"])
images = model.encode_images(["a.jpg", "b.jpg"])
print(model.similarity(images, captions))  # a row for each image, a column for each caption
"""


def card_text(params: Params, run: str, config: dict, **content: Any) -> str:
    """The card as Markdown with front matter.

    config: of the model; content: ``licence`` as hubs name it, None if unknown; ``digests`` of the packed files; ``features``, their meta.json;
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
        dataset=node.dataset,
        format=params.datasets[node.dataset].format.name,
        counts=[Counter(table["split"].to_pylist()) for table in tables],
        noise=params.pairs(node.noise).protocol,
        backbone=params.features[node.features].backbone.name,
        method=text.name,
        **content,
    )
