"""Matryoshka: the run's loss at several widths, so that vectors can be cut short afterwards
(Kusupati et al.)."""

import torch
from torch import Tensor

from vse_pipe.core.errors import UsageError
from vse_pipe.ranking.codes import cut_short
from vse_pipe.ranking.fragments import Words
from vse_pipe.train.data import Batch
from vse_pipe.train.scheme import Scheme, Setting
from vse_pipe.train.scored import LossTerms


class Nested(Scheme):
    """``sum_d L(first d dimensions, scaled to length 1)``.

    Source: Kusupati et al., Matryoshka representation learning, NeurIPS 2022, Eq. 1, as
    MatryoshkaLoss of sentence-transformers has it. What a loss learns, such as a temperature, is
    shared by all widths. The best epoch is chosen at the full width.
    """

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        full = setting.train.embed_size
        if (widest := max(self.params.dims)) > full:
            raise UsageError(f"scheme 'matryoshka': dims has {widest}, and train.embed_size is {full}")
        self.widths = sorted({full, *self.params.dims}, reverse=True)

    def terms(self, images: Tensor, texts: Tensor | Words, batch: Batch) -> LossTerms:
        assert isinstance(texts, Tensor)
        cuts = [(cut_short(images, width), cut_short(texts, width)) for width in self.widths]
        terms = [self.loss(self.scored(*sides, batch)) for sides in cuts]
        return LossTerms(torch.stack([part.per_pair for part in terms]).sum(dim=0), terms[0].reduction)


scheme = Nested
