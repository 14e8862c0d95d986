"""The base of every parameter model."""

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints

# Size of a layer, word vector or embedding: a million is far more than any model has.
Width = Annotated[int, Field(ge=1, le=2**20)]
Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
WEIGHT_FILES = (".pth", ".pt", ".safetensors")


def _name_or_file(weights: str) -> str:
    # A misspelt name would otherwise be taken for a path and be reported as a missing file.
    is_name = weights in ("imagenet", "random") or re.fullmatch(r"[A-Z][A-Z0-9_]*", weights)
    if not is_name and not weights.endswith(WEIGHT_FILES):
        raise ValueError(f"expected imagenet, random or a path that ends in {', '.join(WEIGHT_FILES)}")
    return weights


WeightsName = Annotated[str, AfterValidator(_name_or_file)]


class Strict(BaseModel):
    """Unknown keys, wrong types, NaN and infinity are errors; values never change after loading.

    The docstring under a field explains its key. Pydantic does not read them, which would take a fifth of the loading
    time."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)
