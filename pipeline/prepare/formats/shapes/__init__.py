"""The rendered data set: scenes of coloured shapes with true captions, made from the seed and nothing else."""

from pipeline.prepare.engine.scenes.params import ShapesParams


class Params(ShapesParams):
    """The options of the renderer."""
