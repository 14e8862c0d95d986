"""Cases 1 to 6, 22, 27 and 30 of the acceptance suite: stages that are killed, refused or starved."""

import os
import random
import resource
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from pipeline.artifacts import features
from pipeline.core.locks import claim
from pipeline.project import lock
from pipeline.project.paths import TRAINED
from pipeline.train.engine import checkpoint
from tests.commands.script import run as run_as_a_script
from tests.faults import kill, kill_extract, warm
from tests.made import record

pytestmark = pytest.mark.acceptance
_MODEL, _STATE = Path("data/train/sum/model.safetensors"), Path("data/train/sum") / checkpoint.FILE
_LONG = ("-S", "train.epochs=60", "train")
