"""The run of the ``project`` of these tests, evaluated."""

from pipeline.evaluate.stage import evaluate
from pipeline.project.params.typed import Params
from tests.toy_project import load_params

RGM = {"rgm": {"grid": [1.0, 1.5, 3.0]}}


def params(root, inference=RGM, **options) -> Params:
    return load_params(root, evaluate=options, inference=inference)


def measured(options: Params, inference: str) -> dict:
    return evaluate(options, "sum", [inference], "cpu")[inference]
