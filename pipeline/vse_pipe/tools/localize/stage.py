"""vse-pipe localize --image: the boxes of phrases in a photo, printed and drawn."""

from vse_pipe.core.console import document, line, say, warn
from vse_pipe.project.params.typed import Params
from vse_pipe.tools.localize import draw
from vse_pipe.tools.localize.find import find
from vse_pipe.tools.localize.photo import unpacked
from vse_pipe.tools.localize.question import Question


def localize(params: Params, run: str, content: bytes, question: Question, device: str, as_json: bool) -> None:
    """content: the bytes of the photo. Raises as ``unpacked`` and ``find``."""
    with unpacked(content, question.name) as photo:
        found = find(params, run, photo, question.phrases, device)
        draw.write(question.out, photo.picture, found)
    for one in found:
        if one.unknown:
            warn(f"'{one.phrase}': not in the run's vocabulary: {', '.join(one.unknown)}")
        for note in one.notes:
            warn(f"'{one.phrase}': {note}")
    if as_json:
        rows = [{"phrase": one.phrase, "xywh": list(one.box), "score": one.score} for one in found]
        return document({"run": run, "candidates": found[0].candidates, "phrases": rows, "output": str(question.out)})
    for one in found:
        box = one.box
        line(f"{one.phrase}: {box.width} x {box.height} at {box.left},{box.top} (score {one.score:.4f})")
    return say(f"{question.out} shows the best of {found[0].candidates} boxes for each phrase")
