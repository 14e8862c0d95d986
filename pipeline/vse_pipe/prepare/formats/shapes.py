"""The rendered data set: coloured shapes with true captions, made from the seed alone."""

from pathlib import Path

from vse_pipe.prepare.formats.options import ShapesOptions as Params
from vse_pipe.prepare.scenes.drawing import render
from vse_pipe.prepare.source import Source


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """Draw the images below ``out / "images"``. ``source`` names the drawing code, for DVC."""
    return render(out, params, seed)
