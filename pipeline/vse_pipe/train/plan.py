"""What `vse-pipe train` would do."""

import csv
import json
from collections.abc import Iterable
from pathlib import Path

from vse_pipe.artifacts import model_files, pairs
from vse_pipe.core.files import read_json
from vse_pipe.core.whole import partial
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params, Run
from vse_pipe.project.registry import SCHEMES
from vse_pipe.project.step import AGAIN, DONE, GOES_ON, RUNS, Earlier, Step, by_split, scaled, seconds

_HISTORY, _STATE = "history.csv", Path("last") / "state.safetensors"
_FINISHED = Path("last") / "finished.json"


def plan(params: Params, run: str, out: Path | None = None, timed: Iterable[Earlier] = ()) -> Step:
    """out: where it is trained if not in data/train/<run>/; timed: what its time is estimated from before anything else.

    Work is pairs times epochs; of a run that goes on, those that are left, as far as its parameters are what they were:
    the command itself compares everything and begins again where anything differs."""
    node, out = params.runs[run], out or paths.trained(run)
    if node.model is not None:
        state = AGAIN if (out / model_files.MODEL).is_file() else RUNS
        return Step(
            "train", run, str(out), state, because=f"nothing is trained: the model in {node.model.folder} is taken"
        )
    if not SCHEMES.traits(node.scheme.name).trains:
        state = AGAIN if (out / model_files.MODEL).is_file() else RUNS
        return Step(
            "train", run, str(out), state, because="nothing is trained: features and texts are compared as they are"
        )
    shown = paths.injected(node.dataset, node.noise) / pairs.NAME
    count, epochs = by_split(shown).get("train", 0), node.train.epochs
    at = partial(out) if (partial(out) / _STATE).is_file() else out
    done = _epochs_done(at)
    finished = at == out and (out / _FINISHED).is_file() and (out / model_files.MODEL).is_file()
    left = max(0, epochs - done)
    if finished:  # other epochs are another run, which begins anew
        left = 0 if done == epochs or (node.train.patience and done < epochs and _ended_early(out)) else epochs
    spent, because = seconds(count * left, [*timed, *(_earlier(params, one) for one in _alike(params, run))])
    state = RUNS
    if finished and not left:
        state, because = DONE, f"after {done} of {epochs} epochs, if nothing has changed since"
    elif not finished and (at / _STATE).is_file():
        state, because = GOES_ON, f"after {done} of {epochs} epochs, if nothing has changed since; {because}"
    elif (out / model_files.MODEL).is_file():
        state = AGAIN
    rows = {"pairs": count, "epochs": left}
    return Step("train", run, str(out), state, rows, 0 if state == DONE else scaled(out, 1.0), spent, because)


def _alike(params: Params, run: str) -> list[str]:
    """This run, then those whose network and scheme are the same: what an epoch takes hardly depends on the loss."""

    def work(node: Run) -> tuple:
        return (node.image, node.text, node.similarity, node.scheme, node.train.embed_size, node.features, node.texts)

    wanted = work(params.runs[run])
    return [run, *(one for one, node in params.runs.items() if one != run and work(node) == wanted)]


def _earlier(params: Params, run: str) -> Earlier:
    return Earlier(paths.trained(run), work_done(params, run, paths.trained(run)))


def work_done(params: Params, run: str, out: Path) -> int | None:
    """Pairs times epochs of the run as it was trained in ``out``."""
    node = params.runs[run]
    shown = paths.injected(node.dataset, node.noise) / pairs.NAME
    epochs = _epochs_done(out)
    return by_split(shown).get("train", 0) * epochs if shown.is_file() and epochs else None


def _ended_early(out: Path) -> bool:
    """As its config.json says, if it is finished."""
    return (out / model_files.CONFIG).is_file() and read_json(out / model_files.CONFIG).get("ended", {}).get(
        "by"
    ) == "patience"


def _epochs_done(out: Path) -> int:
    """As history.csv has them, else the header of the state that a killed run left."""
    if (out / _HISTORY).is_file():
        with (out / _HISTORY).open(encoding="utf-8", newline="") as file:
            return sum(1 for _ in csv.DictReader(file))
    if not (out / _STATE).is_file():
        return 0
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(out / _STATE, framework="numpy") as file:
            return int(json.loads((file.metadata() or {}).get("progress", "{}")).get("epoch", 0))
    except (SafetensorError, ValueError):
        return 0
