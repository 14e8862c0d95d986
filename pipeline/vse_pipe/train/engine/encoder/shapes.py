"""What an encoder refuses before torch would fail with a message about matrices."""

from torch import Tensor

from vse_pipe.core.errors import InputError


def one_vector(encoder: str, feature_shape: tuple[int, ...]) -> int:
    """The width of features (rows, D). Raises InputError for region features (rows, R, D)."""
    if len(feature_shape) != 1:
        advice = "; take image: pooled" if len(feature_shape) == 2 else ""
        raise InputError(
            f"image encoder '{encoder}' needs one vector per image, the features are {feature_shape} each{advice}"
        )
    return feature_shape[0]


def regions_width(encoder: str, feature_shape: tuple[int, ...]) -> int:
    """The width of features (rows, R, D). Raises InputError for one vector per image (rows, D)."""
    if len(feature_shape) != 2:
        raise InputError(
            f"image encoder '{encoder}' needs features (regions, dim) of an image, they are {feature_shape} each; extract "
            "with grid, faster_rcnn or bottom_up, or take image: linear"
        )
    return feature_shape[1]


def check_regions(encoder: str, features: Tensor, width: int) -> None:
    """Raises InputError unless ``features`` are (images, regions, width)."""
    if features.ndim != 3 or features.shape[2] != width:
        raise InputError(
            f"image encoder '{encoder}' was built for (regions, {width}) features of an image, "
            f"got shape {tuple(features.shape)}"
        )


def check_width(encoder: str, vectors: Tensor, width: int) -> None:
    """Raises InputError unless ``vectors`` are (rows, width)."""
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise InputError(f"{encoder} was built for vectors of {width} numbers, got shape {tuple(vectors.shape)}")


def check_lengths(encoder: str, tokens: Tensor, lengths: Tensor) -> None:
    """Raises InputError unless ``tokens`` are (captions, L) with at least one caption, each of 1 to L tokens."""
    if tokens.ndim != 2 or lengths.shape != tokens.shape[:1] or not len(lengths):
        raise InputError(
            f"{encoder} needs tokens (captions, length) and a length each, "
            f"got shapes {tuple(tokens.shape)} and {tuple(lengths.shape)}"
        )
    shortest, longest = int(lengths.min()), int(lengths.max())
    if shortest < 1 or longest > tokens.shape[1]:
        raise InputError(
            f"{encoder} needs captions of 1 to {tokens.shape[1]} tokens, got lengths {shortest} to {longest}"
        )
