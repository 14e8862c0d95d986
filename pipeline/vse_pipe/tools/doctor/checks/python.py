"""The interpreter."""

import platform
import sys

from vse_pipe.tools.doctor.line import FAIL, OK, Line

_OLDEST = (3, 11)


def look() -> list[Line]:
    found = f"{platform.python_version()} at {sys.executable}"
    if sys.version_info[:2] < _OLDEST:
        wanted = ".".join(map(str, _OLDEST))
        return [
            Line(FAIL, "python", found, f"install Python {wanted} or newer and vse-pipe in it, in a clone `make setup`")
        ]
    return [Line(OK, "python", found)]
