"""The rendered data set: scenes of coloured shapes with true captions, made from the seed and nothing else."""

from pathlib import Path

from vse_pipe.prepare.engine.scenes.params import ShapesParams
from vse_pipe.project.sources import SourceFiles


class Params(ShapesParams):
    """The options of the renderer."""

    def reads(self, source: Path) -> list[SourceFiles]:
        """None: the pictures are drawn."""
        return []
