"""A paper's file that is as small as it can be, and changes to it."""

import copy
from pathlib import Path

from ruamel.yaml import YAML

PAPER = {
    "title": "A paper",
    "authors": "Somebody",
    "venue": "Somewhere 2020",
    "remarks": {"guess": "the paper does not say"},
    "settings": {
        "sum": {"loss": "sum", "options": {"loss": {"margin": 0.1}}, "train": {"lr": 0.001, "epochs": 7}},
        "code": {"options": {"loss": {"margin": 0.3}}},
    },
    "blocks": [
        {
            "table": "1",
            "dataset": "flickr30k",
            "protocol": "1k",
            "columns": ["i2t.r1", "t2i.r1"],
            "settings": ["vse"],
            "rows": [
                {"id": "1.1", "method": "SUM", "settings": ["sum"], "published": [30.0, 20.0], "assumed": "guess"},
                {"id": "1.2", "method": "another's", "quoted": True, "published": [None, 21.5]},
            ],
        }
    ],
}


def write(path: Path, content: dict) -> Path:
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(content, file)
    return path


def changed(*address: str | int, to: object) -> dict:
    """The paper with the value at ``address`` set to ``to``, or taken out when that is None."""
    content = copy.deepcopy(PAPER)
    place = content
    for step in address[:-1]:
        place = place[step]
    if to is None:
        del place[address[-1]]
    else:
        place[address[-1]] = to
    return content
