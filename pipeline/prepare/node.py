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


def _inputs(params: Params, name: str) -> list[Path]:
    """The source, and the file that its way to propose boxes reads."""
    node = params.datasets[name]
    if not FORMATS.traits(node.format.name).proposes:
        return [Path(node.source)]
    own = node.format.params
    given = own.options.get(PROPOSALS.traits(own.proposals).reads)
    return [Path(node.source), *([Path(given)] if given else [])]


NODES = (
    Declaration(
        group="prepare",
        module="pipeline.prepare.stage",
        option="--dataset",
        names=lambda params: params.datasets,
        out=lambda params, name: paths.prepared(name),
        inputs=_inputs,
        members=_members,
        finds=(FORMATS, PROPOSALS),
    ),
)
