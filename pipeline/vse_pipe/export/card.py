"""The card of a pack: README.md with the figures of the run, how to use it, and what it was made from."""

import io
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from ruamel.yaml import YAML

from vse_pipe.artifacts import captions, evaluation, images, model_files
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Params, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, RUN_FAMILIES, SCHEMES
from vse_pipe.report.formatting import markdown_row

_TEMPLATE = Path(__file__).with_name("card.md.jinja")
_DIRECTIONS = {"image_to_text": "image to text", "text_to_image": "text to image"}
_ORIGINS = {
    "random": "are drawn from a seed",
    "published": "are fetched from their publisher",
    "file": f"lie in {model_files.WEIGHTS}/",
}
LOADER = """\
import vse_pipe as vp

model = vp.load(".")  # this folder
captions = model.encode_captions(["two dogs run along a beach", "a red car in the snow"])
images = model.encode_images(["a.jpg", "b.jpg"])
print(model.similarity(images, captions))  # a row for each image, a column for each caption
"""


@dataclass(frozen=True)
class About:
    """licence: as hubs name it, None if unknown; digests: of the packed files; config: of the model; features: their
    meta.json; parameters: their number in a network; figures: metrics.json by criterion; weights: places in the pack by
    paths here."""

    params: Params
    run: str
    licence: str | None
    digests: dict[str, str]
    config: dict
    features: dict
    parameters: int
    figures: dict[str, dict]
    weights: dict[str, str]

    @property
    def run_node(self) -> Run:
        return self.params.runs[self.run]


def card_text(about: About) -> str:
    """The card as Markdown with front matter."""
    params, node, config = about.params, about.run_node, about.config
    text = params.texts[node.texts].method
    options = (text.params, *(part.params for part in text.params.further()))
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)  # noqa: S701 (Markdown)
    return environment.from_string(_TEMPLATE.read_text(encoding="utf-8")).render(
        **vars(about),
        version=version("vse-pipe"),
        members={key: config[key]["name"] for key in RUN_FAMILIES},
        training=_training(about),
        first=next(iter(about.figures.values()), None),
        table=_table(about.figures),
        loader=LOADER,
        reads_pixels=IMAGE_ENCODERS.traits(config["image"]["name"]).reads == "pixels",
        origin=_ORIGINS.get((about.features.get("weights") or {}).get("origin", "")),
        encoders=[member.model for member in options if isinstance(member, EncoderParams)],
        entries=_yaml(_entries(about)),
        front_matter=_yaml(_front_matter(about)),
        dataset=node.dataset,
        format=params.datasets[node.dataset].format.name,
        splits=_splits(paths.prepared(node.dataset)),
        noise=params.pairs(node.noise).protocol,
        backbone=params.features[node.features].backbone.name,
        pair=_pair(about.features),
        method=text.name,
    )


def _training(about: About) -> str:
    config = about.config
    loss, scheme, sampler = (f"`{config[key]['name']}`" for key in ("loss", "scheme", "sampler"))
    if not SCHEMES.traits(config["scheme"]["name"]).trains:
        return f"nothing was trained, features and texts are as they are: {config['embed_size']} dimensions."
    reason = model_files.unconverged(config)
    return (
        f"trained with loss {loss}, scheme {scheme} and sampler {sampler}. {about.parameters:,} "
        f"parameters{' in each of two networks' if 'peer_sha256' in config else ''}, {config['embed_size']} dimensions; epoch "
        f"{config['best']['epoch']} is the best on the validation split.{f' Not converged: {reason}.' if reason else ''}"
    )


def _pair(features: dict) -> dict | None:
    """The pretrained pair of open_clip behind the features, if there is one. features: their meta.json."""
    if features.get("backbone") != "open_clip":
        return None
    weights, tag = features["weights"], features["pretrained"]
    digest = f"sha256 `{weights['sha256']}`" if "sha256" in weights else "random"
    named = f"`{tag}`, {digest}" if tag else digest
    return {"network": features["network"], "weights": named}


def _front_matter(about: About) -> dict:
    """Fields for hubs; ``model-index`` has a metric for each criterion, direction and K."""
    dataset = about.run_node.dataset
    measured = [
        {"type": "recall", "name": f"R@{k} {label}, {name}", "value": metrics[direction][f"r@{k}"]}
        for name, metrics in about.figures.items()
        for direction, label in _DIRECTIONS.items()
        for k in evaluation.KS
    ]
    fields: dict = {
        "library_name": "vse-pipe",
        "license": about.licence or "other",
        "pipeline_tag": "feature-extraction",
        "tags": ["image-text-retrieval", *sorted({about.config[key]["name"] for key in RUN_FAMILIES})],
        "datasets": [dataset],
    }
    if measured:
        source = {"name": dataset, "type": dataset, "split": next(iter(about.figures.values()))["split"]}
        task = {"type": "image-text-retrieval", "name": "Image-text retrieval"}
        result = {"task": task, "dataset": source, "metrics": measured}
        fields["model-index"] = [{"name": about.run, "results": [result]}]
    return fields


def _table(figures: dict[str, dict]) -> str:
    """The recalls of each criterion with their intervals, in Markdown."""
    ks = [f"R@{k}" for _ in _DIRECTIONS for k in evaluation.KS]
    lines = [markdown_row(["criterion", "bank", *ks, "rsum"]), f"|---|---|{'---:|' * (len(ks) + 1)}"]
    for name, metrics in figures.items():
        ends = metrics.get("intervals", {})
        cells = [
            _with_interval(metrics[direction][f"r@{k}"], ends.get(direction, {}).get(f"r@{k}"))
            for direction in _DIRECTIONS
            for k in evaluation.KS
        ]
        cells.append(_with_interval(metrics["rsum"], ends.get("rsum")))
        bank = f"{metrics['bank']}, transductive" if metrics["transductive"] else metrics["bank"]
        lines.append(markdown_row([name, bank, *cells]))
    return "\n".join(lines)


def _with_interval(value: float, ends: list[float] | None) -> str:
    return f"{value:.1f}" + (f" [{ends[0]:.1f}, {ends[1]:.1f}]" if ends else "")


def _entries(about: About) -> dict:
    params, run = about.params, about.run_node
    noise = run.noise.replace("/", "-")
    places = {path: f"models/{about.run}/{place}" for path, place in about.weights.items()}
    members = {
        "features": (run.features, "backbone", params.features[run.features].backbone),
        "texts": (run.texts, "method", params.texts[run.texts].method),
        "noises": (noise, "protocol", params.pairs(run.noise).protocol),
    }
    nodes: dict = {
        key: {name: {"dataset": run.dataset} | with_weights(_named(kind, member), places)}
        for key, (name, kind, member) in members.items()
    }
    families = {key: getattr(run, key) for key in RUN_FAMILIES}
    options = {key: member.params.model_dump(mode="json") for key, member in families.items()}
    entry: dict = {"dataset": run.dataset, "features": run.features, "texts": run.texts, "noise": noise}
    entry |= {key: member.name for key, member in families.items()}
    entry |= {"options": {key: value for key, value in options.items() if value}}
    entry |= {"train": {"embed_size": about.config["embed_size"]}}
    entry |= {"model": f"models/{about.run}", "sha256": about.digests[model_files.CONFIG]}
    return nodes | {"runs": {about.run.replace("/", "-"): entry}}


def _named(kind: str, member: Member) -> dict:
    return {kind: member.name} | member.params.model_dump(mode="json", exclude_defaults=True)


def _splits(prepared: Path) -> str:
    """Numbers of images and captions by split."""
    tables = (images.read(prepared), captions.read(prepared, columns=["split"]))
    counts = [Counter(table["split"].to_pylist()) for table in tables]
    return ", ".join(f"{split} {counts[0][split]:,} / {count:,}" for split, count in counts[1].items())


def _yaml(content: dict) -> str:
    stream, writer = io.StringIO(), YAML()
    writer.width = 4096
    writer.dump(content, stream)
    return stream.getvalue()


def weights_in(options: object) -> list[str]:
    """All ``weights`` and ``detector_weights`` in options of a meta.json, with those of parts."""
    if isinstance(options, list):
        return [value for part in options for value in weights_in(part)]
    if not isinstance(options, dict):
        return []
    values = [value for key, value in options.items() if key.endswith("weights") and isinstance(value, str)]
    return values + [value for part in options.values() for value in weights_in(part)]


def with_weights(options: dict, places: dict[str, str]) -> dict:
    """``options`` with other ``weights``. places: the new values by the old ones."""

    def replaced(key: str, value: object) -> object:
        if isinstance(value, dict):
            return with_weights(value, places)
        if isinstance(value, list):
            return [replaced("", part) for part in value]
        return places.get(value, value) if key.endswith("weights") and isinstance(value, str) else value

    return {key: replaced(key, value) for key, value in options.items()}
