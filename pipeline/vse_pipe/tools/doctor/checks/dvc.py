"""DVC's settings, as all its configuration files together make them."""

import shutil
from pathlib import Path

from vse_pipe.project.paths import root_around
from vse_pipe.tools.doctor.line import FAIL, OK, WARN, Line

_LINKS = ("reflink", "hardlink", "symlink")


def look() -> list[Line]:
    project = root_around()
    if project is None:
        return []
    if not (project / ".dvc").is_dir():
        return [Line(FAIL, "dvc", "this project has no .dvc", "run `dvc init`, or `git checkout .dvc`")]
    from dvc.config import Config

    config = Config(str(project / ".dvc"), validate=True)
    lines = [_analytics(config), _links(config), _template(config, project)]
    if shutil.which("dvc") is None:
        remedy = "activate the environment: `source .venv/bin/activate`"
        lines.append(Line(WARN, "dvc", "the command is not on the PATH", remedy))
    return lines


def _analytics(config: dict) -> Line:
    if config["core"].get("analytics", True):
        return Line(WARN, "dvc analytics", "on: DVC reports its use", "`dvc config core.analytics false` turns it off")
    return Line(OK, "dvc analytics", "off")


def _links(config: dict) -> Line:
    kinds = config["cache"].get("type") or ["reflink", "copy"]
    found = ", ".join(kinds)
    if not any(kind in _LINKS[1:] for kind in kinds):
        remedy = "`dvc config cache.type reflink,hardlink,copy` keeps large features on the disk once"
        return Line(WARN, "dvc cache.type", f"{found}: outputs may lie on the disk twice", remedy)
    return Line(OK, "dvc cache.type", found)


def _template(config: dict, project: Path) -> Line:
    """Without its template `dvc plots` ends with an error; nothing else needs it."""
    template = config.get("plots", {}).get("html_template")
    if not template:
        remedy = "set plots.html_template to a page that embeds it, to read plots offline"
        return Line(WARN, "dvc plots", "pages of `dvc plots` load Vega from the network", remedy)
    if not (project / ".dvc" / template).is_file() and not Path(template).is_file():
        return Line(WARN, "dvc plots", f"plots.html_template {template} does not exist", "`vse-pipe plots` writes it")
    return Line(OK, "dvc plots", f"pages are made from {template}")
