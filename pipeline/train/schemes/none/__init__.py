"""No training: the model is the run's encoders as they are, for the two sides of a pretrained pair (zero-shot)."""

from pipeline.core.strict import Strict
from pipeline.project.traits import SchemeTraits


class Params(Strict):
    """No parameters; the run's ``loss``, ``sampler``, ``noise`` and ``train`` have no effect."""


TRAITS = SchemeTraits(trains=False)
