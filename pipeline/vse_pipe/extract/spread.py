"""The shards of an extraction by the processes that the engine has."""

from collections.abc import Generator, Iterable, Iterator
from typing import TYPE_CHECKING

from vse_pipe.core import workers
from vse_pipe.core.console import track
from vse_pipe.core.errors import PipelineError
from vse_pipe.extract.assemble import growing
from vse_pipe.extract.job import Job, plan
from vse_pipe.extract.shards import Shard
from vse_pipe.project import paths
from vse_pipe.project.params.schema import LOCAL, EngineParams
from vse_pipe.project.params.typed import FeatureSet
from vse_pipe.project.registry import ENGINES

if TYPE_CHECKING:
    from vse_pipe.extract.compute import Computer

# A shard's number, and the shard
Finished = Generator[tuple[int, Shard], None, None]


def shards(job: Job, numbers: list[int], name: str, device: str, engine: EngineParams) -> Finished:
    """Each of ``numbers`` with its shard, in the order in which they are finished. name: of the features.

    Here by one network, images decoded in its threads; elsewhere by one a worker. Raises what computing raises and what the
    engine does.
    """
    if engine.name == LOCAL:
        from vse_pipe.core import devices
        from vse_pipe.extract.compute import Computer

        what = f"extract {name}, batches of {job.node.backbone.params.batch_size}"
        yield from Computer(job, devices.resolve_device(device)).shards(numbers, what)
        return
    asked = _Asked(name, job.node, job.seed, device, job.shards_digest)
    with ENGINES.load(engine.name).opened(engine, device):
        made = workers.each(asked, numbers, ordered=False)
        yield from track(made, len(numbers), f"extract {name}, shards")


class _Asked:
    """What a worker gets to know; network and images it finds itself."""

    def __init__(self, name: str, node: FeatureSet, seed: int, device: str, digest: str) -> None:
        self.name, self.given, self.device, self.digest = name, (node, seed), device, digest
        self.computer: Computer | None = None

    def __call__(self, numbers: Iterable[int]) -> Iterator[tuple[int, Shard]]:
        self.computer = self.computer or self._computer()
        return self.computer.shards(list(numbers))

    def _computer(self) -> "Computer":
        from vse_pipe.core import devices
        from vse_pipe.extract.compute import Computer

        device = devices.resolve_device(self.device)
        job = growing(plan(*self.given, device), paths.extracted(self.given[0].dataset, self.name))
        if job.shards_digest != self.digest:
            raise PipelineError(
                "a worker has other weights or images, or another kind of device, than the process that asks it; they must be "
                "the same on every node"
            )
        return Computer(job, device)
