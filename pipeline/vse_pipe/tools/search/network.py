"""One trained network and what it made of a data set."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np

from vse_pipe.artifacts import embeddings, joins, model_files
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES, TEXT_ENCODERS
from vse_pipe.tools.search import light
from vse_pipe.tools.search.gallery import Gallery, Ids
from vse_pipe.tools.search.sentences import Read, Reader

if TYPE_CHECKING:  # torch, Pillow and the backbones, which a sentence and vectors do not need
    import torch
    from torch import Tensor

    from vse_pipe.pictures.images import Item
    from vse_pipe.ranking.engine.fragments import Sides
    from vse_pipe.ranking.engine.scores import Similarity
    from vse_pipe.ranking.engine.words import Words
    from vse_pipe.tools.search.photos import Eye

# What a search reads of config.json.
_NEEDED = ("dataset", "features", "texts", "texts_sha256", "text", "text_inputs", "embed_size", "similarity")


@dataclass(frozen=True)
class Asked:
    """A query in the space of the network: one row, of numpy where the network is light. unknown, notes: as in ``Read``."""

    side: "Sides | np.ndarray"
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Network:
    """gallery: its embeddings; trained: data/train/<run>/ or the peer in it. Thread-safe: what is loaded is loaded once.

    device: that it computes on, or its name, as ``vse_pipe.core.device.resolve`` takes it, which is then looked up when it is
    needed. light: is everything that can be computed in numpy, on the CPU? That is so where scores are inner products.
    """

    def __init__(
        self, params: Params, gallery: Gallery, trained: Path, device: "torch.device | str", light: bool = False
    ) -> None:
        self.gallery, self.light = gallery, light and gallery.inner
        self._params, self._trained, self._device = params, trained, device
        self._lock = RLock()
        self._sides: dict[str, Sides] = {}
        self._vectors: dict[str, np.ndarray] = {}
        self._others = {gallery.split: self}
        self._eye: Eye | None = None
        self._check_digest()

    @cached_property
    def device(self) -> "torch.device":
        from vse_pipe.core.device import resolve

        return resolve(self._device) if isinstance(self._device, str) else self._device

    @property
    def ids(self) -> Ids:
        return self.gallery.ids

    def of(self, split: str) -> "Network":
        """The same network with the embeddings of another split."""
        with self._lock:
            if split not in self._others:
                gallery = self.gallery.of(split)
                other = Network(self._params, gallery, self._trained, self._device, self.light)
                self._others[split] = other
            return self._others[split]

    @property
    def galleries(self) -> list[Gallery]:
        return [self.gallery]

    def images(self) -> "Sides":
        return self._held(embeddings.IMAGES, self.gallery.images)

    def captions(self) -> "Sides":
        return self._held(embeddings.CAPTIONS, self.gallery.captions)

    def vectors(self, name: str) -> np.ndarray:
        """Of the file ``name``, where the network is light."""
        with self._lock:
            if name not in self._vectors:
                self._vectors[name] = self.gallery.vectors(name)
            return self._vectors[name]

    def image(self, image_id: int) -> Asked:
        """An image of the data set, of whatever split. Raises InputError where the run has embedded none of that id."""
        where = self.of(self.gallery.split_of(image_id))
        place = int((where.ids.image_ids == image_id).argmax())
        every = where.vectors(embeddings.IMAGES) if self.light else where.images()
        return Asked(every[place : place + 1])

    def _held(self, name: str, read: "Callable[[], Tensor | Words]") -> "Sides":
        with self._lock:
            if name not in self._sides:
                if self.light:
                    import torch

                    self._sides[name] = torch.from_numpy(self.vectors(name)).to(self.device)
                else:
                    self._sides[name] = read().to(self.device)
            return self._sides[name]

    def similarity(self) -> "Similarity":
        return self.gallery.similarity(self.device)

    def sentence(self, text: str) -> Asked:
        """Raises as ``Reader.read``; InputError also where the encoder gives no finite vector."""
        with self._lock:
            read = self._reader.read(text)
            encode = self._light_encoder or self._torch_encode
        return Asked(_finite(encode(read)), read.unknown, read.notes)

    def photo(self, content: bytes, name: str) -> Asked:
        """Raises as ``Eye.see``."""
        side = _finite(self._opened_eye().see(content, name))
        return Asked(side.cpu().numpy() if self.light else side)

    def boxes(self, folder: Path, items: "list[Item]") -> "Sides":
        """A row for each of the pictures, or boxes in them, below ``folder``. Raises as ``images.load``."""
        return _finite(self._opened_eye().of(folder, items))

    def _opened_eye(self) -> "Eye":
        from vse_pipe.tools.search.photos import Eye

        with self._lock:
            if self._eye is None:
                self._eye = Eye.open(self._params, self._run, self._trained, self._files.config, self.device)
            return self._eye

    @property
    def _run(self) -> str:
        """Whose model it is."""
        return self._params.trained(self.gallery.run)

    @cached_property
    def _files(self) -> model_files.ModelFiles:
        path = self._trained / model_files.MODEL
        if not path.is_file():
            raise MissingResource(f"{path} does not exist; make it with `vse-pipe train --run {self._run}`")
        self._check_digest()  # it may have been trained anew since
        files = model_files.read(self._trained, self._run, "numpy" if self.light else "torch")
        absent = [key for key in _NEEDED if key not in files.config]
        if absent:
            raise IntegrityError(
                f"{self._trained / model_files.CONFIG}: has no '{absent[0]}': an earlier version of the pipeline trained this "
                f"run; run `vse-pipe train --run {self._run}` again, then embed"
            )
        return files

    @cached_property
    def _reader(self) -> Reader:
        return Reader.open(self._run, self._files)

    @cached_property
    def _own_weights(self) -> dict[str, Any]:
        """Those of the text side."""
        return {
            name.removeprefix("txt."): value for name, value in self._files.weights.items() if name.startswith("txt.")
        }

    @cached_property
    def _light_encoder(self) -> Callable[[Read], np.ndarray] | None:
        """None where torch is asked."""
        if not self.light:
            return None
        described = self._files.config["text"]
        options = TEXT_ENCODERS.options(described["name"]).model_validate(described["params"])
        encode = light.encoder(described["name"], options, self._own_weights)
        if encode is None:
            return None

        def of(read: Read) -> np.ndarray:
            try:
                return encode(*read.inputs).astype(np.float32, copy=False)
            except (KeyError, IndexError, ValueError) as error:
                raise self._unfit(error) from error

        return of

    def _torch_encode(self, read: Read) -> "Tensor | Words | np.ndarray":
        import torch

        from vse_pipe.ranking.engine.words import Words

        first, *rest = map(torch.from_numpy, read.inputs)
        inputs = first.to(self.device), *rest
        with torch.inference_mode():
            if _compares_fragments(self._files.config):
                return Words.of(self._text_encoder.words(*inputs), inputs[1]).float()
            found = self._text_encoder(*inputs).float()
        return found.cpu().numpy() if self.light else found

    @cached_property
    def _text_encoder(self) -> Any:
        """The text side alone, a member's module: the image side may be a network that takes seconds to build."""
        import torch

        from vse_pipe.train.engine.model import restore

        config = self._files.config
        member = restore(TEXT_ENCODERS, config["text"])
        module = TEXT_ENCODERS.load(member.name)
        side = module.build(member.params, config["text_inputs"], config["embed_size"], torch.Generator())
        own = {name: torch.as_tensor(value) for name, value in self._own_weights.items()}
        try:
            side.load_state_dict(own)
        except RuntimeError as error:
            raise self._unfit(error) from error
        return side.eval().to(self.device)

    def _unfit(self, error: Exception) -> IntegrityError:
        config = self._trained / model_files.CONFIG
        return IntegrityError(f"{config}: does not fit {model_files.MODEL}; train the run again ({error})")

    def _check_digest(self) -> None:
        """Raises IntegrityError where the embeddings come from other weights than the run now has."""
        told = self.gallery.about.get("model_sha256", "")
        joins.require_model(self.gallery.folder, told, self._trained, self._run, self.gallery.mend)


def _compares_fragments(config: dict) -> bool:
    return SIMILARITIES.traits(config["similarity"]["name"]).fragments


def _finite(side: Any) -> Any:
    """``side``, vectors of numpy or torch, or words. Raises InputError unless all of it is finite."""
    vectors = getattr(side, "vectors", side)
    if not (np.isfinite(vectors).all() if isinstance(vectors, np.ndarray) else vectors.isfinite().all()):
        raise InputError("the model gives no finite vector for this query")
    return side
