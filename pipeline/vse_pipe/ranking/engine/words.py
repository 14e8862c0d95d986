"""The words of captions as vectors, caption after caption, without padding: what fragment similarities compare."""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from vse_pipe.core.errors import InputError


@dataclass(frozen=True)
class Words:
    """vectors: (words, dim), those of caption 0 first; lengths: (captions,) words of each caption, on the CPU.

    Raises InputError unless every caption has a word and the lengths add up to the vectors.
    """

    vectors: Float[Tensor, "words dim"]
    lengths: Int[Tensor, " captions"]

    def __post_init__(self) -> None:
        if int(self.lengths.sum()) != len(self.vectors) or (len(self.lengths) and int(self.lengths.min()) < 1):
            raise InputError(
                f"captions of {self.lengths.tolist()[:5]}... words do not fit {len(self.vectors)} word vectors"
            )

    @classmethod
    def of(cls, padded: Float[Tensor, "captions length dim"], lengths: Int[Tensor, " captions"]) -> "Words":
        """From (captions, L, dim) with whatever after the end of each caption."""
        lengths = lengths.cpu()
        inside = torch.arange(padded.shape[1])[None] < lengths[:, None]
        return cls(padded[inside.to(padded.device)], lengths)

    @classmethod
    def cat(cls, parts: list["Words"]) -> "Words":
        """The captions of all parts, in order."""
        return cls(torch.cat([part.vectors for part in parts]), torch.cat([part.lengths for part in parts]))

    def padded(self) -> Float[Tensor, "captions length dim"]:
        """(captions, longest, dim), zero past the end."""
        return torch.nn.utils.rnn.pad_sequence(self.vectors.split(self.lengths.tolist()), batch_first=True)

    @cached_property
    def starts(self) -> Int[Tensor, " ends"]:
        """Where each caption begins in ``vectors``, and the end of the last; on the CPU."""
        return torch.cat([torch.zeros(1, dtype=torch.int64), self.lengths.cumsum(0)])

    def __len__(self) -> int:
        return len(self.lengths)

    def __getitem__(self, captions: slice) -> "Words":
        """Consecutive captions; a view. Raises ValueError for a step: ``take`` is for captions that do not follow each other."""
        first, last, step = captions.indices(len(self))
        if step != 1:
            raise ValueError(f"captions are cut in one piece, got a step of {step}")
        last = max(first, last)
        return Words(self.vectors[self.starts[first] : self.starts[last]], self.lengths[first:last])

    def take(self, captions: Int[Tensor, " chosen"]) -> "Words":
        """The captions at these places, in this order; a copy."""
        captions = captions.cpu()
        lengths = self.lengths[captions]
        ends = lengths.cumsum(0)
        places = torch.arange(int(lengths.sum())) + (self.starts[captions] - (ends - lengths)).repeat_interleave(
            lengths
        )
        return Words(self.vectors[places.to(self.vectors.device)], lengths)

    @property
    def device(self) -> torch.device:
        return self.vectors.device

    def to(self, device: torch.device) -> "Words":
        return Words(self.vectors.to(device), self.lengths)

    def detach(self) -> "Words":
        return Words(self.vectors.detach(), self.lengths)

    def float(self) -> "Words":
        return Words(self.vectors.float(), self.lengths)
