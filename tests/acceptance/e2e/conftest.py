"""A clone of this repository's working tree with a pipeline small enough for a test."""

import pytest

from tests.small_project import Project, clone

SMALL = [
    "datasets.shapes.train=60",
    "datasets.shapes.val=20",
    "datasets.shapes.test=20",
    "train.epochs=2",
    "train.embed_size=16",
    "train.batch_size=32",
    "grid.inferences=[nns, is+rgm]",
    "runs.max=null",
    "report.examples=2",
    "report.audits=[hal]",
    "evaluate.resamples=20",
    "ensembles={both: {first: sum, second: hal}}",
    "datasets.other={format: shapes, source: pipeline/vse_pipe/prepare/scenes, train: 8, val: 4, test: 12}",
    "features.other={dataset: other, backbone: random_filters}",
    "transfers={moved: {run: hal, dataset: other}}",
]


@pytest.fixture(scope="module")
def project(tmp_path_factory) -> Project:
    return clone(tmp_path_factory.mktemp("clone") / "project", SMALL)
