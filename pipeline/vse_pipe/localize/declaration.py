"""localize: the embeddings of phrases and regions in, the box of each phrase out."""

from vse_pipe.project import paths
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.project.stages import Declaration

STAGES = (
    Declaration(
        group="localize",
        section="report.localized",
        option="--run",
        output=paths.localized,
        inputs=lambda params, name: [paths.prepared(params.runs[name].dataset), paths.embedded(name)],
        families={SIMILARITIES: ""},
    ),
)
