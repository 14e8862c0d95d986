"""SUM: every violation counts (VSE0 of the VSE++ paper; Kiros et al. 2014)."""

from typing import Self

from pydantic import NonNegativeFloat, PositiveInt, model_validator

from vse_pipe.train.engine.loss.curriculum import Curriculum


class Params(Curriculum):
    margin: NonNegativeFloat = 0.2
    """distance, in units of the similarity, by which a positive must beat each negative"""
    hardest: PositiveInt | None = None
    """negatives of a row and of a column that count, the hardest; null: all"""

    @model_validator(mode="after")
    def _comes_to_fewer(self) -> Self:
        if self.curriculum and self.hardest is None:
            raise ValueError("curriculum needs hardest, the negatives that count at its end")
        return self
