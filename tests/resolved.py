"""dvc.yaml as DVC resolves it for other parameters than those of this repository."""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from dvc.repo import Repo
from ruamel.yaml import YAML


@dataclass(frozen=True)
class ResolvedStage:
    """name: ``train@hal``; deps, outs: paths; params: addresses in params.yaml."""

    name: str
    cmd: str
    deps: set[str]
    params: set[str]
    outs: set[str]

    @property
    def group(self) -> str:
        return self.name.partition("@")[0]


def resolved(dvc_yaml: str, document: dict) -> list[ResolvedStage]:
    """dvc_yaml: its text; document: the content of params.yaml."""
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            Path("dvc.yaml").write_text(dvc_yaml, encoding="utf-8")
            with Path("params.yaml").open("w", encoding="utf-8") as file:
                YAML().dump(document, file)
            with Repo.init(".", no_scm=True) as repository:
                return [_stage(stage) for stage in repository.index.stages]
        finally:
            os.chdir(here)


def _stage(stage) -> ResolvedStage:
    named = {address for dep in stage.deps for address in getattr(dep, "params", None) or []}
    files = {dep.def_path for dep in stage.deps if not getattr(dep, "params", None)} - {"params.yaml"}
    return ResolvedStage(stage.addressing, stage.cmd, files, named, {out.def_path for out in stage.outs})
