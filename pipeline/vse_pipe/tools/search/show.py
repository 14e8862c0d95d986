"""A search's answer on the terminal: a table for people, or one JSON document for programs."""

import json

from vse_pipe.core.console import plain, say, stdout
from vse_pipe.tools.search.sentences import shortened

_SHOWN = 20


def show(told: dict, as_json: bool) -> None:
    """told: as ``answer.document``."""
    if as_json:
        text = json.dumps(told, indent=2, sort_keys=True, allow_nan=False, ensure_ascii=False)
        stdout.file.write(text + "\n")
    else:
        for line in remarks(told):
            say(line)
        _table(told)
    stdout.file.flush()  # what comes after the answer takes its time


def remarks(told: dict) -> list[str]:
    """What to know beside the hits, a sentence each."""
    found = [f"run {told['run']} ({told['chosen']})"]
    if told["unknown"]:
        named = [plain(shortened(word)) for word in told["unknown"][:_SHOWN]]
        more = len(told["unknown"]) - len(named)
        found.append(f"not in the vocabulary: {', '.join(named)}" + (f" and {more} more" if more else ""))
    found += told["notes"]
    kind = "images" if told["direction"] == "text_to_image" else "captions"
    if told["narrowed"].get("where") is not None:
        found.append(f"{told['narrowed']['left']:,} of {told['searched']:,} {kind} fit {told['narrowed']['where']}")
    if told["calibration"]:
        found.append(calibrated(told))
    if not told["hits"]:
        least = told["narrowed"].get("min_probability")
        found.append("nothing fits" + ("" if least is None else f" with a probability of {least:g} or more"))
    if told["left_out"]:
        images, captions = (told["left_out"][kind] for kind in ("images", "captions"))
        nor = f", nor their {captions:,} captions" if captions else ""
        found.append(f"{images:,} images that could not be read are not searched{nor}")
    return found + ([corrected(told)] if told["correction"] else [])


def corrected(told: dict) -> str:
    """Whose queries corrected the scores, and when that was computed."""
    about = told["correction"]
    kind = "captions" if told["direction"] == "text_to_image" else "images"
    when = f"on {about['computed']}" if about["kept"] else "now"
    return (
        f"{told['inference']}: corrected by {about['queries']:,} {kind} of {about['bank']}, computed {when} in "
        f"{about['seconds']:.1f} s and kept"
    )


def calibrated(told: dict) -> str:
    """What a probability is of."""
    about = told["calibration"]
    query, item = ("sentence", "image") if told["direction"] == "text_to_image" else ("image", "caption")
    whose = "" if about["run"] == told["run"] else f" of run {about['run']}"
    return (
        f"probability that one of the {about['candidates']} best of a {query} is its own {item}: {about['method']} on "
        f"{about['queries']:,} queries of {about['split']}{whose}, where {about['base_rate']:.1%} are"
    )


def _table(told: dict) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    to_images = told["direction"] == "text_to_image"
    kind = "images" if to_images else "captions"
    caption = f"{told['inference']}, {told['searched']:,} {kind} of {told['split']}, {told['seconds']:.2f} s"
    if not told["hits"]:
        return
    table = Table(box=SIMPLE_HEAD, pad_edge=False, caption=Text(caption), caption_justify="left")
    sure = ["probability"] if told["calibration"] else []
    for name in ("rank", "score", *sure):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("image", overflow="fold")
    described = any(hit["text"] for hit in told["hits"])
    if described:
        table.add_column("its first caption" if to_images else "caption", overflow="fold", ratio=1)
    key = "image_id" if to_images else "caption_id"
    numbered = any(hit[key] != hit["file"] for hit in told["hits"])
    if numbered:
        table.add_column(key, justify="right", no_wrap=True)
    for hit in told["hits"]:
        file = plain(hit["file"]) + (f"\n+{hit['alike_count']} alike" if hit["alike"] else "")
        cells = [str(hit["rank"]), f"{hit['score']:.4f}", *(f"{hit[name]:.2f}" for name in sure), file]
        cells += [plain(hit["text"])] * described + [plain(str(hit[key]))] * numbered
        table.add_row(*map(Text, cells))
    stdout.print(table)
