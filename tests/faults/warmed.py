"""What takes seconds to import, for ``tests.faults.warm``; no thread is started."""

import torch

from vse_pipe.audit import stage as audit  # noqa: F401
from vse_pipe.embed import stage as embed  # noqa: F401
from vse_pipe.evaluate import stage as evaluate  # noqa: F401
from vse_pipe.extract import (
    networks,  # noqa: F401
    text_stage,  # noqa: F401
)
from vse_pipe.extract import stage as extract  # noqa: F401
from vse_pipe.inject import stage as inject  # noqa: F401
from vse_pipe.prepare import stage as prepare  # noqa: F401
from vse_pipe.project.registry import TEXT_ENCODERS
from vse_pipe.report import stage as report  # noqa: F401
from vse_pipe.tools import check  # noqa: F401
from vse_pipe.train import stage as train  # noqa: F401

torch.set_num_threads(1)
# Without a gradient, which starts threads beside a GPU.
with torch.no_grad():
    _gru = TEXT_ENCODERS.load("gru").build_text(TEXT_ENCODERS.options("gru")(), 2, 2, torch.Generator())
    _gru(torch.ones(1, 2, dtype=torch.int64), torch.tensor([2]))
