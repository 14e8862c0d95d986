"""The documentation site: ``python -m tests.docs.site`` writes its pages below build/pages, in the folders that they have in
the repository, and builds them into build/site. The README is the first page, notebooks become pages, parameters.md and
artefacts.md are made from the code, and links to source files lead to GitHub."""

import base64
import importlib
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from functools import partial
from pathlib import Path

import vse_pipe as vp
from tests.docs import reference
from tests.docs.pages import name
from tests.rules.sources import ROOT
from vse_pipe.api.criteria import Inference

PAGES = ROOT / "build/pages"
SITE = ROOT / "build/site"
# The modules of the Python door, and the section of parameters.md with their members' options.
DOOR = {"ranking": None, "hubs": None, "criteria": "inference", "losses": "loss", "noise": None, "models": None}
_LINK = re.compile(r"^```.*?^```$|(?<=\]\()(?!\w+:)[^)#\s]+(?=[)#])", re.MULTILINE | re.DOTALL)


def write() -> None:
    """Every page and picture, anew."""
    shutil.rmtree(PAGES, ignore_errors=True)
    sources = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]["Homepage"] + "/blob/main/"
    texts = {path: path.read_text() for folder in (".", "docs", "reports") for path in ROOT.glob(f"{folder}/*.md")}
    texts |= {ROOT / "docs" / file: make() for file, make in reference.PAGES.items()}
    texts |= {path: _notebook(path) for path in ROOT.glob("docs/notebooks/*.ipynb")}
    for path, text in texts.items():
        _write(name(path), _LINK.sub(partial(_target, page=path, sources=sources), text))
    for path in [*ROOT.glob("docs/*.png"), *ROOT.glob("reports/figures/*.svg")]:
        _write(name(path), path.read_bytes())
    for module, section in DOOR.items():
        _write(f"api/{module}.md", _reference(module, section))


def build() -> int:
    """The exit status of Zensical: 1 for a broken link or an unknown name."""
    return subprocess.run([sys.executable, "-m", "zensical", "build", "--clean", "--strict"], cwd=ROOT).returncode


def _target(link: re.Match, page: Path, sources: str) -> str:
    """A link as it is on the site; code stays."""
    path = link.group()
    if path.startswith("```"):
        return path
    if path.endswith((".md", ".png", ".svg", ".ipynb")):
        return _page(path)
    return sources + os.path.relpath(page.parent / path, ROOT)


def _page(path: str) -> str:
    """Where a page of the repository is on the site."""
    return path.replace("README.md", "index.md").replace(".ipynb", ".md")


def _reference(title: str, section: str | None) -> str:
    """The page of a module: its docstring, then its public names in the order of the file, for mkdocstrings to fill."""
    module = importlib.import_module(f"vse_pipe.api.{title}")
    parts = [
        f"# {title.capitalize()}",
        _directive(module.__name__, members=False, show_root_heading=False, show_root_toc_entry=False),
    ]
    for member, value in vars(module).items():
        is_code = inspect.isclass(value) or inspect.isfunction(value)
        if is_code and value.__module__ == module.__name__ and not member.startswith("_"):
            prefix = "vp." if member in vp.__all__ else f"vp.{title}." if title in vp.__all__ else ""
            heading = f"{prefix}{member}"
            parts.append(_directive(f"{module.__name__}.{member}", heading=heading, toc_label=heading))
            if section and value not in (Inference, vp.losses.Loss):  # no members of a family
                parts.append(f"[The options](../docs/parameters.md#{section}-{value().name}).")
    return "\n\n".join(parts) + "\n"


def _directive(path: str, **options: str | bool) -> str:
    return f"::: {path}\n    options: {json.dumps(options)}"


def _notebook(path: Path) -> str:
    """The notebook as Markdown; its figures become files beside the page, described by the first line of their code."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {"text/plain": output.get("text")})
            data = {kind: "".join(lines) for kind, lines in data.items()}
            if "image/png" in data:
                figure = f"{path.stem}-{len(parts)}.png"
                _write(name(path.with_name(figure)), base64.b64decode(data["image/png"]))
                parts.append(f"![{source.splitlines()[0].removeprefix('# ')}]({figure})")
            elif "text/html" in data:  # a table, in the site's style
                table = re.sub(r"<style.*?</style>\n", "", data["text/html"], flags=re.DOTALL)
                parts.append(table.replace(' border="1" class="dataframe"', ""))
            else:
                parts.append(f"```text\n{data['text/plain'].rstrip()}\n```")
    return "\n\n".join(parts) + "\n"


def _write(path: str, content: str | bytes) -> None:
    place = PAGES / _page(path)
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content.encode() if isinstance(content, str) else content)


if __name__ == "__main__":
    write()
    sys.exit(build())
