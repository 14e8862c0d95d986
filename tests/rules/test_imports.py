"""What a stage's process imports before it does anything: each of these packages takes a tenth of a second to three."""

import subprocess
import sys

import pytest

from tests.rules.sources import ROOT

HEAVY = {
    "altair", "dvc", "faiss", "grimp", "nltk", "numba", "pandas", "scipy", "sklearn", "timm", "torch", "torchvision",
    "transformers", "vl_convert",
}  # fmt: skip
NEEDED = {
    "prepare": set(),
    "extract": set(),
    "inject": set(),
    "train": {"torch"},
    "embed": {"torch"},
    "evaluate": {"torch"},
    "report": {"altair", "pandas"},
}
PROBE = """
import importlib, sys
from pathlib import Path
from vse_pipe.project.params.load import load
load(Path("params.yaml"), [])
importlib.import_module(f"vse_pipe.{sys.argv[1]}.stage")
print(*{name.partition(".")[0] for name in sys.modules})
"""


@pytest.mark.acceptance
def test_stages_import_what_they_need_and_no_more():
    found = {
        stage: HEAVY.intersection(
            subprocess.run(
                [sys.executable, "-c", PROBE, stage], cwd=ROOT, capture_output=True, text=True, check=True
            ).stdout.split()
        )
        for stage in NEEDED
    }
    assert found == NEEDED
