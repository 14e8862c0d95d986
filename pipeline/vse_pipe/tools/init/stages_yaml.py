"""dvc.yaml of a project without code: this repository's, with a list of modules in place of folders of code."""

import re
from pathlib import Path

from vse_pipe.project import paths

TEMPLATE = Path(__file__).parent / "template"
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


def text() -> str:
    """The whole file. Comments stay, but for those of lines that go."""
    _, _, stages = (TEMPLATE / "stages.yaml").read_text(encoding="utf-8").partition("\nstages:\n")
    lines, stage = [_HEAD], ""
    for line in _CODE.sub("", stages).splitlines():
        if found := re.fullmatch(r"  (\w+):", line):
            stage = found[1]
        elif found := re.search(r"^ +cmd:.* (\$\{\w+\})$", line):
            stage += f"@{found[1]}"
        line = re.sub(r"^( +)deps:$", rf"\1deps:\n\1  - {paths.code(stage)}", line)
        line = line.replace("deps: [", f'deps: ["{paths.code(stage)}", ')
        lines.append(re.sub(r"pipeline/vse_pipe/report/plots/(\w+)\.json", r"\1", line))
    return "\n".join(lines) + "\n"
