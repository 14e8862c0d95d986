"""vse-pipe: image-text retrieval as a pipeline of cached stages."""

import os
import sys

__version__ = "0.1.0"

if (
    sys.platform == "darwin"
):  # before torch starts: what an Apple GPU lacks runs on the CPU, and torch warns once an operator
    os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
