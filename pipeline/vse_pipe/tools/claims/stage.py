"""claims: a file of claims, judged by the evaluations of the project."""

from pathlib import Path

from vse_pipe.core.errors import MissingResource, missing
from vse_pipe.project.params.typed import Params
from vse_pipe.report.claims import schema, verdict
from vse_pipe.report.claims.schema import ClaimsFile
from vse_pipe.report.claims.verdict import Judged


def find(name: str, start: Path) -> Path:
    """A packaged file of claims by name, or a file as seen from ``start``. Raises MissingResource with the near miss."""
    path = start / name
    if path.is_file() or name not in schema.PACKAGED:
        if not path.is_file():
            raise MissingResource(missing(f"{name}: no such file of claims", name, schema.PACKAGED))
        return path
    return schema.PACKAGED[name]


def claims(
    params: Params, path: Path, resamples: int, seed: int, skip_unknown: bool
) -> tuple[ClaimsFile, list[Judged]]:
    """The file and a verdict on each of its claims. Raises as ``schema.read`` and ``verdict.judged``."""
    file = schema.read(path)
    return file, verdict.judged(params, file, resamples, seed, skip_unknown)
