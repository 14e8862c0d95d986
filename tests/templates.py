"""The dvc.yaml and the workflow of projects that `vse-pipe init` makes, from those of this repository:
`python -m tests.templates` writes them anew. They call the installed package, not code of the repository."""

import re

from tests.rules.sources import ROOT
from vse_pipe.project import paths
from vse_pipe.tools.init import TEMPLATE

_HEAD = f"""\
# Written by `vse-pipe init`; `vse-pipe init --upgrade` writes it anew, as a newer version has it.
# Every entry under datasets, features, texts, noises, teachers, runs, ensembles and transfers of params.yaml is one cached stage. `code` runs each time and
# lists below {paths.CODE} what each stage runs of the installed package, so that an upgrade runs again what it changes and nothing else.
vars:
  - cli: PATH=$PATH:.venv/bin vse-pipe       # found without activating .venv too, as in `.venv/bin/dvc repro`
stages:
  code:
    cmd: ${{cli}} code
    always_changed: true
    outs: [{paths.CODE}]
"""
_CODE = re.compile(r"^ +- pipeline/.*\n|, \"?pipeline/[^,\]]+(?=[,\]])", flags=re.MULTILINE)


def stages_text() -> str:
    """The text of a project's dvc.yaml: the template without this repository's code, with lists of modules instead."""
    _, _, stages = (ROOT / "dvc.yaml").read_text(encoding="utf-8").partition("\nstages:\n")
    lines, stage = [_HEAD], ""
    for line in _CODE.sub("", stages).splitlines():
        if match := re.fullmatch(r"  (\w+):", line):
            stage = match[1]
        elif match := re.search(r"^ +cmd:.* (\$\{\w+\})$", line):
            stage += f"@{match[1]}"
        line = re.sub(r"^( +)deps:$", rf"\1deps:\n\1  - {paths.code(stage)}", line)
        line = line.replace("deps: [", f'deps: ["{paths.code(stage)}", ')
        lines.append(re.sub(r"pipeline/vse_pipe/report/plots/(\w+)\.json", r"\1", line))
    return "\n".join(lines) + "\n"


_SET_UP = f"""\
        run: |
          python -m venv .venv
          .venv/bin/pip install --requirement {paths.REQUIREMENTS}
          .venv/bin/vse-pipe plots
"""


def workflow_text() -> str:
    """The text of a project's workflow, which installs the package and calls dvc instead of make."""
    text = (ROOT / ".github/workflows/experiments.yml").read_text(encoding="utf-8")
    text = re.sub(r"; tests/\S+ runs every command below", "", text)
    return text.replace("        run: make setup\n", _SET_UP).replace("make demo", "dvc repro")


TEXTS = {"stages.yaml": stages_text, "experiments.yml": workflow_text}


if __name__ == "__main__":
    for name, text in TEXTS.items():
        (TEMPLATE / name).write_text(text(), encoding="utf-8")
