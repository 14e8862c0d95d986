"""`vse-pipe` with the stand-in engine: python -m tests.tools.serve.standin_server PICTURES SECONDS_A_SEARCH serve ..."""

import sys
import types
from pathlib import Path

from tests.tools.serve.standin import StandIn
from vse_pipe import cli


def main() -> None:
    folder, seconds, *arguments = sys.argv[1:]

    class Engine:
        @staticmethod
        def open(params, run, inference="nns", split="test", device="auto"):
            return StandIn(Path(folder), inference, run, split, seconds=float(seconds))

    sys.modules["vse_pipe.tools.search.engine"] = types.SimpleNamespace(Engine=Engine, TO_IMAGES="text_to_image")
    sys.argv = ["vse-pipe", *arguments]
    cli.main()


if __name__ == "__main__":
    main()
