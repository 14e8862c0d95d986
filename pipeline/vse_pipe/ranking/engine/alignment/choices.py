"""What stacked cross attention leaves open: names that options and computations share."""

from typing import Literal

# Of raw similarities over the queries; the authors' raw_feature_norm.
Norm = Literal["clipped_l2norm", "l2norm", "softmax", "no_norm", "clipped"]
# Of the queries' cosines to one score.
Aggregate = Literal["mean", "lse", "max", "sum"]
