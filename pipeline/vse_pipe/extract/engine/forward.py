"""One batch through a backbone's module, and from its output to the rows that are stored."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vse_pipe.core.console import warn
from vse_pipe.core.errors import PipelineError, out_of_memory
from vse_pipe.extract.engine.backbone import Output
from vse_pipe.extract.engine.params import FeatureParams, ImageParams

_DTYPES = {"float16": torch.float16, "float32": torch.float32}


@dataclass
class Forward:
    """module: compiled at its first batch where params ask for it; limit: the batch size that the device's memory has
    turned out to allow, None until it has run out; even: how many images every pass has, 0 for as many as are given. Smaller
    batches are filled up: with another number of images the last bits of each may change, with others beside it never.
    """

    module: Callable
    params: FeatureParams
    device: torch.device
    limit: int | None = None
    even: int = 0
    _not_compiled: tuple[type[Exception], ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.params, ImageParams) and self.params.compile:
            self.module = torch.compile(self.module)
            # torch.compile has imported it, which takes a second that others need not wait.
            self._not_compiled = (torch._dynamo.exc.BackendCompilerFailed,)

    def __call__(self, batch: np.ndarray | tuple[np.ndarray, ...]) -> Output:
        """batch: (B, ...) as read -> features (B, D) or (B, R, D) in the type that params ask for, each vector
        normalised by itself; boxes and scores in float32 where the module gives them.

        A batch that does not fit is run in halves: other batch sizes may change the last bits of the features.
        Raises PipelineError when a single image does not fit, or the network cannot be compiled.
        """
        arrays = batch if isinstance(batch, tuple) else (batch,)
        count, more = len(arrays[0]), self.even - len(arrays[0])
        if more > 0:
            arrays = tuple(np.concatenate([array, np.repeat(array[-1:], more, axis=0)]) for array in arrays)
        found = self._fitting(tuple(map(torch.from_numpy, arrays)))
        return Output(*(None if values is None else values[:count] for values in found)) if more > 0 else found

    def _whole(self, batch: tuple[Tensor, ...]) -> Output:
        found = self.module(*(array.to(self.device) for array in batch))
        found = found if isinstance(found, Output) else Output(found)
        features = found.features
        dtype = _DTYPES[self.params.store] if self.params.store else features.dtype
        if self.params.normalise:
            features = functional.normalize(features.float(), dim=-1)
        beside = (None if value is None else value.float().cpu().numpy() for value in found[1:])
        return Output(features.to(dtype).cpu().numpy(), *beside)

    def _fitting(self, batch: tuple[Tensor, ...]) -> Output:
        count = len(batch[0])
        if self.limit is not None and count > self.limit:
            parts = zip(*(array.split(self.limit) for array in batch), strict=True)
            return joined([self._fitting(part) for part in parts])
        try:
            return self._whole(batch)
        except self._not_compiled as error:
            raise PipelineError(
                f"torch.compile cannot translate this network here; set compile: false ({_first_line(error)})"
            ) from error
        except (MemoryError, RuntimeError) as error:
            if not out_of_memory(error):
                raise
            if count == 1:
                raise PipelineError(f"one image does not fit in the memory of {self.device}: {error}") from error
        # Outside the handler: until it ends, the exception's traceback keeps the tensors of the failed pass alive.
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        self.limit = count // 2
        warn(f"{count} images do not fit in the memory of {self.device}; going on with {self.limit} at a time")
        return self._fitting(batch)


def _first_line(error: Exception) -> str:
    return next(filter(None, map(str.strip, str(error).splitlines())), type(error).__name__)


def joined(outputs: list[Output]) -> Output:
    """One output for all images of ``outputs``."""
    columns = zip(*outputs, strict=True)
    return Output(*(None if values[0] is None else np.concatenate(values) for values in columns))
