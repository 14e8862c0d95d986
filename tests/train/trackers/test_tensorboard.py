import importlib.util
import json

import pytest

from tests.train.trackers.some import PARAMETERS, ROWS, interrupted, training, without
from vse_pipe.core.errors import MissingResource
from vse_pipe.train.trackers.tensorboard import Params, start

installed = importlib.util.find_spec("tensorboard") is not None


@pytest.mark.skipif(not installed, reason="needs tensorboard (extra: tensorboard)")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_event_files_have_every_epoch_once_also_of_a_training_that_went_on(folder):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    interrupted(start, Params())
    read = EventAccumulator(str(folder / "data" / "track" / "tensorboard" / "max" / "1"))
    read.Reload()
    assert set(read.Tags()["scalars"]) == {"lr", "loss", "val_rsum"}
    for name in ("loss", "val_rsum"):
        found = [(event.step, event.value) for event in read.Scalars(name)]
        assert found == [(row["epoch"], pytest.approx(row[name])) for row in ROWS]
    text = read.Tensors("parameters/text_summary")[0].tensor_proto.string_val[0].decode()
    assert json.loads(text.removeprefix("```json").removesuffix("```")) == PARAMETERS


def test_without_the_package_the_extra_is_named(folder, monkeypatch):
    without("tensorboard", monkeypatch, "torch.utils.tensorboard")
    with pytest.raises(MissingResource, match=r"tracker tensorboard needs .*'vse-pipe\[tensorboard\]'"):
        start(training(), Params())
