"""Hard negatives in plain loops."""

from tests.naive.localize import overlap


def mined(pairs: list[dict], proposals: list[dict], limit: float | None) -> set[tuple[int, int]]:
    """(text, row) of every proposal nearer to a text than all its ground truths in that picture that have a score. pairs: text,
    picture, box, score of text and region or None, and whether it is a training pair: others are truths alone; proposals: row,
    picture, box, and score by text."""
    found = set()
    for one in pairs:
        if not one["pair"]:
            continue
        truths = [pair for pair in pairs if (pair["text"], pair["picture"]) == (one["text"], one["picture"])]
        for other in proposals:
            if other["picture"] != one["picture"]:
                continue
            nearer = other["score"][one["text"]] > max(truth["score"] for truth in truths if truth["score"] is not None)
            free = limit is None or all(overlap(other["box"], truth["box"]) < limit for truth in truths)
            if nearer and free:
                found.add((one["text"], other["row"]))
    return found
