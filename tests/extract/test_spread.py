"""The shards that are asked for, in order, by whoever computes them."""

from pathlib import Path

import numpy as np
import torch

from tests.extract import project
from vse_pipe.extract.job import plan
from vse_pipe.extract.stage import computed_shards
from vse_pipe.project.params.schema import EngineParams


def test_only_what_is_asked_for_in_order(tiny: Path) -> None:
    node = project.params("random_filters", batch_size=2, shard_size=3).features["small"]
    job = plan(node, 1, torch.device("cpu"))
    assert (job.size, job.count) == (4, 3)
    whole = dict(computed_shards(job, [0, 1, 2], "small", "cpu", EngineParams()))
    assert [shard.count for shard in whole.values()] == [4, 4, 1]
    some = list(computed_shards(job, [2, 0], "small", "cpu", EngineParams()))
    assert [number for number, _ in some] == [2, 0]
    for number, shard in some:
        assert np.array_equal(shard.rows.features, whole[number].rows.features)
        assert shard.failures == []
