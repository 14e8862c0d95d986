"""An overlay as YAML text, with what the paper printed above it."""

import io

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap

from vse_pipe.papers import catalogue
from vse_pipe.papers.catalogue import Entry
from vse_pipe.papers.compare import label

PROTOCOLS = {
    "1k": "all test images",
    "5k": "all 5,000 test images",
    "c1": "the first 1,000 test images",
    "c2": "mean over five folds of 1,000 test images",
    "phrases": "phrases among the boxes of their image",
}


def text(entry: Entry, overlay: dict) -> str:
    """YAML that ``vse-pipe apply`` takes as well."""
    lines = [f"# {line}" for line in heading(entry)]
    editor = YAML()
    editor.width = 1000
    stream = io.StringIO()
    editor.dump(_laid_out({"replace": "nodes", **overlay}), stream)
    return "\n".join([*lines, stream.getvalue()])


def heading(entry: Entry) -> list[str]:
    """Who, what, where, how measured; the printed figures; what is assumed."""
    paper = catalogue.load(entry.paper)
    tables = " and ".join([entry.block.table, *entry.row.also])
    lines = [
        f"{paper.title} ({paper.venue}), Table {tables}, row {entry.id}",
        f"{entry.row.method}; {entry.block.title or entry.block.dataset}: {PROTOCOLS[entry.block.protocol]}",
        *published(entry),
    ]
    if entry.row.assumed:
        lines.append(f"assumed: {paper.remarks[entry.row.assumed]}")
    return lines + ([f"note: {entry.row.note}"] if entry.row.note else [])


def published(entry: Entry) -> list[str]:
    """The printed figures, a direction a line."""
    groups: dict[str, list[str]] = {}
    for name, value in entry.published.items():
        way = name.rpartition(".")[0]
        groups.setdefault(way, []).append(f"{label(name)} {shown(value)}".removeprefix(f"{way} "))
    return [f"published{f' {way}' if way else ''}: {', '.join(figures)}" for way, figures in groups.items()]


def shown(value: float) -> str:
    """As tables print it: one decimal, two where it has them."""
    return f"{value:.1f}" if round(value, 1) == value else f"{value:.2f}"


def _laid_out(overlay: dict) -> CommentedMap:
    """Sections and nodes one below the other, what they hold in one line."""
    found = CommentedMap()
    for section, nodes in overlay.items():
        found[section] = _copied(nodes)
        if not isinstance(nodes, dict):
            continue
        if not any(isinstance(node, dict) for node in nodes.values()):
            found[section].fa.set_flow_style()
            continue
        for node in found[section].values():
            if section != "runs" or not isinstance(node, dict):
                _in_one_line(node)
                continue
            _in_one_line(node.get("train"))
            options = node.get("options")
            for values in options.values() if isinstance(options, dict) else ():
                _in_one_line(values)
    return found


def _copied(value: object) -> object:
    """Maps whose layout can be set; a value of --set may be anything."""
    return CommentedMap({key: _copied(one) for key, one in value.items()}) if isinstance(value, dict) else value


def _in_one_line(node: object) -> None:
    if isinstance(node, CommentedMap):
        node.fa.set_flow_style()
