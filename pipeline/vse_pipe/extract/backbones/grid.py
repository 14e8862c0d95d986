"""Any classifier's last feature map as regions on a grid: ``backbone: grid`` with ``model: mobilenet_v2``. No detector."""

from vse_pipe.extract.backbones.options import RANDOM
from vse_pipe.extract.backbones.options import GridOptions as Params
from vse_pipe.extract.engine.backbone import Backbone
from vse_pipe.extract.engine.networks import grid


def build(params: Params, seed: int) -> Backbone:
    """(rows * columns, D) an image, row by row from the top left, with the boxes of the cells and no scores.

    A box is the part of the picture that lies under the cell, in pixels of the upright image: after a centre crop the
    boxes together are that crop, and what lies outside is in none. The network sees more than the box of each cell (its
    receptive field). Where the map is no multiple of the grid, neighbouring cells share a line of the map, and their
    boxes overlap as much.

    Raises UnknownMember for another name, UsageError for a network without a map (torchvision's ViT; timm's gives its
    patches) or with a smaller one; else as ``assemble``.
    """
    return grid.assemble(params, seed, params.model == RANDOM)
