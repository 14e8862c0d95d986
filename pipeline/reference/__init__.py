"""docs/parameters.md and docs/artefacts.md, written from the code: `python -m pipeline.reference`."""
