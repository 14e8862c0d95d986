"""check: params.yaml, dvc.yaml and what lies below data/, without a GPU and without torch."""

from dataclasses import dataclass

from vse_pipe.core.errors import ParamsError
from vse_pipe.papers import rows
from vse_pipe.project.lock import Lock
from vse_pipe.project.nodes import nodes
from vse_pipe.project.params.document import read_document, with_overrides
from vse_pipe.project.params.load import load
from vse_pipe.project.paths import PARAMS as PARAMS_YAML
from vse_pipe.project.problems import ARTEFACT, PARAMS, Problem
from vse_pipe.tools.check import dvc_yaml, leftover


@dataclass(frozen=True)
class Checked:
    """artefacts: how many of ``named`` are there and were looked at."""

    problems: list[Problem]
    artefacts: int
    named: int


def check(overrides: list[str]) -> Checked:
    """Everything that can be told without computing anything, in the working directory. Reads and never writes.

    Large files are opened and not read through: whether their bytes have changed, `dvc status` says.
    """
    try:
        params = load(PARAMS_YAML, overrides, further=[rows.problems])
    except ParamsError as error:
        return Checked([_of_params(text) for text in error.problems], 0, 0)
    document = with_overrides(read_document(PARAMS_YAML), overrides, PARAMS_YAML.name)
    found = dvc_yaml.problems(params, document)
    named = nodes(params)
    there, touched = [node for node in named if node.out.exists()], set()
    for node in there:
        own = node.declaration.beside(node.declaration.check).problems(params, node)
        found += own
        touched |= {node.stage} if any(problem.status for problem in own) else set()
    try:
        found += leftover.stale(params, Lock(document), touched)
    except ParamsError as error:
        found += [Problem(ARTEFACT, "dvc.lock", text, "`git checkout dvc.lock`") for text in error.problems]
    # A damaged table is met by everything that reads it.
    once = list(dict.fromkeys([*found, *leftover.left_over(params)]))
    return Checked(once, len(there), len(named))


def _of_params(text: str) -> Problem:
    """``params.yaml train.epoch: unknown key; did you mean ...``"""
    address, _, what = text.partition(": ")
    return Problem(PARAMS, address, what)
