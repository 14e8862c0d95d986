"""A photo with boxes and, below it, the phrases they are for in the same colours (Figure 3 of Wang et al., CVPR 2016)."""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from vse_pipe.core.console import plain
from vse_pipe.core.files import whole_file
from vse_pipe.tools.localize.find import FoundBox
from vse_pipe.tools.localize.question import SOFTWARE

# Okabe and Ito's colours, told apart by colour-blind people; without black and yellow, which photos and paper swallow.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_TEXT, _LINE, _MARGIN = 16, 24, 8
# Characters of a phrase that are written.
_WIDEST = 100


def drawn(photo: Image.Image, found: list[FoundBox]) -> Image.Image:
    """Each box a frame of three pixels, a white one inside it, so that it is seen on any ground; a line of text a phrase, which is
    cut after 100 characters."""
    font = ImageFont.load_default(_TEXT)
    lines = [f"{number}  {_written(one.phrase)}" for number, one in enumerate(found, start=1)]
    width = max(photo.width, *(int(font.getlength(line)) + 3 * _MARGIN + _LINE for line in lines))
    page = Image.new("RGB", (width, photo.height + _LINE * len(found) + 2 * _MARGIN), "white")
    page.paste(photo, (0, 0))
    pen = ImageDraw.Draw(page)
    for place, (one, line) in enumerate(zip(found, lines, strict=True)):
        colour = COLOURS[place % len(COLOURS)]
        x1, y1 = one.box.left, one.box.top
        x2, y2 = x1 + one.box.width - 1, y1 + one.box.height - 1
        pen.rectangle((x1, y1, x2, y2), outline="white", width=4)
        pen.rectangle((x1, y1, x2, y2), outline=colour, width=3)
        pen.text((x1 + 6, y1 + 3), str(place + 1), fill=colour, font=font, stroke_width=2, stroke_fill="white")
        top = photo.height + _MARGIN + place * _LINE
        pen.rectangle((_MARGIN, top + 4, _MARGIN + 16, top + 20), fill=colour)
        pen.text((2 * _MARGIN + 16, top + 3), line, fill="black", font=font)
    return page


def write(path: Path, photo: Image.Image, found: list[FoundBox]) -> None:
    """As PNG that says what drew it, whole or not at all."""
    about = PngInfo()
    about.add_text("Software", SOFTWARE)
    with whole_file(path) as temporary, temporary.open("wb") as file:
        drawn(photo, found).save(file, "PNG", pnginfo=about)


def _written(phrase: str) -> str:
    return plain(phrase if len(phrase) <= _WIDEST else f"{phrase[:_WIDEST]}...")
