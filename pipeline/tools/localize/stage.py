"""vse-pipe localize --image: the boxes of phrases in a photo, printed and drawn."""

from pathlib import Path

from pipeline.core.console import document, line, say, warn
from pipeline.core.errors import InputError, UsageError
from pipeline.pictures import images
from pipeline.project.params.typed import Params
from pipeline.tools.localize import draw
from pipeline.tools.localize.find import find


def localize(
    params: Params, run: str, photo: Path, name: str, phrases: list[str], out: Path, device: str, as_json: bool
) -> None:
    """Raises as ``find``; UsageError where ``out`` is a folder, the photo itself or in no folder."""
    if out.is_dir() or out == photo or not out.parent.is_dir():
        raise UsageError(f"--out {out}: name a PNG file in a folder that is there, and not the photo itself")
    try:
        content = photo.read_bytes()
    except OSError as error:
        raise InputError(f"{photo}: cannot be read: {error.strerror}") from error
    found = find(params, run, content, name, phrases, device)
    draw.write(out, images.decode(content, name), found)
    for one in found:
        if one.unknown:
            warn(f"'{one.phrase}': not in the run's vocabulary: {', '.join(one.unknown)}")
        for note in one.notes:
            warn(f"'{one.phrase}': {note}")
    if as_json:
        rows = [{"phrase": one.phrase, "xywh": list(one.box), "score": one.score} for one in found]
        return document({"run": run, "candidates": found[0].candidates, "phrases": rows, "output": str(out)})
    for one in found:
        box = one.box
        line(f"{one.phrase}: {box.width} x {box.height} at {box.left},{box.top} (score {one.score:.4f})")
    return say(f"{out} shows the best of {found[0].candidates} boxes for each phrase")
