"""What `apply` leaves as it was: options of an overlay that was applied before go on holding for the next."""

from collections.abc import Iterator
from pathlib import Path

from vse_pipe.project.params import overlay as overlays
from vse_pipe.project.params.document import read_document
from vse_pipe.tools.init.stages_yaml import TEMPLATE


def kept(params: Path, overlay: str, overrides: list[str]) -> list[str]:
    """``train.lr: 0.002`` of each option outside the nodes that a new project has otherwise and neither ``overlay`` nor ``overrides`` names."""
    new, own, named = (
        dict(_options(read_document(path))) for path in (TEMPLATE / "params.yaml", params, overlays.find(overlay))
    )
    given = tuple(f"{one.partition('=')[0]}." for one in overrides)
    return [
        f"{address}: {value}"
        for address, value in own.items()
        if address not in named and new.get(address, ...) != value and not f"{address}.".startswith(given)
    ]


def _options(section: dict, above: str = "") -> Iterator[tuple[str, object]]:
    for key, value in section.items():
        if isinstance(value, dict) and value:
            yield from _options(value, f"{above}{key}.")
        elif above.partition(".")[0] not in overlays.NODES and key not in overlays.NODES:
            yield f"{above}{key}", value
