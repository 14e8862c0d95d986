"""localize --image: the best box of each phrase in a photo (Wang et al., CVPR 2016, Fig. 3)."""

import contextlib
import hashlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from PIL.PngImagePlugin import PngInfo

from vse_pipe.core.console import document, plain, say, warn
from vse_pipe.core.console import line as console_line
from vse_pipe.core.errors import UnreadableImage, UsageError
from vse_pipe.core.files import require_free, whole_file
from vse_pipe.localize import stage
from vse_pipe.pictures import images
from vse_pipe.pictures.address import Box
from vse_pipe.pictures.images import Item
from vse_pipe.prepare.regions import Picture, settled
from vse_pipe.prepare.source import is_text
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import PROPOSALS
from vse_pipe.search.network import Wording, wording_of
from vse_pipe.train.trained import Trained

_FILE = "photo"


@dataclass(frozen=True)
class Photo:
    """folder: holds the photo until ``unpacked`` ends; picture: upright, in RGB."""

    folder: Path
    digest: str
    name: str
    picture: Image.Image

    def item(self, box: Box | None = None) -> Item:
        """A box of the photo, or a box of all of it: all share the decoded picture."""
        return Item(0, (box or Box(0, 0, *self.picture.size)).address(_FILE), self.digest, self.name)


@contextlib.contextmanager
def unpacked(content: bytes, name: str) -> Iterator[Photo]:
    """The photo in a temporary folder. name: for messages. Raises UnreadableImage if ``content`` is
    no readable picture."""
    with tempfile.TemporaryDirectory(prefix="vse-pipe-") as path:
        folder, digest = Path(path), hashlib.sha256(content).hexdigest()
        (folder / _FILE).write_bytes(content)
        try:
            picture = images.load(folder, Item(0, _FILE, digest, name))
        except UnreadableImage as error:
            raise UnreadableImage(name, error.reason) from error
        yield Photo(folder, digest, name, picture)


@dataclass(frozen=True)
class FoundBox:
    """The best of ``candidates`` boxes. score: larger is closer; wording: of the phrase."""

    phrase: str
    box: Box
    score: float
    candidates: int
    wording: Wording


def find(params: Params, run: str, photo: Photo, phrases: Sequence[str], device: str) -> list[FoundBox]:
    """The best box of each phrase. run: a run that ``check`` accepts. Raises InputError for a
    phrase without a known word, and if no box is proposed."""
    trained = Trained.open(paths.trained(run), device)
    wordings = [wording_of(trained.texts, phrase) for phrase in phrases]
    boxes = _proposed(params, params.runs[run].dataset, photo, device)
    regions = trained.boxes(photo.folder, [photo.item(box) for box in boxes])
    scores = trained.scores(regions, trained.captions(phrases))
    values, places = scores.max(dim=0)
    return [
        FoundBox(phrase, boxes[place], value, len(boxes), wording)
        for phrase, place, value, wording in zip(phrases, places.tolist(), values.tolist(), wordings, strict=True)
    ]


def _proposed(params: Params, dataset: str, photo: Photo, device: str) -> list[Box]:
    settings = params.datasets[dataset].format.params
    options = PROPOSALS.options(settings.proposals).model_validate(settings.options)
    proposer = PROPOSALS.load(settings.proposals).proposer(options, settings.count, params.seed, device)
    image = Picture(photo.folder, photo.item(), *photo.picture.size)
    corners = settled(proposer(image), image, settings.count).boxes.astype(int).tolist()
    return [Box(x1, y1, x2 - x1 + 1, y2 - y1 + 1) for x1, y1, x2, y2 in corners]


# Okabe and Ito's colours, which colour-blind people can tell apart, without black and yellow, which
# are hard to see here.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
_TEXT, _LINE, _MARGIN = 16, 24, 8
# Characters of a phrase in the drawing.
_WIDEST = 100


def drawn(photo: Image.Image, boxes: list[FoundBox]) -> Image.Image:
    """The photo with a frame of three pixels around each box, a white frame inside it for contrast,
    and a line of text for each phrase, cut after 100 characters."""
    font = ImageFont.load_default(_TEXT)
    phrases = [row.phrase if len(row.phrase) <= _WIDEST else f"{row.phrase[:_WIDEST]}..." for row in boxes]
    lines = [f"{number}  {plain(phrase)}" for number, phrase in enumerate(phrases, start=1)]
    width = max(photo.width, *(int(font.getlength(line)) + 3 * _MARGIN + _LINE for line in lines))
    page = Image.new("RGB", (width, photo.height + _LINE * len(boxes) + 2 * _MARGIN), "white")
    page.paste(photo, (0, 0))
    pen = ImageDraw.Draw(page)
    for place, (row, line) in enumerate(zip(boxes, lines, strict=True)):
        colour = COLOURS[place % len(COLOURS)]
        x1, y1 = row.box.left, row.box.top
        x2, y2 = x1 + row.box.width - 1, y1 + row.box.height - 1
        pen.rectangle((x1, y1, x2, y2), outline="white", width=4)
        pen.rectangle((x1, y1, x2, y2), outline=colour, width=3)
        pen.text((x1 + 6, y1 + 3), str(place + 1), fill=colour, font=font, stroke_width=2, stroke_fill="white")
        top = photo.height + _MARGIN + place * _LINE
        pen.rectangle((_MARGIN, top + 4, _MARGIN + 16, top + 20), fill=colour)
        pen.text((2 * _MARGIN + 16, top + 3), line, fill="black", font=font)
    return page


def write(path: Path, photo: Image.Image, boxes: list[FoundBox]) -> None:
    """Write the drawing as PNG, whole or not at all; its text field names the program."""
    about = PngInfo()
    about.add_text("Software", SOFTWARE)
    with whole_file(path) as temporary, temporary.open("wb") as file:
        drawn(photo, boxes).save(file, "PNG", pnginfo=about)


# In the head of a drawing; only a file with this mark is replaced.
SOFTWARE = "vse-pipe localize"
# Proposals that are read from a file, which has none for a photo.
_PROPOSALS_FILE = "file"


@dataclass(frozen=True)
class Question:
    """name: of the photo, for messages; out: the file of the drawing. Both paths are absolute."""

    photo: Path
    name: str
    phrases: tuple[str, ...]
    out: Path

    def check(self) -> None:
        """Raises UsageError for an invalid phrase, and for an ``out`` that is no .png."""
        if wrong := [phrase for phrase in self.phrases if not is_text(phrase)]:
            raise UsageError(f"--phrase: {wrong[0][:40]!r} is no UTF-8")
        out = self.out
        if out.suffix.lower() != ".png" or not out.parent.is_dir():
            raise UsageError(f"--out {out}: name a .png file in a folder that is there")
        if out == self.photo:
            raise UsageError(f"--out: {out} is the photo itself; choose another name")
        require_free(out, f"a drawing of `{SOFTWARE}`", key=SOFTWARE.encode())


def check(params: Params, run: str) -> None:
    """Raises UsageError for a run of whole pictures or fragments, and proposals from a file."""
    stage.check_localizable(params, run)
    dataset = params.runs[run].dataset
    about = params.datasets[dataset].format
    if about.name != "regions":
        raise UsageError(f"data set '{dataset}' is no data set of regions: nothing says which boxes to propose")
    if about.params.proposals == _PROPOSALS_FILE:
        raise UsageError(f"the proposals of data set '{dataset}' are read from a file, which has none for a photo")


def localize(params: Params, run: str, content: bytes, question: Question, device: str, as_json: bool) -> None:
    """Draw and print the best box of each phrase. content: the bytes of the photo. Raises as
    ``unpacked`` and ``find``."""
    with unpacked(content, question.name) as photo:
        rows = find(params, run, photo, question.phrases, device)
        write(question.out, photo.picture, rows)
    candidates = rows[0].candidates
    for row in rows:
        if row.wording.unknown:
            warn(f"'{row.phrase}': not in the run's vocabulary: {', '.join(row.wording.unknown)}")
        for note in row.wording.notes:
            warn(f"'{row.phrase}': {note}")
    if as_json:
        phrases = [{"phrase": row.phrase, "xywh": list(row.box), "score": row.score} for row in rows]
        return document({"run": run, "candidates": candidates, "phrases": phrases, "output": str(question.out)})
    for row in rows:
        box = row.box
        console_line(f"{row.phrase}: {box.width} x {box.height} at {box.left},{box.top} (score {row.score:.4f})")
    return say(f"{question.out} shows the best of {candidates} boxes for each phrase")
