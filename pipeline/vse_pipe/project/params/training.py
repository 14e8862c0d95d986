"""The section train of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Strict, Width

# Options that change no weight of a model.
NO_WEIGHT = {"processes", "stop_when_dead", "keep_state"}


class TrainParams(Strict):
    """train: how every run is optimised; ``runs.<name>.train`` overrides single values."""

    epochs: PositiveInt = 30
    """over all training pairs"""
    batch_size: Annotated[int, Field(ge=2)] = 128
    """pairs of a batch"""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Adam at its default betas, or plain descent with momentum"""
    lr: PositiveFloat = 2e-4
    """the highest rate"""
    schedule: Literal["steps", "cosine"] = "steps"
    """``steps``: it falls to a tenth every ``lr_update`` epochs; ``cosine``: with every step, along half a cosine over all epochs"""
    lr_update: PositiveInt = 15
    """of ``steps``: epochs after which it falls to a tenth, again and again"""
    final: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """of ``cosine``: the share of the rate that it falls to"""
    warm_up: NonNegativeFloat = 0.0
    """epochs, or fractions of one, in which the rate rises from 0 to ``lr``, a little with every step"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """of sgd, which the structure-preserving paper trains with"""
    weight_decay: NonNegativeFloat = 0.0
    """the L2 penalty"""
    average: Annotated[float, Field(gt=0, lt=1)] | None = None
    """the decay of a moving average of the weights, such as 0.999, which is validated and exported in their place; null: none"""
    patience: PositiveInt | None = None
    """epochs without a rise of validation rsum after which training ends; null: never before ``epochs``"""
    grad_clip: PositiveFloat = 2.0
    """the largest norm of all gradients together"""
    embed_size: Width = 1024
    """dimensions of the joint space"""
    val_images: PositiveInt = 1000
    """the first so many validation images choose the best epoch"""
    mask_same_image: bool = False
    """captions of the same image are no negatives of each other"""
    same_text: bool = False
    """captions that read alike are one text, which matches all their images; of regions phrases always do"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 runs the products of the step in bfloat16 (autocast), weights stay float32"""
    chunk: NonNegativeInt = 0
    """pairs encoded at once; fewer than batch_size save memory by gradient caching, at the price of a second
    forward pass; 0: the whole batch"""
    processes: PositiveInt = 1
    """that train as one on this machine, each on its share of every batch and on a GPU of its own where there are some; the
    result is that of one process up to rounding"""
    stop_when_dead: bool = True
    """end a run with status 1 after an epoch that leaves validation at chance and no gradient to learn from"""
    keep_state: bool = False
    """keep last/state.safetensors of a finished run: its last weights and the optimiser's moments, four fifths of its size on disk. No
    command reads them"""
