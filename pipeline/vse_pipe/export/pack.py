"""pack: write a run's model, with its card, as a folder for a model hub and for other projects."""

import io
import shutil
from collections import Counter
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ruamel.yaml import YAML

from vse_pipe.artifacts import captions, evaluation, features, identity, images, model_files, texts
from vse_pipe.core import locks
from vse_pipe.core.console import warn
from vse_pipe.core.errors import IntegrityError, UsageError
from vse_pipe.core.files import read_json, save_tensors, sha256, whole_folder, write_json, write_text
from vse_pipe.core.strict import WEIGHT_FILES
from vse_pipe.extract import pair
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Params, Run
from vse_pipe.project.registry import IMAGE_ENCODERS, RUN_FAMILIES, SCHEMES
from vse_pipe.report.formatting import markdown_row
from vse_pipe.train import restore
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.trained import FEATURES, TEXTS, Trained

CARD, WEIGHTS = "README.md", model_files.WEIGHTS
# Files of text features that a sentence needs. Token ids need only the vocabulary, which the model has.
OF_TEXTS = (texts.META, texts.VOCABULARY, texts.STATE)
OF_FEATURES = (features.META,)
_FOLDERS = (model_files.PEER, TEXTS, FEATURES, WEIGHTS)
# A checkpoint that open_clip opens as ``local-dir:``.
OPEN_CLIP = "open_clip"
PATTERNS = (CARD, *model_files.FILES, model_files.HISTORY, *(f"{folder}/*" for folder in (*_FOLDERS, OPEN_CLIP)))


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


_DIRECTIONS = {"image_to_text": "image to text", "text_to_image": "text to image"}
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


def evaluated_figures(params: Params, run: str) -> dict[str, dict]:
    """metrics.json by criterion, for the criteria in params.yaml under which the run was evaluated."""
    folders = {name: paths.evaluated(run, name) for name in params.ranked_under(run)}
    present = {name: folder for name, folder in folders.items() if (folder / evaluation.METRICS).is_file()}
    return {name: evaluation.read_metrics(folder) for name, folder in present.items()}


def card_text(about: About) -> str:
    """The card as Markdown with front matter."""
    node, config = about.run_node, about.config
    sides = {key: f"`{config[key]['name']}`" for key in RUN_FAMILIES}
    summary = (
        f"Images and captions in one space, by vse-pipe {version('vse-pipe')}: image side "
        f"{sides['image']}, text side {sides['text']}, compared by {sides['similarity']}; {_training(about, sides)}"
    )
    parts = {
        "Figures": _figures(about),
        "Use": f"```python\n{LOADER}```\n\n{_use(about)}",
        "In a project of vse-pipe": f"```yaml\n{_yaml(_entries(about))}```\n\n`model` is where this folder lies, `sha256` the digest "
        f"of its config.json. `vse-pipe train --run {about.run}` then takes the model and trains nothing; the data set must be the "
        "one below, with these features and texts.",
        "Data": _data(about),
        "Licence": f"`{about.licence}`"
        if about.licence
        else "Nobody has said under which licence these weights may be used.",
        "Files": "\n".join(f"- `{name}`: sha256 `{digest}`" for name, digest in about.digests.items()),
    }
    body = "\n\n".join(f"## {title}\n\n{part}" for title, part in parts.items())
    return f"---\n{_yaml(_front_matter(about, node.dataset))}---\n\n# {about.run}\n\n{summary}\n\n{body}\n"


def _use(about: About) -> str:
    text = about.params.texts[about.run_node.texts].method.params
    members = (text, *(part.params for part in text.further()))
    encoders = [member.model for member in members if isinstance(member, EncoderParams)]
    needed = "".join(f" Captions need the sentence encoder `{name}` there." for name in encoders)
    if IMAGE_ENCODERS.traits(about.config["image"]["name"]).reads == "pixels":
        return f"The model reads photos itself.{needed}"
    origins = {"random": "are drawn from a seed", "published": "are fetched from their publisher"}
    origins["file"] = f"lie in {WEIGHTS}/"
    origin = (about.features.get("weights") or {}).get("origin")
    if origin is None:
        return f"No network here makes the features: `model.encode_features(array)` takes them, and `model.encode_images` is refused.{needed}"
    return (
        "Photos go through the network that made the features of the training, described in features/meta.json, whose weights "
        f"{origins[origin]}; `model.encode_features(array)` takes features that are computed already.{needed}"
    )


def _training(about: About, sides: dict[str, str]) -> str:
    config = about.config
    if not SCHEMES.traits(config["scheme"]["name"]).trains:
        return f"nothing was trained, features and texts are as they are: {config['embed_size']} dimensions."
    reason = model_files.unconverged(config)
    return (
        f"trained with loss {sides['loss']}, scheme {sides['scheme']} and sampler {sides['sampler']}. {about.parameters:,} "
        f"parameters{' in each of two networks' if 'peer_sha256' in config else ''}, {config['embed_size']} dimensions; epoch "
        f"{config['best']['epoch']} is the best on the validation split.{f' Not converged: {reason}.' if reason else ''}"
    )


def _pair(features: dict) -> list[str]:
    """A line about the pretrained pair of open_clip behind the features, if there is one. features: their meta.json."""
    if features.get("backbone") != "open_clip":
        return []
    weights, tag = features["weights"], features["pretrained"]
    named = f"`{tag}`, " if tag else ""
    digest = f"sha256 `{weights['sha256']}`" if "sha256" in weights else "random"
    return [
        f"- Pretrained pair `{features['network']}`, weights {named}{digest}; trained on: {pair.trained_on(tag)}; their licence: unknown, their publisher says."
    ]


def _front_matter(about: About, dataset: str) -> dict:
    """Fields for hubs; ``model-index`` has a metric for each criterion, direction and K."""
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


def _figures(about: About) -> str:
    if not about.figures:
        return "The run had not been evaluated when this was written."
    ks = [f"R@{k}" for _ in _DIRECTIONS for k in evaluation.KS]
    lines = [markdown_row(["criterion", "bank", *ks, "rsum"]), f"|---|---|{'---:|' * (len(ks) + 1)}"]
    for name, metrics in about.figures.items():
        ends = metrics.get("intervals", {})
        cells = [
            _with_interval(metrics[direction][f"r@{k}"], ends.get(direction, {}).get(f"r@{k}"))
            for direction in _DIRECTIONS
            for k in evaluation.KS
        ]
        cells.append(_with_interval(metrics["rsum"], ends.get("rsum")))
        bank = f"{metrics['bank']}, transductive" if metrics["transductive"] else metrics["bank"]
        lines.append(markdown_row([name, bank, *cells]))
    first = next(iter(about.figures.values()))
    counts = [f"{first[direction]['queries']:,}" for direction in _DIRECTIONS]
    caption = (
        f"Split {first['split']}, {counts[0]} images and {counts[1]} captions, protocol {first['protocol']}, ties {first['ties']}: "
        "recall in percent, image to text and then text to image; in brackets 95% intervals of a bootstrap over images. The "
        "criteria but `nns` correct hubs by the queries of the bank."
    )
    return "\n".join([caption, "", *lines])


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


def _data(about: About) -> str:
    params, run = about.params, about.run_node
    noise, prepared = params.pairs(run.noise).protocol, paths.prepared(run.dataset)
    tables = (images.read(prepared), captions.read(prepared, columns=["split"]))
    counts = [Counter(table["split"].to_pylist()) for table in tables]
    splits = ", ".join(f"{split} {counts[0][split]:,} / {count:,}" for split, count in counts[1].items())
    rate = getattr(noise.params, "rate", None)
    mismatches = f"protocol `{noise.name}`" + (f", rate {rate:g}" if rate is not None else "")
    return "\n".join(
        [
            f"- Data set `{run.dataset}`, format `{params.datasets[run.dataset].format.name}`; images / captions: {splits}.",
            f"- Mismatches injected into the training pairs: {mismatches}.",
            f"- Features `{params.features[run.features].backbone.name}`, sha256 `{about.config['features_sha256']}`.",
            *_pair(about.features),
            f"- Texts `{params.texts[run.texts].method.name}`, sha256 `{about.config['texts_sha256']}`.",
            "- The licence of pictures and captions is that of the data set.",
        ]
    )


def _yaml(content: dict) -> str:
    stream, writer = io.StringIO(), YAML()
    writer.width = 4096
    writer.dump(content, stream)
    return stream.getvalue()


_ENCODES = {FEATURES: "photos", TEXTS: "captions"}


def pack(params: Params, run: str, out: Path, licence: str | None, open_clip: bool = False) -> dict:
    """Write ``out`` from data/train/<run>/ and from the networks of its features and texts. Returns digests by file.

    licence: of the weights, as hubs name it; None if unknown; open_clip: also writes a checkpoint of open_clip. Raises InputError if the run is not trained, UsageError
    if params.yaml describes another model, IntegrityError if the model was trained on other features, texts or pairs
    than the present ones; PipelineError if ``out`` holds foreign files.
    """
    node, trained = params.runs[run], paths.trained(run)
    model = Trained.open(trained)
    network, files = model.networks[0].model, model.networks[0].files
    if SCHEMES.traits(node.scheme.name).trains:  # otherwise its width is that of its features
        restore.require_same_members(trained, files.config, node, run)
    figures = evaluated_figures(params, run)
    for place in (trained, *((paths.embedded(run), paths.evaluations(run)) if figures else ())):
        identity.require_current(place)
    if not figures:
        warn(f"pack {run}: the run has not been evaluated; its card has no figures")
    sides = {TEXTS: (node.texts, OF_TEXTS), FEATURES: (node.features, OF_FEATURES)}
    with locks.claim(out), whole_folder(out, PATTERNS) as folder:
        for place in ["", model_files.PEER][: len(model.networks)]:
            _copy(trained / place, folder / place, model_files.FILES)
        _copy(trained, folder, (model_files.HISTORY,))
        for name, (source, names) in sides.items():
            _copy(paths.extracted(node.dataset, source), folder / name, names)
        incomplete = any(getattr(side.params, "tune", "") == "lora" for side in (node.image, node.text))
        places = _copy_weights(run, folder, incomplete or not model.tests_on_pixels)
        if open_clip:
            _write_checkpoint(run, folder / OPEN_CLIP, network, files)
        files_written = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        digests = {path.relative_to(folder).as_posix(): sha256(path) for path in files_written}
        parameters = sum(weight.numel() for weight in network.parameters())
        meta = read_json(paths.extracted(node.dataset, node.features) / features.META)
        about = About(params, run, licence, digests, files.config, meta, parameters, figures, places)
        write_text(folder / CARD, card_text(about))
    return digests


def _write_checkpoint(run: str, folder: Path, model: DualEncoder, files: model_files.ModelFiles) -> None:
    """Files of a hub's model of open_clip. Raises UsageError for a run that is no such model."""
    from vse_pipe.train.encoders import open_clip  # its package is an extra

    described = files.config.get("backbone", {})
    loss = {key.removeprefix("loss."): value for key, value in files.weights.items() if key.startswith("loss.")}
    try:
        state = open_clip.merged(model.img, model.txt, loss, described.get("logit", {}))
    except UsageError as error:
        raise UsageError(f"pack {run} --open-clip: {error}") from error
    folder.mkdir()
    write_json(folder / "open_clip_config.json", described["architecture"])
    save_tensors(folder / "open_clip_model.safetensors", {name: value.contiguous() for name, value in state.items()})


def _copy_weights(run: str, folder: Path, of_features: bool) -> dict[str, str]:
    """Copy the user's weights files into the pack and write their places into its meta.json. Returns places by path.

    of_features: does the model need the network of its features? A model that reads pixels contains it.
    """
    places: dict[str, str] = {}
    for name, meta, key in ((FEATURES, features.META, "params"), (TEXTS, texts.META, "options")):
        about = read_json(folder / name / meta)
        for value in weights_in(about.get(key, {})):
            source = Path(value).expanduser()
            is_published = not value.endswith(WEIGHT_FILES)
            if is_published or value in places or (name == FEATURES and not of_features):
                continue
            if not source.is_file():
                warn(f"pack {run}: {source} is not there; without it the pack encodes no new {_ENCODES[name]}")
                continue
            digest = sha256(source)
            nested = [entry for entry in about.values() if isinstance(entry, dict)]
            recorded = {entry["file"]: entry["sha256"] for entry in nested if entry.get("origin") == "file"}
            if source.name in recorded and digest != recorded[source.name]:
                raise IntegrityError(
                    f"{source}: other weights than {name} were made with (sha256 {digest[:12]}, not "
                    f"{recorded[source.name][:12]}); put the right file there, or extract and train again"
                )
            places[value] = f"{WEIGHTS}/{digest[:8]}-{source.name}"
            (folder / WEIGHTS).mkdir(exist_ok=True)
            shutil.copyfile(source, folder / places[value])
        if places:
            write_json(folder / name / meta, {**about, key: with_weights(about.get(key, {}), places)})
    return places


def _copy(source: Path, folder: Path, files: tuple[str, ...]) -> None:
    """Copy those of ``files`` that exist: text features of kind tokens have only a vocabulary."""
    folder.mkdir(exist_ok=True)
    for name in files:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)
