import csv
import importlib.util
import json

import pytest
from ruamel.yaml import YAML

from tests.train.trackers.some import PARAMETERS, ROWS, interrupted, training, without
from vse_pipe.core.errors import MissingResource
from vse_pipe.train.trackers.dvclive import Params, start


@pytest.mark.skipif(importlib.util.find_spec("dvclive") is None, reason="needs dvclive (extra: dvclive)")
def test_files_have_every_epoch_once_also_of_a_training_that_went_on(folder):
    interrupted(start, Params())
    out = folder / "data" / "track" / "dvclive" / "max" / "1"
    with (out / "plots" / "metrics" / "val_rsum.tsv").open() as file:
        found = [(int(row["step"]), float(row["val_rsum"])) for row in csv.DictReader(file, delimiter="\t")]
    assert found == [(row["epoch"], row["val_rsum"]) for row in ROWS]
    last = json.loads((out / "metrics.json").read_text())
    assert (last["step"], last["loss"]) == (3, pytest.approx(ROWS[-1]["loss"]))
    assert YAML(typ="safe").load(out / "params.yaml") == PARAMETERS
    assert not list(folder.rglob("dvc.yaml"))


def test_without_the_package_the_extra_is_named(folder, monkeypatch):
    without("dvclive", monkeypatch)
    with pytest.raises(MissingResource, match=r"tracker dvclive needs .*'vse-pipe\[dvclive\]'"):
        start(training(), Params())
