"""What can befall a file: bits that flip, an end that is missing, a header that says other numbers, content that grew."""

import random
import re

_ENDS = 512
_NUMBERS = (0, 1, 127, 255, 2**16, 2**31 - 1, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
_WORDS = (
    b"",
    b"-1",
    b"0",
    b"1e999",
    b"NaN",
    b"null",
    b'""',
    b"[]",
    b"{}",
    b"9" * 30,
    b"../../x",
    b"\xff\xfe",
    b"(",
    b"'",
)
_TOKEN = re.compile(rb"[A-Za-z0-9_.<|+-]{1,64}")


def mutated(content: bytes, drawn: random.Random) -> bytes:
    """One to three changes of any kind; the same for the same state of ``drawn``."""
    for _ in range(drawn.choice((1, 1, 1, 2, 3))):
        content = drawn.choice((_flip, _truncate, _number, _word, _grow))(content, drawn)
    return content


def _place(content: bytes, drawn: random.Random) -> int:
    """Anywhere, but every other time within the ends, where formats keep what they say of themselves."""
    end = max(1, len(content))
    near = drawn.randrange(min(_ENDS, end))
    return drawn.choice((drawn.randrange(end), drawn.randrange(end), near, end - 1 - near))


def _flip(content: bytes, drawn: random.Random) -> bytes:
    if not content:
        return content
    found = bytearray(content)
    for _ in range(drawn.choice((1, 1, 4, 32))):
        found[_place(content, drawn)] ^= 1 << drawn.randrange(8)
    return bytes(found)


def _truncate(content: bytes, drawn: random.Random) -> bytes:
    at = _place(content, drawn)
    return content[at:] if drawn.random() < 0.2 else content[:at]


def _number(content: bytes, drawn: random.Random) -> bytes:
    """A number in binary, of any width, overwritten by one at the edge of what it can be."""
    width = drawn.choice((1, 2, 4, 8))
    number = drawn.choice(_NUMBERS) % 2 ** (8 * width)
    at = _place(content, drawn)
    return content[:at] + number.to_bytes(width, drawn.choice(("little", "big"))) + content[at + width :]


def _word(content: bytes, drawn: random.Random) -> bytes:
    """A word or a number in text replaced by another of the file, or by one that nobody expects there."""
    start = max(0, _place(content, drawn) - 64)
    found = list(_TOKEN.finditer(content, start, start + _ENDS))
    if not found:
        return _flip(content, drawn)
    one, other = drawn.choice(found), drawn.choice(found)
    return content[: one.start()] + drawn.choice((*_WORDS, other.group())) + content[one.end() :]


def _grow(content: bytes, drawn: random.Random) -> bytes:
    at, until = sorted((_place(content, drawn), _place(content, drawn)))
    more = drawn.choice(
        (
            drawn.randbytes(drawn.randrange(1, 64)),
            content[at:until],
            bytes(drawn.choice((8, 4096))),
            drawn.choice((b"[", b"{", b"(", b"\n", b"\t", b",", b'"', b"\\", b" ")) * drawn.choice((1, 100_000)),
        )
    )
    place = drawn.choice((at, len(content)))
    return content[:place] + more + content[place:]
