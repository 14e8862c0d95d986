"""prepare: a data set's raw files in, its images and captions out."""

from pathlib import Path

from pipeline.project import paths
from pipeline.project.nodes import Declaration
from pipeline.project.params.typed import Params
from pipeline.project.registry import FORMATS, PROPOSALS, Family


def _members(params: Params, name: str) -> dict[Family, str]:
    chosen = params.datasets[name].format
    return {FORMATS: chosen.name} | (
        {PROPOSALS: chosen.params.proposals} if FORMATS.traits(chosen.name).proposes else {}
    )


NODES = (
    Declaration(
        group="prepare",
        module="pipeline.prepare.stage",
        option="--dataset",
        names=lambda params: params.datasets,
        out=lambda params, name: paths.prepared(name),
        inputs=lambda params, name: [Path(params.datasets[name].source)],
        members=_members,
        finds=(FORMATS, PROPOSALS),
    ),
)
