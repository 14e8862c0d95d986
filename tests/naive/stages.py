"""What a query of several parts finds, one item and one part at a time."""

import math
from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations

from tests.naive import data
