"""pack: write a run's model, with its card, as a folder for a model hub and for other projects."""

import math
import shutil
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from jinja2 import Environment, StrictUndefined
from torch import Tensor, nn

from vse_pipe.artifacts import captions, evaluation, features, identity, images, model_files, texts
from vse_pipe.core import locks
from vse_pipe.core.console import warn
from vse_pipe.core.errors import IntegrityError, UsageError
from vse_pipe.core.files import read_json, require_free, save_tensors, sha256, whole_folder, write_json, write_text
from vse_pipe.core.strict import WEIGHT_FILES
from vse_pipe.extract.texts.options import EncoderParams
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS, RUN_FAMILIES, SCHEMES
from vse_pipe.train.encoders.open_clip import LOGIT, ImageSide, TextSide, TunedSide
from vse_pipe.train.model import DualEncoder
from vse_pipe.train.trained import FEATURES, TEXTS, Trained, mapped

CARD, WEIGHTS = "README.md", model_files.WEIGHTS
# Files of text features that a sentence needs. Token ids need only the vocabulary, which the model
# has.
_OF_TEXTS = (texts.META, texts.VOCABULARY, texts.STATE)
_OF_FEATURES = (features.META,)
# A checkpoint that open_clip opens as ``local-dir:``.
OPEN_CLIP = "open_clip"
_ENCODES = {FEATURES: "photos", TEXTS: "captions"}
_TEMPLATE = Path(__file__).with_name("card.md.jinja")
LOADER = """\
import vse_pipe as vp

model = vp.load(".")  # this folder
captions = model.encode_captions(["two dogs run along a beach", "a red car in the snow"])
images = model.encode_images(["a.jpg", "b.jpg"])
print(model.similarity(images, captions))  # a row for each image, a column for each caption
"""


def pack(params: Params, run: str, out: Path, licence: str | None, open_clip: bool = False) -> dict:
    """Write ``out`` from data/train/<run>/ and its features and texts. Returns digests by file.

    licence: of the weights, as hubs name it; None if unknown; open_clip: also writes a checkpoint
    of open_clip. Raises InputError if the run is not trained, IntegrityError if the model was trained on other features, texts or pairs than
    the present ones. Raises as ``require_free``."""
    require_free(out, "a packed model", f"{TEXTS}/{texts.META}")
    node, trained = params.runs[run], paths.trained(run)
    model = Trained.open(trained)
    network, files = model.networks[0].model, model.networks[0].files
    folders = {name: paths.evaluated(run, name) for name in params.ranked_under(run)}
    figures = {
        name: evaluation.read_metrics(folder)
        for name, folder in folders.items()
        if (folder / evaluation.METRICS).is_file()
    }
    for place in (trained, *((paths.embedded(run), paths.evaluations(run)) if figures else ())):
        identity.require_current(place)
    if not figures:
        warn(f"pack {run}: the run has not been evaluated; its card has no figures")
    sides = {TEXTS: (node.texts, _OF_TEXTS), FEATURES: (node.features, _OF_FEATURES)}
    with locks.claim(out), whole_folder(out) as folder:
        for place in ["", model_files.PEER][: len(model.networks)]:
            _copy(trained / place, folder / place, model_files.FILES)
        _copy(trained, folder, (model_files.HISTORY,))
        for name, (source, names) in sides.items():
            _copy(paths.extracted(node.dataset, source), folder / name, names)
        _copy_weights(run, folder, not model.tests_on_pixels)
        if open_clip:
            _write_checkpoint(folder / OPEN_CLIP, network, files)
        files_written = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        digests = {path.relative_to(folder).as_posix(): sha256(path) for path in files_written}
        parameters = sum(weight.numel() for weight in network.parameters())
        meta = read_json(paths.extracted(node.dataset, node.features) / features.META)
        content = {"licence": licence, "features": meta, "parameters": parameters, "figures": figures}
        text = _card(params, run, files.config, digests=digests, **content)
        write_text(folder / CARD, text)
    return digests


def _write_checkpoint(folder: Path, model: DualEncoder, files: model_files.ModelFiles) -> None:
    """Files of a hub's model of open_clip. Raises UsageError for a run that is no such model."""
    described = files.config.get("backbone", {})
    loss = {key.removeprefix("loss."): value for key, value in files.weights.items() if key.startswith("loss.")}
    state = _merged(model.img, model.txt, loss, described.get("logit", {}))
    folder.mkdir()
    write_json(folder / "open_clip_config.json", described["architecture"])
    save_tensors(folder / "open_clip_model.safetensors", {name: value.contiguous() for name, value in state.items()})


def _merged(image: nn.Module, text: nn.Module, loss: dict[str, Tensor], logit: dict) -> dict[str, Tensor]:
    """A checkpoint of open_clip: the weights of both sides, with low-rank additions added, and
    scale and bias of the logits.

    loss: what a loss learned, by name; logit: of the checkpoint that training began from. Raises
    UsageError for other encoders.
    """
    if not isinstance(image, ImageSide) or not isinstance(text, TextSide):
        raise UsageError("only a run whose image and text encoders are both 'open_clip' is a model of open_clip")
    scale = loss["log_scale"] if "log_scale" in loss else torch.tensor(math.log(logit["scale"]))
    if "log_tau" in loss:
        scale = -loss["log_tau"].clamp_min(math.log(0.01))
    state = {name: tensor for name, tensor in (*_plain(image), *_plain(text)) if name not in LOGIT}
    bias = {} if logit["bias"] is None else {"logit_bias": loss.get("bias", torch.tensor(logit["bias"]))}
    return {**state, "logit_scale": scale, **bias}


def _plain(side: TunedSide) -> Iterator[tuple[str, Tensor]]:
    """The tensors of one side under open_clip's names."""
    model = getattr(side.network, "net", side.network).model
    for name, tensor in model.state_dict().items():
        layer, _, parameter = name.partition(".parametrizations.")
        if parameter:
            parameter = parameter.partition(".")[0]
            name, tensor = f"{layer}.{parameter}", getattr(model.get_submodule(layer), parameter)
        yield name, tensor.detach().clone()


def _copy_weights(run: str, folder: Path, of_features: bool) -> None:
    """Copy the user's weights files into the pack and write their places into its meta.json.

    of_features: does the model need the network of its features?"""
    places: dict[str, str] = {}

    def packed(value: str) -> str:
        source = Path(value).expanduser()
        is_published = not value.endswith(WEIGHT_FILES)
        if is_published or value in places or (name == FEATURES and not of_features):
            return places.get(value, value)
        if not source.is_file():
            warn(f"pack {run}: {source} is not there; without it the pack encodes no new {_ENCODES[name]}")
            return value
        digest = sha256(source)
        recorded = [
            entry["sha256"] for entry in about.values() if isinstance(entry, dict) and entry.get("file") == source.name
        ]
        if recorded and digest != recorded[0]:
            raise IntegrityError(f"{source}: other weights than {name} were made with; put the right file there")
        places[value] = f"{WEIGHTS}/{digest[:8]}-{source.name}"
        (folder / WEIGHTS).mkdir(exist_ok=True)
        shutil.copyfile(source, folder / places[value])
        return places[value]

    for name, meta, key in ((FEATURES, features.META, "params"), (TEXTS, texts.META, "options")):
        about = read_json(folder / name / meta)
        options = mapped(about.get(key, {}), packed)
        if places:
            write_json(folder / name / meta, {**about, key: options})


def _copy(source: Path, folder: Path, files: tuple[str, ...]) -> None:
    """Copy those of ``files`` that exist: text features of kind tokens have only a vocabulary."""
    folder.mkdir(exist_ok=True)
    for name in files:
        if (source / name).is_file():
            shutil.copyfile(source / name, folder / name)


def _card(params: Params, run: str, config: dict, **content: Any) -> str:
    """The figures of the run, how to use it, and what it was made from, as Markdown with front
    matter.

    config: of the model; content: ``licence`` as hubs name it, None if unknown; ``digests`` of
    the packed files; ``features``, their meta.json; ``parameters``, their number in a network; ``figures``, metrics.json by criterion."""
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
