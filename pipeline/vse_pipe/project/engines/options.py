"""The options of engines."""

from typing import Annotated

from pydantic import PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import ENGINES

LOCAL = "local"


class EngineParams(Strict):
    """engine: the processes that extract, embed, evaluate and audit compute in."""

    name: Annotated[str, ENGINES.member] = LOCAL
    """``local``: the process of the command; ``ray``: workers of a Ray cluster"""
    workers: PositiveInt = 1
    """number of Ray's processes"""
    address: str = LOCAL
    """of Ray's cluster; ``auto``: of this node; ``local``: one that ends with the command"""
    memory: PositiveInt = 2048
    """MiB of a Ray worker's part, beside the model and vectors that workers share"""
