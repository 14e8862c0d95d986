"""vse-pipe: image-text retrieval as a pipeline of cached stages."""

__version__ = "0.1.0"
