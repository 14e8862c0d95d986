"""Run a trained dual encoder over many images or captions, in batches, without gradients."""

from collections.abc import Callable, Iterable

import numpy as np
import torch
from torch import Tensor

from pipeline.artifacts.texts import Texts
from pipeline.train.data import image_inputs, text_inputs, text_lengths
from pipeline.train.model import DualEncoder, on_device
from pipeline.train.pictures import Pictures


def images(
    model: DualEncoder,
    source: np.ndarray | Pictures,
    rows: np.ndarray,
    device: torch.device,
    batch: int = 1024,
) -> np.ndarray:
    """(len(rows), dim) float32 vectors of the feature rows given, from the features or from the images behind them."""
    size = batch if isinstance(source, np.ndarray) else min(batch, source.batch_size)
    parts = _parts(np.arange(len(rows)), size)
    work = [rows[part] for part in parts]
    if isinstance(source, np.ndarray):
        inputs: Iterable[Tensor] = (image_inputs(source, chosen) for chosen in work)
    else:
        inputs = source.tested(work)
    return _in_batches(model, lambda chosen: model.img(chosen.to(device)), parts, inputs)


def captions(
    model: DualEncoder, texts: Texts, places: np.ndarray, device: torch.device, batch: int = 256
) -> np.ndarray:
    """(len(places), dim) float32 vectors of the captions given; batches hold captions of like length."""
    parts = _parts(np.argsort(text_lengths(texts, places), kind="stable"), batch)
    inputs = (text_inputs(texts, places[part]) for part in parts)
    return _in_batches(model, lambda chosen: model.txt(*on_device(chosen, device)), parts, inputs)


def _parts(order: np.ndarray, size: int) -> list[np.ndarray]:
    return [order[start : start + size] for start in range(0, len(order), size)]


@torch.inference_mode()
def _in_batches(
    model: DualEncoder, encode: Callable[..., Tensor], parts: list[np.ndarray], inputs: Iterable
) -> np.ndarray:
    """parts: places of the vectors that each of ``inputs`` gives."""
    was_training = model.training
    model.eval()
    vectors: np.ndarray | None = None
    for part, chosen in zip(parts, inputs, strict=True):
        encoded = encode(chosen).float().cpu().numpy()
        if vectors is None:
            vectors = np.empty((sum(map(len, parts)), encoded.shape[1]), dtype=np.float32)
        vectors[part] = encoded
    model.train(was_training)
    return np.empty((0, 0), dtype=np.float32) if vectors is None else vectors
