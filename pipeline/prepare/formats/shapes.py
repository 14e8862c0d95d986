"""The rendered data set: scenes of coloured shapes with true captions, made from the seed and nothing else."""

from pathlib import Path

from pipeline.prepare.engine.scenes.params import ShapesParams
from pipeline.prepare.engine.source import Source


class Params(ShapesParams):
    """The options of the renderer."""


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """Draw the images below ``out / "images"``. ``source`` is not read: it names the drawing code, for DVC to watch."""
    from pipeline.prepare.engine.scenes.dataset import render

    images, captions = render(out, params, seed)
    return Source(images, captions, str(out / "images"))
