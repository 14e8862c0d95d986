"""Boxes of phrases and proposed boxes of a prepared data set, ``source``, as pictures."""

from pathlib import Path

from vse_pipe.prepare import regions
from vse_pipe.prepare.formats.options import RegionsOptions as Params
from vse_pipe.prepare.source import Source
from vse_pipe.project.registry import PROPOSALS


def read(source: Path, out: Path, params: Params, seed: int, device: str = "auto") -> Source:
    """source: data/prepare/<dataset>/ with images.parquet and phrases.parquet. Its pictures are
    read in place for their size and by proposals that need them. device: of networks that propose
    boxes.

    Raises MissingResource without the folder; InputError for a data set without phrases or a
    picture without proposed boxes; IntegrityError for a changed picture; else what the proposals
    raise."""
    method = PROPOSALS.load(params.proposals)
    options = PROPOSALS.options(params.proposals).model_validate(params.options)
    proposer = method.proposer(options, params.count, seed, device)
    return regions.assembled(source, proposer, params, seed)
