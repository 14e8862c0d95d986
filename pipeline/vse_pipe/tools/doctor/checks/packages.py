"""Installed versions against the ranges of pyproject.toml."""

import tomllib
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

from packaging.requirements import Requirement

from vse_pipe.tools.doctor.line import FAIL, OK, Line

_NAME = "vse-pipe"
_REMEDY = "pip install '{}', in a clone `make setup`"


def look() -> list[Line]:
    """A line for each package that is missing or outside its range, one for all that are as they should be."""
    listed, good = [], []
    for requirement in requirements():
        needed = Requirement(requirement)
        name, ranges = needed.name, requirement.removeprefix(needed.name)
        if needed.marker:
            continue
        try:
            found = version(name)
        except PackageNotFoundError:
            said = f"not installed, {ranges or 'any version'} is needed"
            listed.append(Line(FAIL, name, said, _REMEDY.format(requirement)))
            continue
        # A release candidate that someone installed is in the range if its number is.
        if needed.specifier.contains(found, prereleases=True):
            good.append(f"{name} {found}")
        else:
            listed.append(Line(FAIL, name, f"{found}, outside {ranges}", _REMEDY.format(requirement)))
    return [*listed, Line(OK, "packages", ", ".join(good))] if good else listed


def requirements() -> list[str]:
    """Of pyproject.toml beside the package where it runs from its source tree, else as they were installed."""
    path = Path(__file__).parents[4] / "pyproject.toml"
    if path.is_file():
        project = tomllib.loads(path.read_text(encoding="utf-8")).get("project", {})
        if project.get("name") == _NAME:
            return project.get("dependencies", [])
    return [text for text in requires(_NAME) or [] if "extra ==" not in text]
