"""Encode sentences and photos as the captions and images of a run's data set."""

import hashlib
import json
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vse_pipe.artifacts import features
from vse_pipe.core import devices
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, UsageError
from vse_pipe.core.files import read_json
from vse_pipe.embed.earlier import Fitted, identity
from vse_pipe.extract.compute import Forward
from vse_pipe.extract.job import Backbone
from vse_pipe.pictures import images
from vse_pipe.pictures.images import Item
from vse_pipe.project import paths
from vse_pipe.project.params.typed import FeatureSet, Params
from vse_pipe.project.registry import BACKBONES
from vse_pipe.tools.search.answer import shortened
from vse_pipe.train.encoders.image import finetune as networks
from vse_pipe.train.model import DualEncoder

# Backbones that read features computed elsewhere; there is no network for a photo.
NO_NETWORK = ("precomp", "bottom_up")
# Boxes in a batch.
_BATCH = 16
# Maximum characters of a sentence, and unknown words in a message.
_LONGEST, _LISTED = 100_000, 10


@dataclass(frozen=True)
class TextInputs:
    """arrays: inputs of the text encoder for one caption; unknown: words that the vocabulary lacks; notes: about omitted words."""

    arrays: tuple[np.ndarray, ...]
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def text_inputs(texts: Fitted, sentence: str) -> TextInputs:
    """Inputs for the sentence. Raises InputError for an empty or too long sentence, and one without a known word.

    texts: the text features of the run.
    """
    if not sentence.strip():
        raise InputError("the sentence is empty; write what to look for")
    if len(sentence) > _LONGEST:
        raise InputError(f"a sentence of {len(sentence)} characters; the longest that is read has {_LONGEST}")
    method, options, gives = texts.method, texts.options, texts.traits.gives
    unknown: tuple[str, ...] = ()
    if texts.traits.terms:
        words = Counter(method.terms(sentence, options))
        unknown = tuple(texts.unknown(words))
        if not words.keys() & set(texts.state.words):
            listed = f": {', '.join(map(shortened, unknown[:_LISTED]))}" if unknown else ""
            raise InputError(f"no word of the sentence is in the vocabulary of texts '{texts.name}'{listed}")
    transformed = method.transform([sentence], texts.state, options)
    if gives == "vectors":
        return TextInputs((np.asarray(transformed, np.float32),), unknown)
    if gives == "fragments":
        rows, lengths = transformed
        return TextInputs((rows[None], lengths), unknown)
    tokens, cut = transformed
    notes = (f"only the first {options.max_words} words are read",) if cut else ()
    return TextInputs(tokens.padded(np.zeros(1, np.int64)), unknown, notes)


@dataclass(frozen=True)
class PhotoEncoder:
    """model: the trained network; config: of its run; backbone, forward: network of its features, None if the image encoder reads
    pixels itself; computing: precision of that network."""

    model: DualEncoder
    config: dict
    device: torch.device
    backbone: Backbone | None
    forward: Forward | None
    computing: str

    @classmethod
    def open(cls, params: Params, run: str, model: DualEncoder, config: dict, device: torch.device) -> "PhotoEncoder":
        """model: on ``device``. Raises UsageError if the features were computed elsewhere, MissingResource for missing weights,
        IntegrityError if weights or transform differ from those of the run's features."""
        name = config["features"]
        source = params.features.get(name)
        if source is None:
            raise UsageError(f"run '{run}' was trained on features.{name}, which params.yaml does not name any more")
        if source.backbone.name in NO_NETWORK:
            raise UsageError(
                f"features.{name} of run '{run}' are '{source.backbone.name}': computed elsewhere, with no network here to "
                "show a photo to; `search --image-id` takes an image of the data set"
            )
        if model.tests_on_pixels:
            return cls(model, config, device, None, None, "float32")
        meta = _meta(source, name, run, config)
        backbone = BACKBONES.load(source.backbone.name).build(source.backbone.params, params.seed)
        must_be_the_same(backbone, meta, name)
        forward = Forward(backbone.module.to(device), source.backbone.params, device)
        return cls(model, config, device, backbone, forward, meta.get("precision", "float32"))

    def photo(self, content: bytes, name: str) -> Tensor:
        """(1, dim) or (1, R, dim). name: for messages. Raises InputError if ``content`` is no readable picture."""
        images.decode(content, name)
        with tempfile.TemporaryDirectory(prefix="vse-pipe-") as folder:
            (Path(folder) / "photo").write_bytes(content)
            return self.boxes(Path(folder), [Item(0, "photo", hashlib.sha256(content).hexdigest(), name)])

    def boxes(self, folder: Path, items: list[Item]) -> Tensor:
        """A row for each picture, or box of a picture, below ``folder``."""
        starts = range(0, len(items), _BATCH)
        return torch.cat([self._embedded(folder, items[start : start + _BATCH]) for start in starts])

    def _embedded(self, folder: Path, items: list[Item]) -> Tensor:
        if self.backbone is None or self.forward is None:
            transform = networks.transform(self.config["backbone"])
            inputs = torch.from_numpy(np.stack([images.pixels(folder, item, transform) for item in items]))
        else:
            rows = [self.backbone.read(folder, item) for item in items]
            has_columns = isinstance(rows[0], tuple)
            arrays = tuple(np.stack(column) for column in zip(*rows, strict=True)) if has_columns else np.stack(rows)
            with devices.inference(self.device, self.computing):
                features = self.forward(arrays).features
            inputs = torch.from_numpy(np.asarray(features, np.float32))
        with torch.inference_mode():
            return self.model.img(inputs.to(self.device)).float()


def _meta(source: FeatureSet, name: str, run: str, config: dict) -> dict:
    path = paths.extracted(source.dataset, name) / features.META
    if not path.is_file():
        raise MissingResource(
            f"{path} does not exist: it says which weights saw the images; make it with `vse-pipe extract --features {name}`"
        )
    meta = read_json(path)
    if meta.get("sha256") != config.get("features_sha256"):
        raise IntegrityError(
            f"run {run} was trained on other features than data/extract now holds; run `vse-pipe train --run {run}` again"
        )
    return meta


def must_be_the_same(backbone: Backbone, meta: dict, name: str) -> None:
    """Raises IntegrityError if weights, transform or another property of the backbone differs from ``meta``. Versions of libraries
    do not count."""
    about = json.loads(json.dumps(backbone.about))
    changed = [key for key, value in about.items() if identity(value) != identity(meta.get(key))]
    if changed:
        raise IntegrityError(
            f"features.{name} was made with other {' and '.join(changed)} than there are now; run `vse-pipe extract --features {name}` again"
        )
