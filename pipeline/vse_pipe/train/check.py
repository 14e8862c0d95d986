"""data/train/<run>/: trained on the features, texts and pairs that are there now."""

from vse_pipe.artifacts import features, model_files, pairs, texts
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import NOTE, Problem, collected, digest


def problems(params: Params, node: Node) -> list[Problem]:
    if not (node.out / model_files.MODEL).is_file():
        return [Problem(NOTE, str(node.out), "training has not ended", f"`{node.command}` goes on with it")]
    found: list[Problem] = []
    run = params.runs[node.name]
    with collected(found):
        config = model_files.read_config(node.out, node.name)
        of_features = paths.extracted(run.dataset, run.features) / features.META
        of_texts = paths.extracted(run.dataset, run.texts) / texts.META
        inputs = {
            "features": read_json(of_features).get("sha256") if of_features.is_file() else None,
            "texts": texts.digest(read_json(of_texts)) if of_texts.is_file() else None,
            "pairs": paths.injected(run.dataset, run.noise) / pairs.NAME,
        }
        for what, current in inputs.items():
            found += digest(node.out, what, config.get(f"{what}_sha256"), current, node.advice)
    return found
