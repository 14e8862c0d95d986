"""The stages of dvc.yaml, as the rooms declare them in ``vse_pipe/<room>/declaration.py``, and
their nodes in params.yaml."""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from pathlib import Path
from typing import Any

from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import Family
from vse_pipe.project.sources import SourceFiles

# Folders of the package, in the order of the pipeline.
ROOMS = ("prepare", "extract", "inject", "train", "embed", "evaluate", "audit", "localize", "report")


@dataclass(frozen=True)
class Declaration:
    """A stage of dvc.yaml. Functions of an entry take params and its name; each seed of a run is an
    entry.

    group: its key in dvc.yaml, which begins with the room. section: address of its entries in
    params.yaml. option: of its command, before an entry's name. The only stage without entries has
    neither. output: the folder of an entry by its name, or by its data set and name if
    ``by_dataset``. inputs: files or folders of other stages that an entry reads. reads: its files
    from outside of the pipeline, None if no entry reads any. families: families of the members that
    the stage loads, each with the address of a member's name in an entry. Without an address or a
    name, any member may be loaded. file: module where the work begins.
    """

    group: str
    section: str
    option: str
    output: Callable[..., Path]
    inputs: Callable[[Params, str], list[Path]]
    families: dict[Family, str] = field(default_factory=dict)
    reads: Callable[[Params, str], Iterable[SourceFiles]] | None = None
    by_dataset: bool = False
    file: str = "stage"

    @property
    def room(self) -> str:
        """Its folder below the package and below data/, and its command."""
        return self.group.partition("_")[0]

    @property
    def module(self) -> str:
        return f"vse_pipe.{self.room}.{self.file}"

    def entries(self, params: Params) -> list[str]:
        """The names of the entries; one empty name if the stage has no entries."""
        return list(attrgetter(self.section)(params)) if self.section else [""]

    def node(self, params: Params, name: str) -> "Node":
        place = (self._entry(params, name).dataset, name) if self.by_dataset else (name,)
        return Node(self, name, self.output(*place))

    def stage(self, name: str) -> str:
        """The address in DVC: ``train@max``."""
        return f"{self.group}@{paths.run_entry(name)}" if self.option else self.group

    def command(self, name: str) -> str:
        return f"vse-pipe {self.room} {self.option} {name}"

    def members(self, params: Params, name: str) -> dict[Family, str]:
        """{family: member} of an entry; a transfer has the members of its run."""
        members: dict[Family, str] = {}
        for family, address in self.families.items():
            value = self._entry(params, name) if address else None
            for key in address.split("."):
                value = getattr(value, key, None)
            members |= {} if value is None else {family: value}
        return members

    def _entry(self, params: Params, name: str) -> Any:
        if self.section == "report.cleaning":
            return params.noises[name]
        return params.runs[params.trained(name)] if self.section == "transfers" else getattr(params, self.section)[name]


@dataclass(frozen=True)
class Node:
    """An entry of a declaration, or a seed of one. out: its output folder."""

    declaration: Declaration
    name: str
    out: Path

    @property
    def group(self) -> str:
        return self.declaration.group

    @property
    def stage(self) -> str:
        return self.declaration.stage(self.name)

    @property
    def entry(self) -> str:
        """The name in params.yaml: a seed's run."""
        return paths.run_entry(self.name)


@cache
def declarations() -> dict[str, Declaration]:
    """By group, in the order of the pipeline."""
    rooms = [importlib.import_module(f"vse_pipe.{room}.declaration") for room in ROOMS]
    return {stage.group: stage for room in rooms for stage in room.STAGES}


def nodes(params: Params) -> list[Node]:
    """In the order of the pipeline."""
    stages = [stage for stage in declarations().values() if stage.option]
    return [stage.node(params, name) for stage in stages for name in stage.entries(params)]


def sources(params: Params) -> dict[str, list[SourceFiles]]:
    """{address in DVC: outside files that the stage reads}, for stages that may read any. All seeds
    of a run share a stage."""
    listed: dict[str, list[SourceFiles]] = {}
    for stage in declarations().values():
        if reads := stage.reads:
            for name in stage.entries(params):
                listed.setdefault(stage.stage(name), []).extend(reads(params, name))
    return listed
