"""Images of every kind: decoded to their pixels, or refused with a reason."""

import numpy as np
import pytest
from PIL import Image, ImageFile

from tests.pictures.corpus import BAD, GOOD, Bad, Good
from vse_pipe.core.errors import UnreadableImage
from vse_pipe.pictures.images import decode


@pytest.mark.parametrize("case", GOOD, ids=[case.name for case in GOOD])
def test_pixels(case: Good) -> None:
    image = decode(case.content, case.name)
    assert image.mode == "RGB"
    found = np.asarray(image).astype(int)
    assert found.shape == case.expected.shape
    assert np.abs(found - case.expected).max() <= case.tolerance


@pytest.mark.parametrize("case", BAD, ids=[case.name for case in BAD])
def test_reason(case: Bad) -> None:
    with pytest.raises(UnreadableImage) as caught:
        decode(case.content, case.name)
    assert case.reason in caught.value.reason
    assert str(caught.value) == f"{case.name} {caught.value.reason}"
    assert "\n" not in str(caught.value)


def test_a_bomb_is_refused_before_a_pixel_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    for kind in (Image.Image, ImageFile.ImageFile):
        monkeypatch.setattr(kind, "load", lambda image: loaded.append(image.size))
    bombs = [case for case in BAD if "pixels" in case.reason]
    for case in bombs:
        with pytest.raises(UnreadableImage):
            decode(case.content, case.name)
    assert (len(bombs), loaded) == (4, [])
