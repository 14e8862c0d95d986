"""Packages that are not installed with the pipeline, each an extra of pyproject.toml."""

from vse_pipe.core.errors import MissingResource


def absent(what: str, package: str, extra: str) -> MissingResource:
    """what: that needs the package, as a user asks for it: ``--to faiss``."""
    return MissingResource(
        f"{what} needs the package {package}, which is not installed: pip install 'vse-pipe[{extra}]'"
    )
