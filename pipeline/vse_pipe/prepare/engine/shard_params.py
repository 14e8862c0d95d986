"""The options that formats of shards share: which files are which split."""

import re
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, model_validator

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles

# Of numbers with leading zeros: {0000..0041}
RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")


def _a_pattern_or_a_share(value: object) -> object:
    if isinstance(value, str) or (isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1):
        return value
    raise ValueError("expected a pattern of file names, or a share from 0 to below 1")


Part = Annotated[object, AfterValidator(_a_pattern_or_a_share)]


class ShardParams(Strict):
    """Patterns of file names below ``source``."""

    train: str
    """pattern of the split"""
    val: Part
    """pattern of the split, or its share of the train images; 0: none"""
    test: Part
    """pattern of the split, or its share of the train images; 0: none"""

    @model_validator(mode="after")
    def _leave_some_to_train(self) -> "ShardParams":
        if sum(one for one in (self.val, self.test) if isinstance(one, int | float)) >= 1:
            raise ValueError(f"val and test must leave a share to train, got {self.val} + {self.test}")
        return self

    def reads(self, source: Path) -> list[SourceFiles]:
        """The shards of all splits; of a range of numbers all that it could name."""
        if RANGE.search(source.name):
            return [SourceFiles(source.parent, patterns=(RANGE.sub("*", source.name),))]
        patterns = (one for one in (self.train, self.val, self.test) if isinstance(one, str))
        return [SourceFiles(source, patterns=tuple(RANGE.sub("*", one) for one in patterns))]
