"""audit: a trained run and its training pairs in, how likely each pair is mismatched out."""

from pathlib import Path

from vse_pipe.artifacts import captions, features, model_files, pairs, texts
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import IMAGE_ENCODERS, SIMILARITIES, TEXT_ENCODERS


def _inputs(params: Params, run: str) -> list[Path]:
    node = params.runs[run]
    return [
        paths.trained(run) / model_files.MODEL,
        paths.injected(node.dataset, node.noise) / pairs.NAME,
        paths.prepared(node.dataset) / captions.NAME,
        paths.extracted(node.dataset, node.features) / features.META,
        paths.extracted(node.dataset, node.texts) / texts.META,
    ]


NODES = (
    Declaration(
        group="audit",
        module="vse_pipe.audit.stage",
        option="--run",
        names=lambda params: params.report.audits,
        out=lambda params, name: paths.audited(name),
        inputs=_inputs,
        finds=(SIMILARITIES, TEXT_ENCODERS, IMAGE_ENCODERS),
    ),
)
