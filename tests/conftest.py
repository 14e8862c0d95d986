"""What every test starts from."""

import sys

import pytest


@pytest.fixture(autouse=True)
def _denormals_are_kept():
    """`vse-pipe train` flushes them for its whole process, and Hypothesis draws no floats then."""
    yield
    if "torch" in sys.modules:
        sys.modules["torch"].set_flush_denormal(False)
