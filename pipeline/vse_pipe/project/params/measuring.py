"""The section evaluate of params.yaml."""

from typing import Literal, Self

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from vse_pipe.core.strict import Digest, Strict

# What is known of a data set beside its captions.
BESIDE = ("judgements", "labels")


class EvaluateParams(Strict):
    """evaluate: the protocol every run is measured under."""

    split: Literal["test", "val"] = "test"
    """split of queries and gallery"""
    protocol: Literal["full", "folds", "first"] = "full"
    """the whole split, the mean over folds of fold_size images, or the first such fold"""
    fold_size: PositiveInt = 1000
    """images of a fold"""
    ties: Literal["pessimistic", "average", "optimistic"] = "pessimistic"
    """place of a correct item that scores like wrong ones: the last, the mean or the first of them"""
    bank: str = "test"
    """queries that correct hubs: ``test``, the ranked ones (transductive, the papers' protocol); inductive: ``train``
    or ``val`` of the run, or a folder with images.parquet and captions.parquet of the same model"""
    recall: list[PositiveInt] = Field(default_factory=lambda: [1, 5, 10])
    """K of R@K; 1, 5 and 10 are always measured, matchings have no others"""
    ndcg: list[PositiveInt] = Field(default_factory=lambda: [10])
    """K of nDCG@K; 10 is always measured"""
    judgements: str | dict[str, str] | None = None
    """file of image_id, caption_id and grade by people, from the project's root, measured beside recall; for several
    data sets a mapping from name to file"""
    correct_above: NonNegativeFloat = 0.0
    """pairs of a larger mean grade in ``judgements``, or of a larger relevance for ``--trec-run``, are correct"""
    labels: str | dict[str, str] | None = None
    """file of image_id and label, such as objects in a picture, for PMRP; or a mapping as for ``judgements``"""
    sha256: dict[str, Digest] = Field(default_factory=dict)
    """required digests of the files of ``judgements`` and ``labels``, by path"""
    tune: bool = False
    """chooses the criteria's parameters on val"""
    calibrate: Literal["none", "isotonic", "platt"] = "none"
    """method that fits the probability of a match to scores on val and measures it on ``split``; for ``none``,
    ``search`` takes ``isotonic``"""
    memory: PositiveInt = 4096
    """MiB of scores and working copies, and of the content of ``--images`` and the like"""
    resamples: NonNegativeInt = 1000
    """of the bootstrap behind the 95% intervals; 0 leaves them out"""

    def of(self, dataset: str) -> Self:
        """With the files of that data set alone."""
        own = {key: value.get(dataset) for key in BESIDE if isinstance(value := getattr(self, key), dict)}
        return self.model_copy(update=own)
