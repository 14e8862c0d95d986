"""Every artefact that params.yaml names, by what the stages declare of themselves in ``pipeline/vse_pipe/<stage>/node.py``."""

import importlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType

from vse_pipe.project import repetitions
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import Family
from vse_pipe.project.sources import SourceFiles

# Folders of pipeline/, in the order of the pipeline.
STAGES = ("prepare", "extract", "inject", "train", "embed", "evaluate", "audit", "localize", "report")


@dataclass(frozen=True)
class Declaration:
    """What a stage of dvc.yaml is, said once.

    group: its key in dvc.yaml; module: where it starts; option: of its command, before the entry's name.
    names: its entries; out: the folder an entry writes; inputs: the files it cannot do without; members: those that the
    entry names and that the stage finds by name, by family; finds: families of which it may find any member.
    plan, check: the modules of that purpose, beside ``module``; depth: of ``out`` below data/<stage>, 0 elsewhere;
    reads: the files from outside of the pipeline that an entry reads, None where no entry reads any;
    holds: whether a folder at that depth is one of its outputs, where two declarations share the depth; repeats: whether its
    entries are runs, whose seeds have a node and a folder each below the entry's.
    """

    group: str
    module: str
    option: str
    names: Callable[[Params], Iterable[str]]
    out: Callable[[Params, str], Path]
    inputs: Callable[[Params, str], list[Path]]
    members: Callable[[Params, str], dict[Family, str]] = lambda params, name: {}
    finds: tuple[Family, ...] = ()
    reads: Callable[[Params, str], Iterable[SourceFiles]] | None = None
    plan: str = "plan"
    check: str = "check"
    depth: int = 1
    holds: Callable[[Path], bool] = lambda out: True
    repeats: bool = False

    @property
    def folder(self) -> str:
        """Of the stage: below the package, below data/, and the name of its command."""
        return self.module.split(".")[1]

    def command(self, name: str) -> str:
        return f"vse-pipe {self.folder} {self.option} {name}"

    def beside(self, module: str) -> ModuleType:
        return importlib.import_module(f"vse_pipe.{self.folder}.{module}")


@dataclass(frozen=True)
class Node:
    """One entry of a declaration, or one seed of it. out: the folder it writes."""

    declaration: Declaration
    name: str
    out: Path

    @property
    def group(self) -> str:
        return self.declaration.group

    @property
    def command(self) -> str:
        """What makes it by hand."""
        return self.declaration.command(self.name)

    @property
    def stage(self) -> str:
        """As DVC addresses it."""
        return f"{self.group}@{self.entry}"

    @property
    def entry(self) -> str:
        """In params.yaml; the run of a seed."""
        return repetitions.entry(self.name)

    @property
    def advice(self) -> str:
        return f"run `dvc repro {self.stage}`"


def dvc_stage(params: Params, stage: str, name: str) -> str:
    """What DVC calls the stage ``embed`` or ``evaluate`` of a run, an ensemble or a transfer; of a seed the run's."""
    kind = "_ensembles" if name in params.ensembles else "_transfers" if name in params.transfers else ""
    return f"{stage}{kind}@{repetitions.entry(name)}"


@cache
def declarations() -> dict[str, Declaration]:
    """By group, in the order of the pipeline."""
    found = [one for stage in STAGES for one in importlib.import_module(f"vse_pipe.{stage}.node").NODES]
    return {one.group: one for one in found}


def nodes(params: Params) -> list[Node]:
    """In the order of the pipeline."""
    return [Node(one, name, one.out(params, name)) for one in declarations().values() for name in one.names(params)]


def sources(params: Params) -> dict[str, list[SourceFiles]]:
    """The files from outside of the pipeline that each stage of dvc.yaml reads, as DVC addresses it, for those that may read any.
    All seeds of a run share a stage."""
    listed: dict[str, list[SourceFiles]] = {}
    for group, declared in declarations().items():
        if declared.reads is None:
            continue
        if not declared.option:
            listed[group] = list(declared.reads(params, ""))
        for name in declared.names(params):
            stage = Node(declared, name, declared.out(params, name)).stage
            listed[stage] = [*listed.get(stage, ()), *declared.reads(params, name)]
    return {stage: list(dict.fromkeys(files)) for stage, files in listed.items()}
