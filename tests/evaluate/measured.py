"""The run of the ``project`` of these tests, evaluated."""

from tests.toy_project import load_params
from vse_pipe.evaluate.stage import evaluate
from vse_pipe.project.params.typed import Params

RGM = {"rgm": {"grid": [1.0, 1.5, 3.0]}}


def params(root, inference=RGM, **options) -> Params:
    return load_params(root, evaluate=options, inference=inference)


def measured(options: Params, inference: str) -> dict:
    return evaluate(options, "sum", [inference], "cpu")[inference]
