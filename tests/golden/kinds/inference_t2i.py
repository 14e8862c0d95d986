"""Criteria, matchings and hubness for text to image: many queries, few items."""

from tests.golden.kinds._inference import check

__all__ = ["check"]
