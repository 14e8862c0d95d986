"""No training: the model is the run's encoders as they are, for the two sides of a pretrained pair (zero-shot)."""

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits


class Params(Strict):
    """No parameters; the run's ``loss``, ``sampler``, ``noise`` and ``train`` have no effect."""


TRAITS = SchemeTraits(trains=False)
