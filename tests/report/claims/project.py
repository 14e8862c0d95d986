"""A project whose runs have seeds, histories and evaluations drawn at random, and claims about them."""

from pathlib import Path

from ruamel.yaml import YAML

from tests.report.claims.test_converged import write_ended
from tests.tools.compare import project
from tests.toy_project import PARAMS, write_params
from vse_pipe.project import paths

SEEDS = (1, 2, 3)


def write(root: Path, **more: object) -> Path:
    """Runs weak and strong with three seeds, lone with none; ``more``: keys of the file of claims. In the working directory."""
    node = dict(PARAMS["runs"]["sum"])
    runs = {"weak": {**node, "seeds": list(SEEDS)}, "strong": {**node, "seeds": list(SEEDS)}, "lone": node}
    write_params(root, runs=runs, grid={"inferences": ["nns", "csls"]})
    if not paths.evaluations("lone").is_dir():
        _evaluate()
    path = root / "claims.yaml"
    with path.open("w", encoding="utf-8") as file:
        YAML().dump(more or {"claims": [claim()]}, file)
    return path


def _evaluate() -> None:
    for number, (run, quality) in enumerate({"weak": 0.3, "strong": 0.9}.items()):
        for seed in SEEDS:
            project.write_run(f"{run}/{seed}", "nns", "csls", images=60, quality=quality, seed=10 * number + seed)
            write_ended(f"{run}/{seed}", converged=True)
    project.write_run("lone", "nns", images=60, quality=0.6, seed=40)
    write_ended("lone", converged=True)


def claim(**changes: object) -> dict:
    return {"text": "strong beats weak", "source": "Table 1", "left": "strong", "right": "weak", **changes}
