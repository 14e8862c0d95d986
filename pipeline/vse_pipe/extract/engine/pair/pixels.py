"""How open_clip prepares a picture for a model."""

from vse_pipe.core.errors import UsageError
from vse_pipe.pictures.transforms import Transform

_MODES = {"shortest": "shorter", "squash": "exact"}


def transform(preprocessing: dict, name: str) -> Transform:
    """open_clip's evaluation transform as ours. preprocessing: as its ``PreprocessCfg``."""
    size, mode = preprocessing["size"], preprocessing["resize_mode"]
    sides = {size} if isinstance(size, int) else set(size)
    if len(sides) != 1 or mode not in _MODES:
        raise UsageError(
            f"open_clip {name} sees pictures of size {size}, resized by '{mode}'; known: squares by {', '.join(_MODES)}"
        )
    side = sides.pop()
    return Transform(
        image_size=side,
        resize=side,
        resize_mode=_MODES[mode],
        interpolation="bilinear" if preprocessing["interpolation"] == "bilinear" else "bicubic",
        crops="center",
        mean=tuple(preprocessing["mean"]),
        std=tuple(preprocessing["std"]),
    )
