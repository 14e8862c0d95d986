"""Weights & Biases: a run with parameters and figures, kept on this machine until `wandb sync` sends it, or sent at once."""

from typing import Any

from vse_pipe.core.extras import absent
from vse_pipe.train.engine.tracking import Rows, Training
from vse_pipe.train.trackers.options import WandbOptions as Params

_ID = 32


def start(training: Training, params: Params) -> "_WandbRun":
    """The run of this training, begun or taken up again: its id is the beginning of the training's fingerprint.

    Offline each call leaves a folder of its own; `wandb sync --append` puts those of one id together.
    """
    try:
        import wandb
    except ImportError as error:
        raise absent("tracker wandb", "wandb", "wandb") from error
    training.folder.mkdir(parents=True, exist_ok=True)
    run = wandb.init(
        project=params.project,
        entity=params.entity,
        name=training.name,
        id=training.mark[:_ID],
        config=training.parameters,
        dir=str(training.folder),
        mode=params.mode,
        resume="allow",
        settings=wandb.Settings(silent=True, console="off"),
    )
    return _WandbRun(run)


class _WandbRun:
    def __init__(self, run: Any) -> None:
        self._run, self._written = run, -1

    def follow(self, rows: Rows) -> None:
        if self._written < 0:  # the rows of earlier calls, which went to the run then
            self._written = len(rows)
        for row in rows[self._written :]:
            self._run.log({name: value for name, value in row.items() if name != "epoch"}, step=int(row["epoch"]))
        self._written = len(rows)

    def close(self, finished: bool) -> None:
        self._run.finish(exit_code=0 if finished else 1)
