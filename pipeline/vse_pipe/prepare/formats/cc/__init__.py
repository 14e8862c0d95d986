"""CC152K's layout: ``<split>_caps.tsv`` with ``<image id><tab><caption>`` lines, and ``<split>_ims.npy``.

Conceptual Captions as NCR (NeurIPS 2021) cut and published it, and BiCro, DECL, RCL and L2RM use it: 150,000 / 1,000 /
1,000 pairs from the web, one caption an image, some of which describe their image badly or not at all. Nobody has
marked which, so its pairs are read with the noise protocol ``as_is``.
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles
from vse_pipe.project.traits import FormatTraits

ORDER = ("train", "dev", "test")


class Params(Strict):
    splits: Annotated[list[Literal["train", "dev", "test"]], Field(min_length=1, default_factory=lambda: list(ORDER))]
    """which to read"""

    def reads(self, source: Path) -> list[SourceFiles]:
        patterns = [f"{prefix}_{end}" for prefix in self.splits for end in ("caps.tsv", "ims.npy")]
        return [SourceFiles(source, patterns=tuple(patterns))]


# A noise protocol that claims to know which train pairs match is refused for such data.
TRAITS = FormatTraits(knows_truth=False)
