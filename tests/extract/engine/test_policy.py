"""How many images may be left out."""

import pytest

from vse_pipe.extract.recognise import limit
from vse_pipe.project.params.typed import FeatureSet


@pytest.mark.parametrize(
    ("on_error", "max_errors", "images", "expected"),
    [
        ("fail", 5, 100, 0),
        ("skip", 5, 100, 5),
        ("skip", 0, 100, 0),
        ("skip", 0.01, 123_287, 1233),
        ("skip", 0.01, 1, 1),
    ],
)
def test_limit(on_error: str, max_errors: float, images: int, expected: int) -> None:
    assert limit(FeatureSet("d", None, on_error, max_errors), images) == expected
