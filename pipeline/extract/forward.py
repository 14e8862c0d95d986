"""One batch through a backbone's module, and from its output to the rows that are stored."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from pipeline.console import warn
from pipeline.errors import PipelineError
from pipeline.extract.params import FeatureParams

_DTYPES = {"float16": torch.float16, "float32": torch.float32}


@dataclass
class Forward:
    """limit: the batch size that the device's memory has turned out to allow; None until it has run out."""

    module: nn.Module
    params: FeatureParams
    device: torch.device
    limit: int | None = None

    def __call__(self, batch: np.ndarray) -> np.ndarray:
        """batch: (B, ...) as read -> features (B, D) or (B, R, D) in the type that params ask for.

        A batch that does not fit is run in halves: other batch sizes may change the last bits of the features.
        Raises PipelineError when a single image does not fit.
        """
        features = self._fitting(torch.from_numpy(batch).to(self.device))
        dtype = _DTYPES[self.params.store] if self.params.store else features.dtype
        if self.params.normalise:
            features = functional.normalize(features.float(), dim=-1)
        return features.to(dtype).cpu().numpy()

    def _fitting(self, batch: Tensor) -> Tensor:
        if self.limit is not None and len(batch) > self.limit:
            return torch.cat([self._fitting(part) for part in batch.split(self.limit)])
        try:
            return self.module(batch)
        except torch.OutOfMemoryError as error:
            if len(batch) == 1:
                raise PipelineError(
                    f"one image does not fit in the memory of {self.device}: {error}"
                ) from error
        # Outside the handler: until it ends, the exception's traceback keeps the tensors of the failed pass alive.
        torch.cuda.empty_cache()
        self.limit = len(batch) // 2
        warn(
            f"{len(batch)} images do not fit in the memory of {self.device}; going on with {self.limit} at a time"
        )
        return self._fitting(batch)
