"""Run a trained dual encoder over many images or captions, in batches, without gradients."""

from collections.abc import Callable

import numpy as np
import torch

from pipeline.train.model import DualEncoder
from pipeline.train.vocabulary import Captions


def images(
    model: DualEncoder, array: np.ndarray, rows: np.ndarray, device: torch.device, batch: int = 1024
) -> np.ndarray:
    """(len(rows), dim) float32 vectors of the feature rows given."""

    def encode(chosen: np.ndarray) -> torch.Tensor:
        features = torch.from_numpy(np.asarray(array[rows[chosen]], dtype=np.float32))
        return model.img(features.to(device))

    return _in_batches(model, encode, np.arange(len(rows)), batch)


def captions(
    model: DualEncoder, table: Captions, chosen: np.ndarray, device: torch.device, batch: int = 256
) -> np.ndarray:
    """(len(chosen), dim) float32 vectors of the captions given; batches hold captions of like length."""

    def encode(part: np.ndarray) -> torch.Tensor:
        tokens, lengths = table.padded(chosen[part])
        return model.txt(torch.from_numpy(tokens).to(device), torch.from_numpy(lengths))

    by_length = np.argsort(table.lengths[chosen], kind="stable")
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
