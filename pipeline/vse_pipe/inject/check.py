"""data/inject/<dataset>/<noise>/: the pairs against the captions they shuffle."""

from vse_pipe.artifacts import captions, joins, pairs
from vse_pipe.core import tables
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest, ids, settings


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    held = params.noises[node.name]
    with collected(found):
        table = pairs.read(node.out)
        asked = {"protocol": held.protocol.name, "seed": str(params.seed)}
        made_with = tables.footer(table)
        found += settings(str(node.out), made_with, asked, f"noises.{node.name}", node.advice)
        source = paths.prepared(held.dataset) / captions.NAME
        if source.is_file():
            shown, known = (table["caption_id"].to_numpy(), captions.read(source.parent)["caption_id"].to_numpy())
            file = node.out / pairs.NAME
            for what, there in joins.made_of(source.parent).items():
                name = what.removesuffix("_sha256")
                found += digest(file, name, made_with.get(what), there, node.advice)
            found += ids(file, "caption_id", shown, known, source, node.advice)
            found += ids(source, "caption_id", known, shown, file, node.advice)
    return found
