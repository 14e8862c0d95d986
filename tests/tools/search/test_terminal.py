"""Pictures in a terminal: read back from what is written to it, and nothing where nobody could see them."""

import base64
import io
import re

import pytest
from PIL import Image

from vse_pipe.tools.search.terminal import ITERM, KITTY, draw, protocol


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({"TERM": "xterm-kitty"}, KITTY),
        ({"TERM": "xterm-256color", "KITTY_WINDOW_ID": "3"}, KITTY),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "ghostty"}, KITTY),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, ITERM),
        ({"TERM": "xterm-256color", "LC_TERMINAL": "iTerm2"}, ITERM),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "WezTerm"}, ITERM),
        ({"TERM": "xterm-256color", "TERM_PROGRAM": "Apple_Terminal"}, None),
        ({"TERM": "xterm-256color"}, None),
        ({}, None),
        ({"TERM": "tmux-256color", "KITTY_WINDOW_ID": "3"}, None),
        ({"TERM": "xterm-kitty", "TMUX": "/tmp/tmux"}, None),
        ({"TERM": "dumb", "KITTY_WINDOW_ID": "3"}, None),
        ({"TERM": "xterm-kitty", "CI": "true"}, None),
    ],
)
def test_the_protocol_is_that_of_the_terminal(environment, wanted):
    assert protocol(Terminal(), environment) == wanted
    assert protocol(io.StringIO(), environment) is None, "never in a pipe"


def images(kind: str, text: str) -> list[Image.Image]:
    """As a terminal reads them."""
    if kind == ITERM:
        found = re.findall(r"\x1b\]1337;File=inline=1;size=\d+;height=7;preserveAspectRatio=1:([^\a]*)\a", text)
    else:
        whole, found = "", []
        for control, part in re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", text):
            assert len(part) <= 4096
            assert ("a=T,f=100" in control) == (whole == "")
            whole += part
            if "m=0" in control:
                found.append(whole)
                whole = ""
    return [Image.open(io.BytesIO(base64.b64decode(one))) for one in found]


@pytest.mark.parametrize("kind", [KITTY, ITERM])
def test_what_is_drawn_are_the_pictures_of_the_hits(tmp_path, kind):
    noise = Image.effect_noise((300, 150), 90).convert("RGB")
    noise.save(tmp_path / "1.png")
    Image.new("RGB", (40, 40), "red").save(tmp_path / "2.png")
    (tmp_path / "3.png").write_bytes(b"no picture")
    hits = [{"rank": rank, "image_id": rank, "file": f"{rank}\x1b[31m.png"} for rank in (1, 2, 3, 4)]
    out = Terminal()
    draw(out, kind, hits, lambda number: None if number == 4 else tmp_path / f"{number}.png")
    found = images(kind, out.getvalue())
    assert [one.size for one in found] == [(256, 128), (40, 40)]
    assert found[1].convert("RGB").getpixel((20, 20))[0] > 240
    assert "\x1b[31m" not in out.getvalue()
    assert "1\ufffd[31m.png" in out.getvalue()
    assert "3\ufffd" not in out.getvalue()
