"""Pictures in terminals that can show them, by kitty's protocol or iTerm2's; nothing anywhere else.

Sources: https://sw.kovidgoyal.net/kitty/graphics-protocol/, https://iterm2.com/documentation-images.html. A picture is
decoded and encoded anew, so that nothing of a file reaches the terminal but base64 of what is shown.
"""

import base64
import io
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO

from vse_pipe.core.console import plain

KITTY, ITERM = "kitty", "iterm"
_SIDE, _LINES, _MOST = 256, 7, 24
# Characters of one command of kitty's.
_CHUNK = 4096
_PROGRAMS = {"iTerm.app": ITERM, "WezTerm": ITERM, "ghostty": KITTY}


def protocol(stream: IO[str], environment: Mapping[str, str]) -> str | None:
    """KITTY, ITERM, or None: in a pipe or a file, in tmux and screen, which keep pictures to themselves, and where the
    terminal is not known to show any."""
    if not stream.isatty() or environment.get("TERM", "").startswith(("screen", "tmux", "dumb")):
        return None
    if "TMUX" in environment or "CI" in environment:
        return None
    if "KITTY_WINDOW_ID" in environment or "kitty" in environment.get("TERM", ""):
        return KITTY
    told = environment.get("LC_TERMINAL") or environment.get("TERM_PROGRAM", "")
    return _PROGRAMS.get("iTerm.app" if told == "iTerm2" else told)


def draw(stream: IO[str], kind: str, hits: list[dict], picture: Callable[[int | str], Path | None]) -> None:
    """The pictures of the first hits, each below its rank and file. picture: where an image lies, by its id."""
    for hit in hits[:_MOST]:
        path = picture(hit["image_id"])
        png = None if path is None else _png(path)
        if png is not None:
            stream.write(f"{hit['rank']}  {plain(hit['file'])}\n{written(kind, png)}\n")
    stream.flush()


def written(kind: str, png: bytes) -> str:
    """What makes the terminal draw it, ``_LINES`` lines tall."""
    text = base64.b64encode(png).decode("ascii")
    if kind == ITERM:
        return f"\x1b]1337;File=inline=1;size={len(png)};height={_LINES};preserveAspectRatio=1:{text}\a"
    parts = [text[start : start + _CHUNK] for start in range(0, len(text), _CHUNK)]
    first = f"a=T,f=100,q=2,r={_LINES},"
    return "".join(
        f"\x1b_G{'' if place else first}m={int(place < len(parts) - 1)};{part}\x1b\\"
        for place, part in enumerate(parts)
    )


def _png(path: Path) -> bytes | None:
    """None where it cannot be read."""
    from PIL import Image

    from vse_pipe.pictures.images import shown
    from vse_pipe.report.engine.pictures import thumbnail

    content = shown(path)
    small = None if content is None else thumbnail(content, _SIDE)
    if small is None:
        return None
    out = io.BytesIO()
    Image.open(io.BytesIO(small)).save(out, "PNG")
    return out.getvalue()
