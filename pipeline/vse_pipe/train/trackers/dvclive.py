"""DVCLive: metrics.json, params.yaml and a table of each figure in data/track/dvclive/<run>."""

from typing import Any

from vse_pipe.core.extras import absent
from vse_pipe.train.engine.tracking import Rows, Training
from vse_pipe.train.trackers.options import DvcliveOptions as Params


def start(training: Training, params: Params) -> "_Live":
    """One folder a training, written anew by a call that goes on: plain files for DVC's extension of VS Code and `dvc plots`.

    No experiment of DVC is saved, for `dvc exp run` does that.
    """
    try:
        from dvclive import Live
    except ImportError as error:
        raise absent("tracker dvclive", "dvclive", "dvclive") from error
    live = Live(str(training.folder / "dvclive" / training.place), save_dvc_exp=False, dvcyaml=None, report=None)
    live.log_params(training.parameters)
    return _Live(live)


class _Live:
    def __init__(self, live: Any) -> None:
        self._live, self._written = live, 0

    def follow(self, rows: Rows) -> None:
        for row in rows[self._written :]:
            self._live.step = int(row["epoch"])
            for name, value in row.items():
                if name != "epoch":
                    self._live.log_metric(name, value)
        self._written = len(rows)
        self._live.make_summary()

    def close(self, finished: bool) -> None:
        self._live.end()
