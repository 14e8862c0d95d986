"""What lies below data/ and reports/ that params.yaml no longer names, and outputs made from what has changed since."""

from pathlib import Path

from vse_pipe.artifacts import captions, evaluation, features, images, model_files, pairs
from vse_pipe.core.files import read_json
from vse_pipe.project import paths
from vse_pipe.project.lock import Lock
from vse_pipe.project.nodes import beside_data, nodes, sources
from vse_pipe.project.params.typed import Params
from vse_pipe.project.problems import DIGEST, NOTE, Problem, collected
from vse_pipe.project.sources import SourceFiles, listing, places

_SHOWN = 3
# Each output of a stage has one of these.
_WRITTEN = (images.NAME, captions.NAME, features.META, pairs.NAME, model_files.CONFIG, evaluation.METRICS)


def left_over(params: Params) -> list[Problem]:
    """Notes: nothing reads these, so nothing is wrong."""
    known = {node.out for node in nodes(params)}
    found = []
    for path in beside_data():
        if path.name.endswith(".partial"):
            found.append(
                Problem(
                    NOTE,
                    str(path),
                    "left by a call that was killed",
                    "the next call that has work to do goes on with it or removes it",
                )
            )
        elif path.is_dir() and path not in known and not _holds(path, known):
            found.append(Problem(NOTE, str(path), "params.yaml does not name it", _unneeded(path)))
    for name in params.evaluated():
        for path in sorted(paths.evaluations(name).glob("*")):
            if path.is_dir() and path.name not in params.grid.inferences and not path.name.endswith(".partial"):
                what = "a criterion that grid.inferences does not name"
                found.append(Problem(NOTE, str(path), what, _unneeded(path)))
    return found


def _unneeded(path: Path) -> str:
    """What to do with a folder that no entry needs; one without a file of any stage may hold data of the user's."""
    if any((path / name).is_file() for name in _WRITTEN):
        return f"`rm -r {path}` if you need it no longer"
    return f"no stage wrote it; files of your own are safe outside of {path.parts[0]}/{path.parts[1]}/"


def _holds(path: Path, known: set[Path]) -> bool:
    return any(path in one.parents for one in known)


def stale(params: Params, lock: Lock, skip: set[str]) -> list[Problem]:
    """Outputs that are there and that DVC made from other parameters, code or inputs than there are now.

    skip: stages about which something was said already.
    """
    found = []
    outside = sources(params)
    for node in nodes(params):
        if node.stage in skip or node.stage not in lock.stages or not node.out.exists():
            continue
        listed = str(paths.sources(node.stage))
        changed = [name for name in lock.changed(node.stage) if name != listed]
        changed += _changed_sources(lock.text(node.stage, listed), outside.get(node.stage, []))
        if changed:
            found.append(Problem(DIGEST, str(node.out), f"stale: {_listed(changed)} changed since", node.advice))
    return found + report(params)


def _changed_sources(recorded: str | None, groups: list[SourceFiles]) -> list[str]:
    """The places of files from outside that are not what they were when DVC ran the stage. recorded: their list then, None where it
    is nowhere."""
    if recorded is None:
        return []
    now, before = places(listing(groups, recorded, write=False)), places(recorded)
    return [place for place in now.keys() | before.keys() if now.get(place) != before.get(place)]


def report(params: Params) -> list[Problem]:
    """reports/metrics.json must speak of the runs of params.yaml and of no other, and of the data they were evaluated on."""
    path = paths.REPORTS / "metrics.json"
    found: list[Problem] = []
    if not path.is_file() or not any(paths.evaluations(run).is_dir() for run in _measured(params)):
        return []
    with collected(found):
        figures = read_json(path)
        wrong = sorted(set(figures) ^ {*params.named(_measured(params))})
        if wrong:
            what = f"stale: runs that only it or only params.yaml has: {', '.join(wrong[:_SHOWN])}"
            found.append(Problem(DIGEST, str(path), what, "run `vse-pipe report`"))
        elif other := [run for run in figures if any(_other_data(figures[run], one) for one in params.models(run))]:
            what = f"figures of other data than was evaluated here: {_listed(other)}"
            found.append(Problem(DIGEST, str(path), what, "run `vse-pipe evaluate`, then `vse-pipe report`"))
    return found


def _measured(params: Params) -> list[str]:
    return [name for name in params.evaluated() if not captions.absent(paths.prepared(params.dataset(name)))]


def _other_data(figures: object, run: str) -> bool:
    if not isinstance(figures, dict):
        return True
    files = [paths.evaluated(run, criterion) / evaluation.METRICS for criterion in sorted(set(figures) - {"data"})]
    return any(read_json(file).get("data") != figures.get("data") for file in files if file.is_file())


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
