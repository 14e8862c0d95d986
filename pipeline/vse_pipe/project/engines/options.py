"""The options of engines."""

from typing import Annotated

from pydantic import PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import ENGINES

LOCAL = "local"


class EngineParams(Strict):
    """engine: which processes extract, embed, evaluate and audit compute in. No result depends on it."""

    name: Annotated[str, ENGINES.member] = LOCAL
    """``local``: the process of the command; ``ray``: workers of a Ray cluster"""
    workers: PositiveInt = 1
    """number of Ray's processes"""
    address: str = LOCAL
    """of Ray's cluster; ``auto``: the one of this node; ``local``: one on this machine that ends with the command"""
    memory: PositiveInt = 2048
    """MiB of a Ray worker's part of the work, beside the model and the vectors that the workers of a node share"""
