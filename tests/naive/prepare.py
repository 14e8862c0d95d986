"""Plain-loop oracles of the prepare stage."""

import hashlib


def hashed_split(seed: int, image: str, val: float, test: float) -> str:
    """The split of one image: the first 63 bits of a sha256, read as a fraction."""
    digits = hashlib.sha256(f"{seed}\x1fsplit\x1f{image}".encode()).hexdigest()[:16]
    fraction = (int(digits, 16) // 2) / 2**63
    if fraction < test:
        return "test"
    if fraction < test + val:
        return "val"
    return "train"


def vsepp_image_rows(images: int, captions: int) -> list[int]:
    """The row of features that VSE++'s loader pairs each caption with: caption // 5 when the counts differ."""
    div = 1 if images == captions else 5
    return [caption // div for caption in range(captions)]


def runs(values: list) -> list[int]:
    """Lengths of the stretches of equal neighbours."""
    lengths = []
    for position, value in enumerate(values):
        if position and value == values[position - 1]:
            lengths[-1] += 1
        else:
            lengths.append(1)
    return lengths


def divides_all(lengths: list[int]) -> int:
    """The largest number that divides every length."""
    return max(d for d in range(1, min(lengths) + 1) if all(length % d == 0 for length in lengths))


def entities_sentence(line: str) -> tuple[str, list[tuple[int, str, str, list[str]]]]:
    """A line of Flickr30k Entities word by word: the caption, and of each phrase its first word's number, its words, chain and
    types. For lines whose words stand one space apart."""
    words, phrases, inside = [], [], False
    for token in line.split(" "):
        if token.startswith("["):
            _, chain, *types = token[1:].split("/")
            phrases.append((len(words), [], chain.removeprefix("EN#"), types))
            inside = True
            continue
        words.append(token.removesuffix("]") if inside else token)
        if inside:
            phrases[-1][1].append(words[-1])
            inside = not token.endswith("]")
    return " ".join(words), [(first, " ".join(named), chain, types) for first, named, chain, types in phrases]
