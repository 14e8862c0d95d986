"""prepare: a data set's raw files in, its images and captions out."""

from pathlib import Path

from pipeline.project import paths
from pipeline.project.nodes import Declaration
from pipeline.project.registry import FORMATS

NODES = (
    Declaration(
        group="prepare",
        module="pipeline.prepare.stage",
        option="--dataset",
        names=lambda params: params.datasets,
        out=lambda params, name: paths.prepared(name),
        inputs=lambda params, name: [Path(params.datasets[name].source)],
        members=lambda params, name: {FORMATS: params.datasets[name].format.name},
        finds=(FORMATS,),
    ),
)
