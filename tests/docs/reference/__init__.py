"""docs/parameters.md and docs/artefacts.md, written from the code: `python -m tests.docs.reference`."""
