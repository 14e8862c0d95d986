"""Engine ``local``: the process of the command."""

import contextlib
from contextlib import AbstractContextManager

from vse_pipe.project.engines.options import EngineParams


def opened(params: EngineParams, device: str) -> AbstractContextManager[None]:
    """No pool: ``workers.run_parts`` does the work here."""
    return contextlib.nullcontext()
