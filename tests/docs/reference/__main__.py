"""`python -m tests.docs.reference` writes the generated pages; with `--check` it names those that are not up to date."""

import argparse
import sys
from pathlib import Path

from tests.docs.reference import artefacts, parameters
from vse_pipe.core.files import whole_file

DOCS = Path(__file__).parents[3] / "docs"
PAGES = {"parameters.md": parameters.page, "artefacts.md": artefacts.page}


def stale(folder: Path) -> list[str]:
    """Names of the pages in ``folder`` that are missing or are not what the code gives."""
    return [
        name
        for name, page in PAGES.items()
        if not (folder / name).is_file() or (folder / name).read_text(encoding="utf-8") != page()
    ]


def write(folder: Path) -> list[str]:
    """Write the pages that are not up to date; their names."""
    names = stale(folder)
    for name in names:
        with whole_file(folder / name) as temporary:
            temporary.write_text(PAGES[name](), encoding="utf-8")
    return names


def main(arguments: list[str], folder: Path = DOCS) -> int:
    """The exit status: 1 where ``--check`` finds a page that is not up to date."""
    parser = argparse.ArgumentParser(prog="python -m tests.docs.reference", description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; status 1 if a page is stale")
    check = parser.parse_args(arguments).check
    names = stale(folder) if check else write(folder)
    for name in names:
        told = "is not up to date; run `python -m tests.docs.reference`" if check else "written"
        sys.stdout.write(f"docs/{name} {told}\n")
    return int(check and bool(names))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
