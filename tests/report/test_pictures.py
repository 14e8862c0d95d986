import io

import pytest
from PIL import Image

from vse_pipe.report.pictures import data_uri, fit, thumbnail


def encoded(size, mode="RGB", kind="PNG", **options):
    out = io.BytesIO()
    Image.new(mode, size, 1).save(out, kind, **options)
    return out.getvalue()


def opened(webp):
    return Image.open(io.BytesIO(webp))


@pytest.mark.parametrize(
    ("size", "side", "expected"), [((400, 200), 100, (100, 50)), ((200, 400), 64, (32, 64)), ((30, 20), 100, (30, 20))]
)
def test_keeps_proportions_and_never_enlarges(size, side, expected):
    small = opened(thumbnail(encoded(size), side))
    assert (small.size, small.format) == (expected, "WEBP")


@pytest.mark.parametrize(
    ("mode", "kind"), [("CMYK", "JPEG"), ("P", "PNG"), ("L", "PNG"), ("RGBA", "PNG"), ("I;16", "PNG")]
)
def test_every_colour_mode(mode, kind):
    assert opened(thumbnail(encoded((40, 40), mode, kind), 32)).mode == "RGB"


def test_upright():
    exif = Image.Exif()
    exif[0x0112] = 6
    assert opened(thumbnail(encoded((80, 40), kind="JPEG", exif=exif), 40)).size == (20, 40)


@pytest.mark.parametrize("content", [b"", b"<html>not found</html>", encoded((50, 50))[:60]])
def test_no_picture(content):
    assert thumbnail(content, 32) is None


def test_data_uri():
    assert data_uri(b"\0\1") == "data:image/webp;base64,AAE="


@pytest.mark.parametrize(("budget", "expected"), [(10**6, 200), (4 * 200 * 3, None)])
def test_side_shrinks_until_all_fit(budget, expected):
    asked = []

    def make(side):
        asked.append(side)
        return {"a": bytes(9 * side), "b": bytes(9 * side)}

    made, side = fit(make, 200, budget)
    assert asked == sorted(asked, reverse=True)
    assert len(made["a"]) == 9 * side
    assert set(made) == {"a", "b"}
    if expected:
        assert side == expected
    else:
        assert 64 <= side < 200
        assert sum(len(one) for one in made.values()) * 4 / 3 <= budget


@pytest.mark.parametrize(("budget", "kept"), [(2 * 4 * 64, ["a", "b"]), (4 * 64, ["a"]), (4 * 64 - 1, []), (0, [])])
def test_below_64_pixels_the_last_are_left_out(budget, kept):
    made, side = fit(lambda side: {name: bytes(3 * side) for name in "abc"}, 200, budget)
    assert (list(made), side) == (kept, 64)


def test_no_program_is_started_for_a_picture(monkeypatch):
    """Pillow draws EPS with Ghostscript; what a data set holds must not decide that."""
    started = []
    monkeypatch.setattr("subprocess.check_call", lambda *given, **_: started.append(given))
    eps = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 10 10\n%%EndComments\nshowpage\n%%EOF\n"
    assert Image.open(io.BytesIO(eps)).format == "EPS"  # it would
    assert thumbnail(eps, 32) is None
    assert not started


def test_whatever_a_decoder_raises_is_no_picture(monkeypatch):
    def broken(image):
        raise IndexError("index out of range")

    monkeypatch.setattr("PIL.PngImagePlugin.PngImageFile.load", broken)
    assert thumbnail(encoded((40, 40)), 32) is None
