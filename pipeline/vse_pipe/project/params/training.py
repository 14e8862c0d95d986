"""The section train of params.yaml."""

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from vse_pipe.core.strict import Strict, Width

# Options that change no weight of a model.
NO_WEIGHT = {"processes", "stop_when_dead", "keep_state"}


class TrainParams(Strict):
    """train: how every run is optimised; ``runs.<name>.train`` overrides single values."""

    epochs: PositiveInt = 30
    """passes over all training pairs"""
    batch_size: Annotated[int, Field(ge=2)] = 128
    """pairs of a batch"""
    optimiser: Literal["adam", "sgd"] = "adam"
    """Adam with default betas, or gradient descent with momentum"""
    lr: PositiveFloat = 2e-4
    """highest learning rate"""
    schedule: Literal["steps", "cosine"] = "steps"
    """``steps``: a tenth every ``lr_update`` epochs; ``cosine``: half a cosine over all epochs, with every step"""
    lr_update: PositiveInt = 15
    """for ``steps``: epochs between two falls"""
    final: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """for ``cosine``: share of the rate at the end"""
    warm_up: NonNegativeFloat = 0.0
    """epochs (also fractions) in which the rate rises from 0 to ``lr``"""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """of sgd"""
    weight_decay: NonNegativeFloat = 0.0
    """L2 penalty"""
    average: Annotated[float, Field(gt=0, lt=1)] | None = None
    """decay of a moving average of the weights, such as 0.999; it is validated and exported in place of the weights;
    null: none"""
    patience: PositiveInt | None = None
    """epochs without a rise of validation rsum after which training ends; null: it always runs ``epochs``"""
    grad_clip: PositiveFloat = 2.0
    """largest norm of all gradients together"""
    embed_size: Width = 1024
    """dimensions of the joint space"""
    val_images: PositiveInt = 1000
    """validation images that choose the best epoch, the first ones"""
    mask_same_image: bool = False
    """captions of one image are no negatives of each other"""
    same_text: bool = False
    """captions that read alike are one text that matches all their images; phrases of regions always are"""
    precision: Literal["float32", "bfloat16"] = "float32"
    """bfloat16 computes the products of a step in bfloat16 (autocast); weights stay float32"""
    chunk: NonNegativeInt = 0
    """pairs encoded at once: less memory by gradient caching, for a second forward pass; 0: the whole batch"""
    processes: PositiveInt = 1
    """processes of this machine that train one run together, each on its own GPU where possible; the result is that of
    one process up to rounding"""
    stop_when_dead: bool = True
    """ends a run with status 1 when validation is at chance and no gradient is left"""
    keep_state: bool = False
    """keeps last/state.safetensors of a finished run (last weights and moments, four fifths of its size); no command
    reads it"""
