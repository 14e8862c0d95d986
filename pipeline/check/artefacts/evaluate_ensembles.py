"""data/evaluate/<ensemble>/: as of a run."""

from pipeline.check.artefacts.evaluate import problems

__all__ = ["problems"]
