"""data/extract/<dataset>/<texts>/: readable, made from the captions that are there now, with these parameters."""

from vse_pipe.artifacts import captions, texts
from vse_pipe.core.files import sha256
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import Problem, collected, digest, ids, settings


def problems(params: Params, node: Node) -> list[Problem]:
    found: list[Problem] = []
    held = params.texts[node.name]
    with collected(found):
        read = texts.read(node.out, verify=False)
        meta = read.meta
        about = {key: meta[key] for key in ("method", "dataset", "seed") if key in meta}
        made_with = about | meta.get("options", {})
        asked = {"method": held.method.name, "dataset": held.dataset, "seed": params.seed}
        asked |= held.method.params.model_dump(mode="json")
        found += settings(str(node.out), made_with, asked, f"texts.{node.name}", node.advice)
        source = paths.prepared(held.dataset) / captions.NAME
        if source.is_file():
            found += digest(node.out, "captions", meta.get("captions_sha256"), sha256(source), node.advice)
            known = captions.read(source.parent)["caption_id"].to_numpy()
            index = node.out / texts.INDEX
            found += ids(index, "caption_id", read.caption_ids, known, source, node.advice)
            found += ids(source, "caption_id", known, read.caption_ids, index, node.advice)
    return found
