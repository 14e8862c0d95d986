"""VSE++ and SCAN's precomputed features: ``<split>_ims.npy``, ``<split>_caps.txt`` and, where it exists, ``<split>_ids.txt``.

The layout of Kiros et al. as VSE++, SCAN, SGRAF, NCR and L2RM read it. Differs from the authors' loaders: see
``_groups.group``; and the development split is read whole (they cut it after 5000 captions).
"""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, PositiveInt

from vse_pipe.core.strict import Strict
from vse_pipe.project.sources import SourceFiles

ORDER = ("train", "dev", "test")


class Params(Strict):
    splits: Annotated[list[Literal["train", "dev", "test"]], Field(min_length=1, default_factory=lambda: list(ORDER))]
    """which to read"""
    test: Literal["test", "testall"] = "test"
    """which files are the test split"""
    captions_per_image: PositiveInt | dict[Literal["train", "dev", "test"], PositiveInt] | None = None
    """null to infer it from the files, which must then agree on one number; a number a split, such as ``{train: 5, test: 1}``, where
    they do not; of a split that is not named it is inferred"""

    @property
    def prefixes(self) -> list[str]:
        """Of the files of each split that is read, in their order."""
        return [self.test if name == "test" else name for name in ORDER if name in self.splits]

    def reads(self, source: Path) -> list[SourceFiles]:
        endings = ("ims.npy", "caps.txt", "ids.txt")
        return [SourceFiles(source, patterns=tuple(f"{prefix}_{end}" for prefix in self.prefixes for end in endings))]
