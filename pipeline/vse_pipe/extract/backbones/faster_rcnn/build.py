"""A detector that finds the regions and a trunk that describes them."""

from vse_pipe.extract.backbones.faster_rcnn import Params, regions
from vse_pipe.extract.engine.backbone import Backbone


def build(params: Params, seed: int) -> Backbone:
    """(regions, 2048) for resnet101, boxes in pixels of the upright image and the detector's scores, best first.

    Boxes: of each of the detector's proposals that of its best class, then non-maximum suppression over all classes, with
    the first of the thresholds 0.3, 0.4, ... 0.9 that leaves enough; the best ``regions`` by score are taken. Where 0.9
    leaves too few the best of the suppressed ones fill up, and where there are too few proposals (pictures of a few
    pixels), the whole picture and the cells of a grid over it, with score 0. Features: RoIAlign, 14 x 14 on the map of
    stride 16 (layer3), through layer4, and the mean.

    Differs from Anderson et al. (CVPR 2018): a detector of COCO's 80 classes with a feature pyramid instead of Visual
    Genome's 1600 classes and attributes, regressed boxes instead of the proposals, a trunk that was trained on ImageNet
    and never on boxes, RoIAlign instead of RoI pooling. The suppression that is relaxed is py-bottom-up-attention's.

    Raises UnknownMember and UsageError for names that are none of these; else what weights and states raise.
    """
    return regions.assemble(params, seed)
