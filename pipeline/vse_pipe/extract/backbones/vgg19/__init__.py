"""VGG-19 (Simonyan and Zisserman, ICLR 2015): the 4096 features of fc7 that UVS and order embeddings train on."""

from vse_pipe.extract.engine.params import ImageParams
from vse_pipe.project.traits import BackboneTraits


class Params(ImageParams):
    """Shorter side 256, centre crop 224; ``crops: ten`` is what Kiros et al. and Vendrov et al. report."""


TRAITS = BackboneTraits(trainable=True)
