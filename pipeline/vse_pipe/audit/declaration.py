"""audit: a trained run and its training pairs, or the pairs of a noise alone in, how likely each
pair is mismatched out."""

from pathlib import Path

from vse_pipe.artifacts import captions, images
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS, TEXT_FEATURES
from vse_pipe.project.stages import Declaration
from vse_pipe.train.declaration import inputs


def features_of(params: Params, dataset: str) -> list[str]:
    """The names of the features of a data set, in the order of params.yaml."""
    return [name for name, node in params.features.items() if node.dataset == dataset]


def text_vectors_of(params: Params, dataset: str) -> str | None:
    """The first texts of the data set that are vectors and no counts of words."""
    for name, node in params.texts.items():
        gives = TEXT_FEATURES.traits(node.method.name).gives
        is_more = gives == "vectors" and node.method.name not in ("tfidf", "hglmm")
        if node.dataset == dataset and is_more:
            return name
    return None


def _inputs_of_pairs(params: Params, noise: str) -> list[Path]:
    dataset = params.noises[noise].dataset
    vectors = text_vectors_of(params, dataset)
    extracted = [*features_of(params, dataset)[:1], *([vectors] if vectors else [])]
    folders = [paths.extracted(dataset, name) for name in extracted]
    prepared = paths.prepared(dataset)
    return [prepared / images.NAME, prepared / captions.NAME, *folders, paths.injected(dataset, noise)]


STAGES = (
    Declaration(
        group="audit",
        section="report.audits",
        option="--run",
        output=paths.audited,
        inputs=lambda params, name: [*inputs(params, name), paths.trained(name)],
        families=dict.fromkeys((SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS), ""),
    ),
    Declaration(
        group="audit_pairs",
        section="report.cleaning",
        option="--noise",
        output=paths.audited_pairs,
        inputs=_inputs_of_pairs,
        by_dataset=True,
        file="data",
    ),
)
