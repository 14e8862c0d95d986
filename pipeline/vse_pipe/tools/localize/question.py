"""What is asked about a photo, checked before anything slow is imported."""

from dataclasses import dataclass
from pathlib import Path

from vse_pipe.core.errors import UsageError
from vse_pipe.core.files import may_replace
from vse_pipe.localize import inputs
from vse_pipe.prepare.source import is_text
from vse_pipe.project.params.typed import Params

# In the head of a drawing: an earlier one may be replaced, nothing else.
SOFTWARE = "vse-pipe localize"
_HEAD = 1000
# Characters of a phrase, each of which is a few words of a caption.
LONGEST = 1000
# Of boxes that somebody computed elsewhere there are none for a photo.
_GIVEN = "file"


@dataclass(frozen=True)
class Question:
    """name: of the photo, for messages; out: where it is drawn. Both paths are absolute."""

    photo: Path
    name: str
    phrases: tuple[str, ...]
    out: Path

    def check(self) -> None:
        """Raises UsageError for what is no phrase, and an ``out`` that is no name for a drawing or taken by another file."""
        for phrase in self.phrases:
            if not phrase.strip():
                raise UsageError("--phrase: a phrase is empty; write what to find in the photo")
            if not is_text(phrase):
                raise UsageError(f"--phrase: {phrase[:40]!r} is no UTF-8")
            if len(phrase) > LONGEST:
                raise UsageError(f"--phrase: a phrase of {len(phrase)} characters; expected no more than {LONGEST}")
        out = self.out
        if out.suffix.lower() != ".png" or not out.parent.is_dir():
            raise UsageError(f"--out {out}: name a .png file in a folder that is there")
        if out == self.photo or not may_replace(out, SOFTWARE.encode(), _HEAD):
            raise UsageError(f"--out: {out} exists and is no drawing of `{SOFTWARE}`; choose another name")


def check(params: Params, run: str) -> None:
    """Raises UsageError for a run of whole pictures or fragments, and proposals from a file."""
    inputs.check_localizable(params, run)
    dataset = params.runs[run].dataset
    about = params.datasets[dataset].format
    if about.name != "regions":
        raise UsageError(f"data set '{dataset}' is no data set of regions: nothing says which boxes to propose")
    if about.params.proposals == _GIVEN:
        raise UsageError(f"the proposals of data set '{dataset}' are read from a file, which has none for a photo")
