"""Criteria, matchings and hubness for image to text: few queries, many items."""

from tests.golden.kinds._inference import check

__all__ = ["check"]
