"""No training: the model is the run's untrained encoders, for the two sides of a pretrained pair
(zero-shot)."""

from vse_pipe.artifacts.features import Features
from vse_pipe.artifacts.texts import Texts
from vse_pipe.core.console import say
from vse_pipe.core.errors import InputError
from vse_pipe.project.params.typed import Run
from vse_pipe.train.checkpoint import Progress
from vse_pipe.train.model import build, described


def untrained(run: Run, stored: Features, read: Texts) -> tuple[Progress, dict]:
    """A model without weights that has no epochs, and its config.json.

    Vectors are as wide as features. config.json has scale and bias of the logits of a pretrained
    pair, as ``logit``. Raises InputError for features and texts of two different pairs (vectors of
    other origin are not checked), or of different widths.
    """
    if "network" in read.meta and _network(read.meta) != _network(stored.meta):
        raise InputError(
            "features and texts are of two models or of two weights; give both the same model, weights and sha256"
        )
    shape = stored.array.shape[1:]
    model = build(run.image, run.text, run.similarity, shape, read.inputs, shape[-1], run.seed)
    say(f"nothing is trained; images and captions are compared in {shape[-1]} dimensions as they are")
    config = {
        **described(run, stored, read, shape[-1]),
        "best": {"epoch": 0, "val_rsum": None},
        "ended": {"by": "scheme", "epoch": 0, "converged": True},
        "logit": stored.meta.get("logit"),
    }
    return Progress(best=[model.state_dict()]), config


def _network(meta: dict) -> tuple:
    weights = meta.get("weights") or {}
    return meta.get("network"), weights.get("sha256"), weights.get("seed")
