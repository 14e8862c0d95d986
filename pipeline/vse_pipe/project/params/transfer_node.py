"""transfers.<name> of params.yaml."""

from vse_pipe.core.strict import Strict


class TransferNode(Strict):
    """transfers.<name>: a run that is embedded and measured on a data set it was not trained on."""

    run: str
    """a name under runs; of a run with seeds all its models"""
    dataset: str
    """a name under datasets"""
    features: str | None = None
    """under features, those of that data set; null: the ones with the backbone and options of the run's own"""
    bank: str | None = None
    """the data set whose split ``evaluate.bank`` train or val means: this one (null) or that the run was trained on"""

    def tells(self, told: object) -> bool:
        """Whether ``transfer`` in an evaluation's metrics.json speaks of this entry."""
        return isinstance(told, dict) and (told.get("run"), told.get("dataset")) == (self.run, self.dataset)
