"""Scenes drawn into a folder."""

from pathlib import Path

from pipeline.prepare.engine.source import Source
from pipeline.prepare.formats.shapes import Params


def read(source: Path, out: Path, params: Params, seed: int) -> Source:
    """Draw the images below ``out / "images"``. ``source`` is not read: it names the drawing code, for DVC to watch."""
    from pipeline.prepare.engine.scenes.dataset import render

    return render(out, params, seed)
