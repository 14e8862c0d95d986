"""Settings on top of settings."""

from collections.abc import Sequence

from vse_pipe.papers.schema import MEMBERS, Settings

_NODES = ("dataset", "features", "texts", "noise")


def merged(layers: Sequence[Settings]) -> Settings:
    """One block from several, later ones on top. A new member drops the options of the one it replaces; null drops a value."""
    values: dict = {"options": {}, "train": {}, "inference": {}}
    for layer in layers:
        for name in (*_NODES, *MEMBERS):
            chosen = getattr(layer, name)
            if chosen is not None:
                if name in MEMBERS and chosen != values.get(name):
                    values["options"].pop(name, None)
                values[name] = chosen
        for key in ("options", "inference"):
            for name, options in getattr(layer, key).items():
                values[key][name] = _on_top(values[key].get(name, {}), options)
        values["train"] = _on_top(values["train"], layer.train)
    return Settings(**values)


def _on_top(below: dict, above: dict) -> dict:
    return {name: value for name, value in {**below, **above}.items() if value is not None}
