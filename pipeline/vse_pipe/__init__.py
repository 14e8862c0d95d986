"""vse-pipe: image-text retrieval as a pipeline of cached stages, as a command, and in one's own
Python.

>>> import numpy as np
>>> import vse_pipe as vp
>>> vectors = np.eye(4, dtype=np.float32)
>>> vp.rank(vectors, vectors).metrics()["rsum"]
600.0
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vse_pipe.api import criteria, losses, noise
    from vse_pipe.api.hubs import correct, hubness
    from vse_pipe.api.models import Model, load
    from vse_pipe.api.ranking import Ranking, compare, rank, rank_scores
    from vse_pipe.core.errors import InputError, PipelineError, UsageError

__version__ = "0.1.0"
__all__ = [
    "InputError",
    "Model",
    "PipelineError",
    "Ranking",
    "UsageError",
    "compare",
    "correct",
    "criteria",
    "hubness",
    "load",
    "losses",
    "noise",
    "rank",
    "rank_scores",
]

_HOMES = {
    **dict.fromkeys(("correct", "hubness"), "api.hubs"),
    **dict.fromkeys(("Ranking", "compare", "rank", "rank_scores"), "api.ranking"),
    **dict.fromkeys(("Model", "load"), "api.models"),
    **dict.fromkeys(("InputError", "PipelineError", "UsageError"), "core.errors"),
}
_MODULES = ("criteria", "losses", "noise")

if (
    sys.platform == "darwin"
):  # before torch starts: what an Apple GPU lacks runs on the CPU, and torch warns once an operator
    os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")


def __getattr__(name: str) -> Any:
    """The public names, imported at their first use: torch takes seconds."""
    if name in _MODULES:
        return importlib.import_module(f"vse_pipe.api.{name}")
    if name in _HOMES:
        return getattr(importlib.import_module(f"vse_pipe.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'vse_pipe' has no attribute '{name}'; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
