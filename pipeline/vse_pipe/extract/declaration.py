"""extract: image features of a backbone, and the text features that text encoders read."""

from collections.abc import Iterable

from vse_pipe.artifacts import captions, features, texts
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import BACKBONES, TEXT_FEATURES
from vse_pipe.project.stages import Declaration, Node, Problem


def _feature_problems(params: Params, node: Node) -> Iterable[Problem]:
    prepared = paths.prepared(params.features[node.name].dataset)
    features.require_images(features.read(node.out, verify=False), prepared)
    return ()


def _text_problems(params: Params, node: Node) -> Iterable[Problem]:
    texts.read(node.out, verify=False)
    texts.require_captions(node.out, paths.prepared(params.texts[node.name].dataset))
    return ()


STAGES = (
    Declaration(
        group="extract",
        section="features",
        option="--features",
        output=paths.extracted,
        inputs=lambda params, name: [paths.prepared(params.features[name].dataset)],
        problems=_feature_problems,
        families={BACKBONES: "backbone.name"},
        reads=lambda params, name: params.features[name].backbone.params.reads(),
        by_dataset=True,
    ),
    Declaration(
        group="extract_texts",
        section="texts",
        option="--texts",
        output=paths.extracted,
        inputs=lambda params, name: [paths.prepared(params.texts[name].dataset) / captions.NAME],
        problems=_text_problems,
        families={TEXT_FEATURES: "method.name"},
        reads=lambda params, name: params.texts[name].method.params.reads(),
        by_dataset=True,
        file="text_stage",
    ),
)
