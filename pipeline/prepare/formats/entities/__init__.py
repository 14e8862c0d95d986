"""Flickr30k Entities: ``Sentences/<id>.txt``, ``Annotations/<id>.xml``, the ids in ``train.txt``, ``val.txt`` and ``test.txt``.

Plummer et al., "Flickr30k Entities: Collecting Region-to-Phrase Correspondences for Richer Image-to-Sentence Models", ICCV
2015. A phrase with several boxes gets the one that encloses them, as the authors' pl-clc has it (``Entity.getGTBox``), and
coordinates count from 0: 1 less than in the files, as in their Python interface.
"""

from pipeline.core.strict import Strict


class Params(Strict):
    images: str = "flickr30k-images"
    """the folder of the pictures ``<id>.jpg``, relative to ``source``"""
