"""What a file of claims may hold."""

from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import BeforeValidator, Field, ValidationError, model_validator

from vse_pipe.core.errors import MissingResource, ParamsError, unknown
from vse_pipe.core.strict import Strict
from vse_pipe.project.params.document import read_document
from vse_pipe.project.params.reader import described
from vse_pipe.ranking.comparison import ADDRESSES

PACKAGED = {"papers": Path(__file__).parent / "papers.yaml"}
_FIGURES = [".".join(address) for address in ADDRESSES]


def _a_figure(name: str) -> str:
    if name not in _FIGURES:
        raise ValueError(unknown("figure", name, _FIGURES))
    return name


class ClaimSide(Strict):
    """One side of a claim. run: of params.yaml, or a name under the file's ``runs``; criterion: null for the claim's."""

    run: str
    criterion: str | None = None


Named = Annotated[ClaimSide, BeforeValidator(lambda side: {"run": side} if isinstance(side, str) else side)]


class PaperClaim(Strict):
    """One claim: the figure of the left side is greater or less than that of the right, or within ``margin`` of it.

    text, source: the claim, and where it is printed; figure: as metrics.json has it, rsum or image_to_text.r@1; criterion: of
    sides that name none; floor: instead of the file's, null for none.
    """

    text: str
    source: str
    figure: Annotated[str, BeforeValidator(_a_figure)] = "rsum"
    criterion: str = "nns"
    left: Named
    right: Named
    says: Literal["greater", "less", "equal"] = "greater"
    margin: Annotated[float, Field(gt=0)] | None = None
    floor: float | None = None

    @model_validator(mode="after")
    def _a_margin_for_equality(self) -> Self:
        if (self.says == "equal") != (self.margin is not None):
            raise ValueError("`says: equal` needs a margin, and the others take none")
        return self

    @property
    def address(self) -> tuple[str, ...]:
        return tuple(self.figure.split("."))


class ClaimsFile(Strict):
    """The whole file. floor: rsum under nns that a run must reach before anything is said of it; seeds: the fewest trainings
    a side must have, 1 to judge models as they are; runs: names of params.yaml by the names that the claims use."""

    title: str = "Claims"
    floor: float | None = None
    seeds: Annotated[int, Field(ge=1)] = 2
    runs: dict[str, str] = Field(default_factory=dict)
    claims: Annotated[list[PaperClaim], Field(min_length=1)]

    def run(self, side: ClaimSide) -> str:
        """As params.yaml names it."""
        return self.runs.get(side.run, side.run)

    def floor_of(self, claim: PaperClaim) -> float | None:
        return claim.floor if "floor" in claim.model_fields_set else self.floor


def read(path: Path) -> ClaimsFile:
    """Raises MissingResource where no file is, ParamsError with the address of everything that is wrong in it."""
    if not path.is_file():
        raise MissingResource(f"{path}: no such file; packaged claims are {', '.join(PACKAGED)}")
    try:
        return ClaimsFile.model_validate(read_document(path))
    except ValidationError as error:
        raise ParamsError(
            [f"{path.name} {'.'.join(map(str, one['loc']))}: {described(ClaimsFile, one)}" for one in error.errors()]
        ) from error
