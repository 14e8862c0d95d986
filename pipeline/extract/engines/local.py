"""Engine ``local``: this process, one network, images decoded in its threads."""

from collections.abc import Iterator

from pipeline.extract.engine.job import Job
from pipeline.extract.engine.shards import Shard
from pipeline.extract.engine.work import Work


def shards(job: Job, numbers: list[int], name: str, device: str, work: Work) -> Iterator[tuple[int, Shard]]:
    """Each of ``numbers`` with its shard. name: of the features, for the progress."""
    from pipeline.core import device as devices
    from pipeline.extract.engine.compute import Computer

    what = f"extract {name}, batches of {job.node.backbone.params.batch_size}"
    return Computer(job, devices.resolve(device)).shards(numbers, what)
