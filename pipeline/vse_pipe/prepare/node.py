"""prepare: a data set's raw files in, its images and captions out."""

from pathlib import Path

from vse_pipe.core import urls
from vse_pipe.project import paths
from vse_pipe.project.nodes import Declaration
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import FORMATS, PROPOSALS, Family
from vse_pipe.project.sources import SourceFiles


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


def _reads(params: Params, name: str) -> list[SourceFiles]:
    node = params.datasets[name]
    own = node.format.params
    if not FORMATS.traits(node.format.name).proposes:
        return own.reads(urls.place(node.source))
    # Its source is the output of another stage, which dvc.yaml names.
    return PROPOSALS.options(own.proposals).model_validate(own.options).reads()


NODES = (
    Declaration(
        group="prepare",
        module="vse_pipe.prepare.stage",
        option="--dataset",
        names=lambda params: params.datasets,
        out=lambda params, name: paths.prepared(name),
        inputs=_inputs,
        reads=_reads,
        members=_members,
        finds=(FORMATS, PROPOSALS),
    ),
)
