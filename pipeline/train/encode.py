"""Run a trained dual encoder over many images or captions, in batches, without gradients."""

from collections.abc import Callable

import numpy as np
import torch

from pipeline.artifacts.texts import Texts
from pipeline.train.data import image_inputs, text_inputs, text_lengths
from pipeline.train.model import DualEncoder, on_device


def images(
    model: DualEncoder, array: np.ndarray, rows: np.ndarray, device: torch.device, batch: int = 1024
) -> np.ndarray:
    """(len(rows), dim) float32 vectors of the feature rows given."""

    def encode(chosen: np.ndarray) -> torch.Tensor:
        return model.img(image_inputs(array, rows[chosen]).to(device))

    return _in_batches(model, encode, np.arange(len(rows)), batch)


def captions(
    model: DualEncoder, texts: Texts, places: np.ndarray, device: torch.device, batch: int = 256
) -> np.ndarray:
    """(len(places), dim) float32 vectors of the captions given; batches hold captions of like length."""

    def encode(part: np.ndarray) -> torch.Tensor:
        return model.txt(*on_device(text_inputs(texts, places[part]), device))

    by_length = np.argsort(text_lengths(texts, places), kind="stable")
    return _in_batches(model, encode, by_length, batch)


@torch.inference_mode()
def _in_batches(
    model: DualEncoder, encode: Callable[[np.ndarray], torch.Tensor], order: np.ndarray, batch: int
) -> np.ndarray:
    was_training = model.training
    model.eval()
    vectors: np.ndarray | None = None
    for start in range(0, len(order), batch):
        part = order[start : start + batch]
        encoded = encode(part).float().cpu().numpy()
        if vectors is None:
            vectors = np.empty((len(order), encoded.shape[1]), dtype=np.float32)
        vectors[part] = encoded
    model.train(was_training)
    return np.empty((0, 0), dtype=np.float32) if vectors is None else vectors
