"""The pages of the documentation, taken apart: headings, links, code spans, fenced blocks and the commands they show.

Commands stand in blocks fenced as ``sh`` or ``bash`` or, with the output one sees, as ``console`` after a ``$``; and in code spans that
begin with the name of a program. A block after a paragraph that is nothing but paths in code spans and a colon is the
content of these files; after "Add to" and a path it is added to the end of that file.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.rules.sources import ROOT

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*.md"), *ROOT.glob("reports/*.md")])
PROGRAMS = ("vse-pipe ", "dvc ", "make ", "git ", "python ", "pip ", "source .venv", "export ", "sha256sum ")
_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILES = re.compile(r"(Add to )?((?:`[\w./-]+`(?:, )?)+):\s*$")
_SPAN = re.compile(r"(?<!`)`([^`\n]+(?:\n[^`\n]+)?)`(?!`)")


@dataclass(frozen=True)
class Block:
    """A fenced block. files: whose content it shows, empty for most; adds: whether it is added to their end."""

    line: int
    language: str
    text: str
    files: tuple[str, ...]
    adds: bool = False


@dataclass(frozen=True)
class Command:
    """page: relative to the root; shown: the command as one line, without its comment; inline: in a code span."""

    page: str
    line: int
    shown: str
    inline: bool

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.shown}"


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def blocks(text: str) -> list[Block]:
    """The fenced blocks in order."""
    found = []
    for match in _FENCE.finditer(text):
        before = text[: match.start()].rstrip("\n").rpartition("\n")[2]
        files = _FILES.fullmatch(before)
        names = tuple(re.findall(r"`([^`]+)`", files.group(2))) if files else ()
        adds = bool(files and files.group(1))
        found.append(Block(_line(text, match.start()), match.group(1), match.group(2), names, adds))
    return found


def prose(text: str) -> str:
    """The text with its fenced blocks blanked out, line for line."""
    return _FENCE.sub(lambda match: "\n" * match.group().count("\n"), text)


def spans(text: str) -> list[tuple[int, str]]:
    """(line, content) of every code span in the prose."""
    plain = prose(text)
    return [(_line(plain, one.start()), " ".join(one.group(1).split())) for one in _SPAN.finditer(plain)]


def section(text: str, heading: str) -> str:
    """The part of a page below a heading, with the parts of lower headings; empty if there is none."""
    plain = prose(text)
    start = re.search(rf"^(#+) {re.escape(heading)}$", plain, flags=re.MULTILINE)
    if start is None:
        return ""
    end = re.compile(rf"^#{{1,{len(start[1])}}} ", re.MULTILINE).search(plain, start.end())
    lines = slice(_line(plain, start.start()) - 1, _line(plain, end.start()) - 1 if end else None)
    return "".join(text.splitlines(keepends=True)[lines])


def steps(path: Path, without: Iterable[str] = ()) -> list[Block | Command]:
    """What a reader does from the top of the page to its end: files to write, commands of the blocks to run.

    without: headings whose parts are left out."""
    text = path.read_text(encoding="utf-8")
    for heading in without:
        part = section(text, heading)
        text = text.replace(part, "\n" * part.count("\n"))
    found: list[Block | Command] = []
    for block in blocks(text):
        if block.files:
            found.append(block)
        elif block.language in ("sh", "bash", "console"):
            found += [Command(name(path), line, shown, False) for line, shown in _shown(block)]
    return found


def inline_commands(path: Path) -> list[Command]:
    """Commands in code spans, a program's name with something after it."""
    return [
        Command(name(path), line, part, True)
        for line, span in spans(path.read_text(encoding="utf-8"))
        if span.startswith(PROGRAMS)
        for part in span.split(" && ")
    ]


def anchors(text: str) -> set[str]:
    """What GitHub calls the headings of a page; a second heading of the same words gets a number."""
    found: list[str] = []
    for heading in re.findall(r"^#+ (.*)$", prose(text), flags=re.MULTILINE):
        base = anchor(re.sub(r"&\w+;", "", re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)).strip())
        found.append(base if base not in found else f"{base}-{sum(one.startswith(base) for one in found)}")
    return set(found)


def anchor(heading: str, separator: str = "-") -> str:
    """What GitHub calls a heading of this text."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", separator)


def slugs() -> Callable[[str, str], str]:
    """For zensical.toml: the site's anchors are GitHub's."""
    return anchor


def _shown(block: Block) -> Iterator[tuple[int, str]]:
    """The commands of a block, each with its line: comments taken off, continued lines joined, ``&&`` taken apart."""
    text = re.sub(r" *\\\n\s*", lambda _: " ", block.text)
    for number, line in enumerate(text.splitlines(), start=block.line + 1):
        if block.language == "console" and not line.startswith("$ "):
            continue
        bare = re.sub(r"(^#|\s+#\s).*$", "", line.removeprefix("$ ")).strip()
        parts = [bare] if bare.startswith("for ") else bare.split(" && ")
        yield from ((number, part.strip()) for part in parts if part)


def _line(text: str, at: int) -> int:
    return text.count("\n", 0, at) + 1
