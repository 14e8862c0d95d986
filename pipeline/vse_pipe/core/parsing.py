"""One thread at a time at Python's parser: 3.11's counts its depth in one place for all of them, and where the collector lets
another in between, one of the two ends with SystemError (python/cpython gh-106905)."""

import threading

ALONE = threading.Lock()
