"""data/inject/<dataset>/<noise>/: the pairs against the captions they shuffle."""

from pipeline import paths
from pipeline.artifacts import _table, captions, pairs
from pipeline.check.artefacts._compare import ids, settings
from pipeline.check.problem import Problem, collected
from pipeline.params.typed import Params
from pipeline.project.nodes import Node


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    held = params.noises[node.name]
    with collected(found):
        table = pairs.read(node.out)
        asked = {"protocol": held.protocol.name, "seed": str(params.seed)}
        made_with = _table.footer(table)
        found += settings(str(node.out), made_with, asked, f"noises.{node.name}", node.advice)
        source = paths.prepared(held.dataset) / captions.NAME
        if source.is_file():
            shown, known = (
                table["caption_id"].to_numpy(),
                captions.read(source.parent)["caption_id"].to_numpy(),
            )
            file = node.out / pairs.NAME
            found += ids(file, "caption_id", shown, known, source, node.advice)
            found += ids(source, "caption_id", known, shown, file, node.advice)
    return found
