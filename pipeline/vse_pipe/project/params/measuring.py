"""The section evaluate of params.yaml."""

from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from vse_pipe.core.strict import Digest, Strict

# What is known of a data set beside its captions.
BESIDE = ("judgements", "labels")


class EvaluateParams(Strict):
    """evaluate: the protocol every run is measured under."""

    split: Literal["test", "val"] = "test"
    """whose queries are ranked, in a gallery of the same split"""
    protocol: Literal["full", "folds", "first"] = "full"
    """``full``, the whole split; ``folds``, the mean over folds of fold_size images; ``first``, the first such fold"""
    fold_size: PositiveInt = 1000
    """images of a fold"""
    ties: Literal["pessimistic", "average", "optimistic"] = "pessimistic"
    """where a correct item scores like wrong ones, its place is the last of them, the mean or the first"""
    bank: str = "test"
    """whose queries correct the hubs: ``test``, the very queries that are ranked (transductive, the papers'
    protocol); ``train`` or ``val`` of the same run, or a folder with images.parquet and captions.parquet of the
    same model (inductive)"""
    recall: list[PositiveInt] = Field(default_factory=lambda: [1, 5, 10])
    """K of R@K, beside 1, 5 and 10, which are always measured since rsum is their sum; matchings have these three alone"""
    ndcg: list[PositiveInt] = Field(default_factory=lambda: [10])
    """K of nDCG@K, beside 10"""
    judgements: str | dict[str, str] | None = None
    """a file of image_id, caption_id and grade, from the project's root: grades that people gave, measured beside recall; in a
    project whose runs are on several data sets a file for each that has one, by its name"""
    correct_above: NonNegativeFloat = 0.0
    """a pair is correct for the figures of ``judgements`` whose mean grade is larger, for ``--trec-run`` whose relevance is"""
    labels: str | dict[str, str] | None = None
    """a file of image_id and label, such as the objects in each picture, for PMRP; or one for each data set, as of ``judgements``"""
    sha256: dict[str, Digest] = Field(default_factory=dict)
    """of files that ``judgements`` and ``labels`` name, by their path; any other file is refused"""
    tune: bool = False
    """choose the criteria's parameters on val"""
    calibrate: Literal["none", "isotonic", "platt"] = "none"
    """how a probability of a match is fitted to scores on val and measured on ``split``, in metrics.json beside the rest;
    ``search`` takes ``isotonic`` where it is ``none``"""
    memory: PositiveInt = 4096
    """MiB that scores and working copies may take, and, of files given with ``--images``, their content"""
    resamples: NonNegativeInt = 1000
    """of the bootstrap behind the 95% intervals; 0 leaves them out"""

    def of(self, dataset: str) -> Self:
        """With the files of that data set alone."""
        own = {key: value.get(dataset) for key in BESIDE if isinstance(value := getattr(self, key), dict)}
        return self.model_copy(update=own)
