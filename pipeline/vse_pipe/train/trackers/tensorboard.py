"""TensorBoard: event files in data/track/tensorboard/<run>."""

import json
import shutil
from typing import Any

from vse_pipe.core.extras import absent
from vse_pipe.train.engine.tracking import Rows, Training
from vse_pipe.train.trackers.options import TensorboardOptions as Params


def start(training: Training, params: Params) -> "_Events":
    """One folder a training, written anew by a call that goes on: event files of a killed one may lack their end."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as error:
        raise absent("tracker tensorboard", "tensorboard", "tensorboard") from error
    folder = training.folder / "tensorboard" / training.place
    shutil.rmtree(folder, ignore_errors=True)
    writer = SummaryWriter(str(folder))
    writer.add_text("parameters", f"```json\n{json.dumps(training.parameters, indent=2, sort_keys=True)}\n```")
    return _Events(writer)


class _Events:
    def __init__(self, writer: Any) -> None:
        self._writer, self._written = writer, 0

    def follow(self, rows: Rows) -> None:
        for row in rows[self._written :]:
            for name, value in row.items():
                if name != "epoch":
                    self._writer.add_scalar(name, value, int(row["epoch"]))
        self._written = len(rows)
        self._writer.flush()

    def close(self, finished: bool) -> None:
        self._writer.close()
