"""data/evaluate/<ensemble>/: as of a run."""

from pipeline.evaluate.check import problems

__all__ = ["problems"]
