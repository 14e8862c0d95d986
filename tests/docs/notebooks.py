"""The notebooks: ``python -m tests.docs.notebooks`` runs them from scratch and writes their outputs."""

from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.rules.sources import ROOT

NOTEBOOKS = sorted(ROOT.glob("docs/notebooks/*.ipynb"))


def run(path: Path) -> nbformat.NotebookNode:
    """The notebook with new outputs, without messages of progress. Raises CellExecutionError."""
    notebook = nbformat.read(path, as_version=4)
    metadata = dict(notebook.metadata)
    NotebookClient(notebook, timeout=120, record_timing=False).execute()
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs = [output for output in cell.outputs if output.get("name") != "stderr"]
    notebook.metadata = metadata
    return notebook


if __name__ == "__main__":
    for path in NOTEBOOKS:
        nbformat.write(run(path), path)
