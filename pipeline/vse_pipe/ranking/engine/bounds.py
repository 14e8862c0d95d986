"""Ranges of parameters within which float32 scores keep their order."""

from typing import Annotated

from pydantic import Field

# At a smaller inverse temperature the sum over a bank, a constant, takes the digits of the scores; at a larger one the
# scores leave the range of float32.
InverseTemperature = Annotated[float, Field(ge=0.01, le=1e4)]
Temperature = Annotated[float, Field(ge=1e-4, le=100)]
Share = Annotated[float, Field(ge=0, le=100)]
