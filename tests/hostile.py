"""A pickle that acts when it is opened: nothing in the package may unpickle it."""

from pathlib import Path


class Hostile:
    """Unpickling one makes the file ``path``."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)
