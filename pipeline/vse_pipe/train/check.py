"""data/train/<run>/: the model's files, what config.json says they were made with, and the learning curve."""

from pathlib import Path

from vse_pipe.artifacts import features, history, model_files, pairs, rematching, texts
from vse_pipe.core.files import read_json, sha256
from vse_pipe.project import paths
from vse_pipe.project.nodes import Node
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.problems import NOTE, Problem, collected, digest, settings
from vse_pipe.project.registry import RUN_FAMILIES, SCHEMES


def problems(params: Params, node: Node) -> list[Problem]:
    if not (node.out / model_files.MODEL).is_file():
        return [Problem(NOTE, str(node.out), "training has not ended", f"`{node.command}` goes on with it")]
    found: list[Problem] = []
    run = params.runs[node.name]
    with collected(found):
        config = model_files.read_config(node.out, node.name)
        found += _settings(run, config, node)
        found += _inputs(run, config, node)
        model_files.open_weights(node.out)
        if "peer_sha256" in config:
            model_files.open_weights(node.out / model_files.PEER)
    with collected(found):
        history.read(node.out)
    with collected(found):
        if (node.out / rematching.NAME).is_file():
            rematching.read(node.out)
    return found


def _settings(run: Run, config: dict, node: Node) -> list[Problem]:
    found = []
    for key in RUN_FAMILIES:
        member, made = getattr(run, key), config.get(key)
        if isinstance(made, dict):
            address = f"runs.{node.name}.{key}"
            asked = {key: member.name} | member.params.model_dump(mode="json")
            made_with = {key: made.get("name")} | made.get("params", {})
            found += settings(str(node.out), made_with, asked, address, node.advice)
    asked = {key: getattr(run, key) for key in ("dataset", "features", "texts", "noise")}
    if SCHEMES.traits(run.scheme.name).trains:  # else it is the features' own
        asked["embed_size"] = run.train.embed_size
    if run.model is None:
        asked["seed"] = run.seed
        # The number of processes changes rounding alone.
        options = run.train.model_dump(mode="json", exclude={"embed_size", "processes"})
        found += settings(str(node.out), config.get("train", {}), options, f"runs.{node.name}.train", node.advice)
    return found + settings(str(node.out), config, asked, f"runs.{node.name}", node.advice)


def _inputs(run: Run, config: dict, node: Node) -> list[Problem]:
    """The digests of what it was trained on, as config.json has them, against those that lie beside the inputs."""
    seen, words = paths.extracted(run.dataset, run.features), paths.extracted(run.dataset, run.texts)
    shown = paths.injected(run.dataset, run.noise) / pairs.NAME
    of_features = _named(seen / features.META, "sha256")
    of_texts = texts.digest(read_json(words / texts.META)) if (words / texts.META).is_file() else None
    of_pairs = sha256(shown) if shown.is_file() else None
    return [
        *digest(node.out, "features", config.get("features_sha256"), of_features, node.advice),
        *digest(node.out, "texts", config.get("texts_sha256"), of_texts, node.advice),
        *digest(node.out, "pairs", config.get("pairs_sha256"), of_pairs, node.advice),
    ]


def _named(path: Path, key: str) -> object:
    return read_json(path).get(key) if path.is_file() else None
