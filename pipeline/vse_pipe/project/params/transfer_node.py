"""transfers.<name> of params.yaml."""

from vse_pipe.core.strict import Strict


class TransferNode(Strict):
    """transfers.<name>: a run that is embedded and measured on a data set it was not trained on."""

    run: str
    """a name under runs; a run with seeds stands for all its models"""
    dataset: str
    """a name under datasets"""
    features: str | None = None
    """features of that data set; null: those with the run's backbone and options"""
    bank: str | None = None
    """data set whose split ``evaluate.bank`` train or val means; null: this one"""

    def tells(self, told: object) -> bool:
        """Whether ``transfer`` in an evaluation's metrics.json speaks of this entry."""
        return isinstance(told, dict) and (told.get("run"), told.get("dataset")) == (self.run, self.dataset)
