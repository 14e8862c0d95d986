"""Boxes of phrases, and proposed boxes, as pictures of their own."""
