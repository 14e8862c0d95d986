"""Canonical correlation analysis: two linear maps in closed form, a baseline without any step of training (Klein et al.)."""

from pydantic import NonNegativeFloat

from vse_pipe.core.strict import Strict
from vse_pipe.project.traits import SchemeTraits


class Params(Strict):
    eta: NonNegativeFloat = 1e-4
    """added to either covariance's diagonal, in units of its largest eigenvalue (the authors: 1e-4 for phrases, 5e-5
    for COCO's captions)"""


TRAITS = SchemeTraits(similarities=("cosine",))
