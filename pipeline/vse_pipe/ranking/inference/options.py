"""Options of the inference criteria, within ranges in which float32 scores keep their order."""

from itertools import product
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.registry import CriterionTraits

# At smaller inverse temperatures the sum over a bank, a constant, absorbs the digits of the scores;
# at larger ones the scores leave the range of float32.
InverseTemperature = Annotated[float, Field(ge=0.01, le=1e4)]
Temperature = Annotated[float, Field(ge=1e-4, le=100)]
Share = Annotated[float, Field(ge=0, le=100)]


Mode = Literal["rows", "literal", "captions"]


class MatchingParams(Strict):
    """Options of matchings of queries and items."""

    mode: Mode = "rows"
    """``rows``: every query gets its k items; ``literal``: Algorithm 1 as printed; ``captions``:
    text to image matches the first captions of all images, then the second and so on
    ([criteria.md](criteria.md#matchings-of-captions))"""

    def lambdas(self) -> list[float]:
        """The relaxation factors to choose from."""
        return [1.0]


class RescoringParams(Strict):
    """Options of a rescoring. The values to try for a parameter ``k`` stand in ``k_grid``."""

    def grids(self) -> dict[str, list]:
        """The values to try, by parameter."""
        fields = {name.removesuffix("_grid"): name for name in type(self).model_fields if name.endswith("_grid")}
        return {name: getattr(self, grid) for name, grid in fields.items()}

    def candidates(self) -> list[Self]:
        """These options with every combination of the values to try."""
        grids = self.grids()
        return [self.model_copy(update=dict(zip(grids, values, strict=True))) for values in product(*grids.values())]

    def varied(self) -> list[str]:
        """The parameters for which there is another value to try."""
        return [name for name, values in self.grids().items() if set(values) != {getattr(self, name)}]

    def pinned(self) -> Self:
        """The options whose given parameters have no other value to try, unless in a grid."""
        named = self.model_fields_set
        grids = {f"{name}_grid": [getattr(self, name)] for name in self.grids() if name in named}
        return self.model_copy(update={grid: values for grid, values in grids.items() if grid not in named})


Relaxation = Annotated[float, Field(ge=1.0, allow_inf_nan=False)]


class CslsOptions(RescoringParams):
    k: PositiveInt = 10
    """neighbours averaged on both sides; 10 in MUSE"""
    two_sided: bool = True
    """subtracts the query's mean too"""
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 2, 5, 10, 20, 50])
    """values tried under evaluate.tune"""

    traits: ClassVar = CriterionTraits(item_bias=True)


class DualIsOptions(RescoringParams):
    beta: InverseTemperature = 50.0
    """inverse temperature of the query bank"""
    gallery_beta: InverseTemperature = 1.0
    """inverse temperature of the item bank. 50 and 1 are the DBSN repository's values; the authors'
    1/1.99 and 3 hardly change cosine scores"""
    beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0]
    )
    """values tried under evaluate.tune"""
    gallery_beta_grid: list[InverseTemperature] = Field(min_length=1, default_factory=lambda: [0.5, 1.0, 3.0, 10.0])
    """values tried under evaluate.tune"""

    traits: ClassVar = CriterionTraits(item_bias=True)


class GmOptions(MatchingParams):
    """Lambda is 1."""

    traits: ClassVar = CriterionTraits(matches=True)


class HungarianOptions(MatchingParams):
    most_pairs: PositiveInt = 25_000_000
    """most queries times items; more are refused, such as COCO's 5,000 x 25,000"""

    traits: ClassVar = CriterionTraits(matches=True)


class IsOptions(RescoringParams):
    beta: InverseTemperature = 30.0
    """inverse temperature"""
    include_query: bool = False
    """sums over all queries as MUSE does, not over the others (Eq. 5); no ranking or matching
    changes, but where scores are large float32 ties at 1"""
    beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0]
    )
    """values tried under evaluate.tune"""

    traits: ClassVar = CriterionTraits(item_bias=True)


class MutualProximityOptions(RescoringParams):
    """No parameters: similarities are taken for normal."""


class NnnOptions(RescoringParams):
    k: PositiveInt = 128
    """bank queries averaged"""
    alpha: Share = 0.75
    """share of their mean that is subtracted. Authors: 128, 0.75 (README), 256, 0.5 (code)"""
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [8, 16, 32, 64, 128, 256])
    """values tried under evaluate.tune"""
    alpha_grid: list[Share] = Field(min_length=1, default_factory=lambda: [0.25, 0.5, 0.75, 1.0])
    """values tried under evaluate.tune"""

    traits: ClassVar = CriterionTraits(item_bias=True)


class NnsOptions(RescoringParams):
    """No parameters."""

    traits: ClassVar = CriterionTraits(item_bias=True)


class QbNormOptions(RescoringParams):
    beta: InverseTemperature = 20.0
    """inverse temperature; 20 in the authors' code"""
    k: PositiveInt = 1
    """an item among the best k of any bank query is a hub; 1 in the authors' code"""
    k_grid: list[PositiveInt] = Field(min_length=1, default_factory=lambda: [1, 5, 10])
    """values tried under evaluate.tune"""
    beta_grid: list[InverseTemperature] = Field(
        min_length=1, default_factory=lambda: [1.0, 5.0, 10.0, 20.0, 30.0, 50.0, 100.0]
    )
    """values tried under evaluate.tune"""

    # Corrected and raw rows have different scales, so a matching cannot compare them.
    traits: ClassVar = CriterionTraits(comparable_rows=False)


class RgmOptions(MatchingParams):
    lam: Relaxation | None = None
    """relaxation factor lambda; null: the value of ``grid`` with the best R@K on val"""
    grid: list[Relaxation] = Field(min_length=1, default_factory=lambda: [1 + step / 4 for step in range(37)])
    """values to choose from; the default is the range of the paper's Fig. 4"""

    traits: ClassVar = CriterionTraits(matches=True)

    def lambdas(self) -> list[float]:
        return sorted(set(self.grid)) if self.lam is None else [self.lam]


class SinkhornOptions(RescoringParams):
    tau: Temperature = 0.05
    """temperature of the transport"""
    tolerance: PositiveFloat = 1e-3
    """residual at which it stops: the largest relative error of a bank query's marginal"""
    max_iterations: PositiveInt = 500
    """most iterations"""
    tau_grid: list[Temperature] = Field(min_length=1, default_factory=lambda: [0.01, 0.02, 0.03, 0.05, 0.1])
    """values tried under evaluate.tune"""

    traits: ClassVar = CriterionTraits(item_bias=True)
