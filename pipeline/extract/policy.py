"""What an extraction does about images that cannot be read: stop at the first, or leave out a limited number of them."""

import math
from collections.abc import Sequence

from pipeline.errors import InputError
from pipeline.extract.backbones._backbone import Failure
from pipeline.params.typed import FeatureSet

_SHOWN = 20


def limit(node: FeatureSet, images: int) -> int:
    """How many of ``images`` may be left out; of a share at least one."""
    if node.on_error == "fail":
        return 0
    return node.max_errors if isinstance(node.max_errors, int) else math.ceil(node.max_errors * images)


def check(node: FeatureSet, failures: Sequence[tuple[str, Failure]], images: int, name: str) -> None:
    """failures: file and failure of each image so far, in order; images: of the whole data set; name: of the features.

    Raises InputError under ``fail`` naming the first, under ``skip`` when there are more than ``max_errors`` of them or
    nothing is left, with the list of them.
    """
    if not failures:
        return
    if node.on_error == "fail":
        file, failure = failures[0]
        raise InputError(
            f"extract {name}: {file} (image_id {failure.image_id}) {failure.detail}; to leave such images out, set "
            f"on_error: skip in features.{name}"
        )
    most = limit(node, images)
    if len(failures) <= most and len(failures) < images:
        return
    shown = [f"{file} (image_id {failure.image_id}) {failure.detail}" for file, failure in failures[:_SHOWN]]
    more = f"; and {len(failures) - _SHOWN} more" if len(failures) > _SHOWN else ""
    allowed = f"max_errors {node.max_errors} allows {most}" if len(failures) > most else "none is left"
    raise InputError(
        f"extract {name}: {len(failures)} of {images} images cannot be read, {allowed}: {'; '.join(shown)}{more}"
    )
