"""The section engine, and what the command line changes of it."""

from pathlib import Path

import pytest
from ruamel.yaml import YAML

from tests.rules.sources import ROOT
from vse_pipe.core.errors import ParamsError, UnknownMember, UsageError
from vse_pipe.project.params.load import load
from vse_pipe.project.params.schema import EngineParams

RAY = EngineParams(name="ray", workers=4, address="auto")


def test_the_command_line_changes_what_it_names() -> None:
    assert EngineParams().changed(None, None, None) == EngineParams(
        name="local", workers=1, address="local", memory=2048
    )
    assert RAY.changed(None, 2, None) == EngineParams(name="ray", workers=2, address="auto")
    assert EngineParams().changed("ray", 3, None) == EngineParams(name="ray", workers=3, address="local")
    assert RAY.changed("local", None, None).name == "local"


def test_refuses_workers_without_ray_and_unknown_engines() -> None:
    for options in [(2, None), (None, "auto")]:
        with pytest.raises(UsageError, match="--workers and --address belong to --engine ray"):
            RAY.changed("local", *options)
    with pytest.raises(UsageError, match="--workers 0: expected 1 or more"):
        RAY.changed(None, 0, None)
    with pytest.raises(UnknownMember, match="unknown engine 'rya'; did you mean 'ray'"):
        RAY.changed("rya", None, None)


def test_params_yaml_names_it(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text((ROOT / "params.yaml").read_text() + "\nengine: {name: ray, workers: 2}\n")
    assert load(path).engine == EngineParams(name="ray", workers=2)
    with pytest.raises(
        ParamsError, match=r"engine.name: unknown engine 'rya'; did you mean 'ray'\? known: local, ray$"
    ):
        load(path, ["engine.name=rya"])


def test_no_stage_depends_on_it() -> None:
    stages = YAML(typ="safe").load((ROOT / "dvc.yaml").read_text())["stages"].values()
    named = [key for stage in stages for key in stage.get("do", stage).get("params", [])]
    assert len(named) > 20
    assert [key for key in named if str(key).startswith("engine")] == []
