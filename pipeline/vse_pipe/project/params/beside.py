"""evaluate.judgements and evaluate.labels against the data sets that runs are on: an id of one means nothing in another."""

from collections.abc import Iterator

from vse_pipe.core.errors import unknown
from vse_pipe.project.params.measuring import BESIDE, EvaluateParams
from vse_pipe.project.params.typed import Params


def problems(params: Params) -> Iterator[tuple[str, str]]:
    """(address, what is wrong there) of every mistake."""
    measured = dict.fromkeys(map(params.dataset, (*params.runs, *params.transfers)))
    for key in BESIDE:
        given = getattr(params.evaluate, key)
        if isinstance(given, str) and len(measured) > 1:
            text = f"runs are on several data sets, {', '.join(measured)}; say which the file is of, as {{{next(iter(measured))}: {given}}}"
            yield f"evaluate.{key}", text
        for name in given if isinstance(given, dict) else ():
            if name not in params.datasets:
                yield f"evaluate.{key}.{name}", unknown("data set", name, sorted(params.datasets))
    yield from unnamed(params.evaluate)


def without_project(evaluate: EvaluateParams) -> Iterator[tuple[str, str]]:
    """The same where vectors come from files."""
    for key in BESIDE:
        if isinstance(getattr(evaluate, key), dict):
            yield f"evaluate.{key}", "names data sets, and vectors from files are of none; give the file alone"
    yield from unnamed(evaluate)


def unnamed(evaluate: EvaluateParams) -> Iterator[tuple[str, str]]:
    given = [getattr(evaluate, key) for key in BESIDE]
    files = {file for one in given for file in (one.values() if isinstance(one, dict) else [one])}
    for path in evaluate.sha256:
        if path not in files:
            yield f"evaluate.sha256.{path}", f"neither {' nor '.join(BESIDE)} name that file"
