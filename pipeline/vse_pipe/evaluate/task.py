"""What is ranked: images and captions, the bank, and validation data."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from vse_pipe.artifacts import embeddings
from vse_pipe.artifacts.names import TextIds
from vse_pipe.core import console
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.evaluate.ensemble import Ensemble, load_embeddings
from vse_pipe.project import paths
from vse_pipe.project.params.schema import EvaluateParams
from vse_pipe.project.params.typed import Params
from vse_pipe.ranking import outcomes
from vse_pipe.ranking.cascade import Cascade
from vse_pipe.ranking.criteria import Criterion, Trial, trials
from vse_pipe.ranking.fragments import Fused
from vse_pipe.ranking.graded import Graded
from vse_pipe.ranking.rows import require_others
from vse_pipe.ranking.scores import Similarity
from vse_pipe.ranking.split import OWN, BankSource, Split
from vse_pipe.ranking.vectors import Vectors

Embedded = Vectors | Ensemble
# Values of ``evaluate.bank`` that are splits; others are folders.
_SPLITS = ("train", "val")


class Untuned(UsageError):
    """Nothing can choose the parameters of a criterion."""


@dataclass(frozen=True)
class Task:
    """split: what is ranked. bank: the queries that correct its scores. validation,
    validation_bank: the split and the bank that choose parameters; validation is None for the
    reason ``lacking``. about: content of every metrics document. options: of ``evaluate``. seed:
    for the bootstrap. names: of ids that are text. graded: judgements of people. trials: of scores that are given; None: they are
    computed from the vectors. tuned_on: the data set of ``validation``, if it is another one."""

    split: Split
    bank: BankSource
    validation: Split | None
    validation_bank: BankSource
    similarity: Similarity
    about: dict[str, object]
    options: EvaluateParams = field(default_factory=EvaluateParams)
    seed: int = 0
    names: TextIds | None = None
    graded: Graded | None = None
    trials: dict[str, list[Trial]] | None = None
    tuned_on: str | None = None
    lacking: str = "there is no validation data"

    @classmethod
    def of_run(
        cls, params: Params, run: str, embedded: Embedded, criteria: Sequence[Criterion], device: torch.device
    ) -> "Task":
        """The split, the bank and the validation data that params.yaml names, from the embeddings
        of ``run``. A transfer may take the bank and the validation data from its run's training
        data set. criteria: those to measure. Raises InputError when they do not fit."""
        options = params.evaluate.for_dataset(params.dataset(run))
        split = embedded.split(options.split, device)
        sources = _Sources(params, run, embedded, options, device)
        is_needed = any(criterion.open_parameters(options.tune) for criterion in criteria)
        validation, tuned_on, lacking = sources.validation(split, is_needed)
        bank = sources.bank(split)
        validation, validation_bank = sources.validation_bank(bank, validation, tuned_on)
        about: dict[str, Any] = {"run": run, "similarity": embedded.compared_by, **embedded.about(options.split)}
        if missing := about.get("left_out"):
            console.warn(
                f"evaluate {run}: {missing['images']} images of split '{options.split}' that could not be read are left "
                f"out, with {missing['captions']} captions"
            )
        similarity, names = embedded.similarity(device), embedded.names
        task = cls(split, bank, validation, validation_bank, similarity, about, options, params.seed, names)
        return replace(task, tuned_on=tuned_on, lacking=lacking)

    def open_parameters(self, criterion: Criterion) -> list[str]:
        """Options that validation data must choose."""
        return criterion.open_parameters(self.options.tune)

    def require_parameters(self, criterion: Criterion) -> None:
        """Raises Untuned for open parameters without validation data."""
        names, without_default = self.open_parameters(criterion), criterion.open_parameters(tune=False)
        if names and self.validation is None:
            remedies = [f"give {name}" for name in without_default]
            remedies += ["set evaluate.tune: false"] * (len(names) > len(without_default))
            raise Untuned(f"{self.lacking}; {' and '.join(remedies)}")

    def tuned(self, criteria: Sequence[Criterion]) -> tuple["Task", list[Criterion]]:
        """As this task, but validation data choose every parameter that was not given, unless
        ``evaluate.tune`` was."""
        if self.validation is None or "tune" in self.options.model_fields_set:
            return self, list(criteria)
        pinned = [each.with_options(each.rescoring.params.pinned()) for each in criteria]
        return replace(self, options=self.options.model_copy(update={"tune": True})), pinned

    @property
    def is_comparable(self) -> bool:
        """Are scores of different queries on one scale? Ranks and rescored candidates are not."""
        return not isinstance(self.similarity, Fused | Cascade)

    def validation_trials(self, sets: int = 1) -> dict[str, list[Trial]]:
        """The validation folds that choose parameters, by direction. sets: see ``criteria.trials``.
        Raises InputError without validation data."""
        if self.validation is None:
            raise InputError(f"{self.lacking}; give parameters, such as inference.rgm.lam")
        folds = outcomes.folds(self.validation, self.options, chooses=True)
        return trials(folds, self.validation_bank, self.similarity, self.options.memory, sets)

    def judged(self, dataset: Path | None = None) -> "Task":
        """With the judgements that ``options`` names. dataset: the folder with the names of images
        and captions; by default the ids are their names."""
        options = self.options
        if not options.judgements:
            return self
        # pandas takes half a second to import.
        from vse_pipe.evaluate import judgements

        if dataset is None:
            ids = {"image_id": self.split.image_ids, "caption_id": self.split.caption_ids}
            names = [judgements.names_of(key, column, self.names) for key, column in ids.items()]
        else:
            names = list(judgements.dataset_names(dataset))
        return replace(self, graded=judgements.read_judgements(options, *names))


@dataclass(frozen=True)
class _Sources:
    """What a run is measured with beside its ranked split."""

    params: Params
    run: str
    embedded: Embedded
    options: EvaluateParams
    device: torch.device

    def validation(self, ranked: Split, is_needed: bool) -> tuple[Split | None, str | None, str]:
        """The split that chooses parameters, its name if it is of a transfer's run, and why there
        is none. is_needed: whether a criterion has parameters to choose."""
        lacking = f"{self.embedded.folder} holds no split val"
        if self.options.split == "val":
            lacking = "evaluate.split ranks val itself"
        elif self.embedded.has("val"):
            return self.embedded.split("val", self.device), None, lacking
        moved = self.embedded.transfer(self.options.split)
        if not (moved and is_needed):
            return None, None, lacking
        if self._training is None:
            return None, None, f"{lacking}, and run '{moved['run']}' is not embedded on its own data set"
        if not self._training.has("val"):
            return None, None, f"{lacking}, nor does {self._training.folder}"
        validation, name = self._training.split("val", self.device), f"val of {moved['trained_on']}"
        require_others(ranked, validation, name)
        return validation, name, lacking

    def bank(self, ranked: Split) -> BankSource:
        """The queries that ``evaluate.bank`` names, which are others than the ranked ones."""
        name, lender = self.options.bank, self._lender
        if name == OWN or (lender is self.embedded and name == self.options.split):
            return BankSource(self.options.split)
        if name in _SPLITS:
            moved = self.embedded.transfer(self.options.split)
            dataset = moved.get("dataset" if lender is self.embedded else "trained_on")
            title = name + (f" of {dataset}" if moved else "")
            bank = BankSource(title, lender.split(name, self.device))
        else:
            bank = BankSource(name, self._folder(Path(name)))
        if lender is not self.embedded or name not in _SPLITS:
            require_others(ranked, bank.split, f"bank {bank.name}")
        return bank

    def validation_bank(
        self, bank: BankSource, validation: Split | None, tuned_on: str | None
    ) -> tuple[Split | None, BankSource]:
        """The validation split that is left, and its bank. Where val is both, every second image
        chooses parameters and the rest is the bank."""
        if bank.split is None:
            return validation, bank
        name = self.options.bank
        if name == "val" and validation is not None and (tuned_on or self._lender is self.embedded):
            chosen, rest = (validation.fold(slice(start, None, 2)) for start in (0, 1))
            return chosen, BankSource(bank.name, rest)
        if name == "train" and tuned_on and self._training is not None and self._training.has("train"):
            title = tuned_on.replace("val", "train", 1)
            return validation, BankSource(title, self._training.split("train", self.device))
        return validation, bank

    @cached_property
    def _training(self) -> Embedded | None:
        """The embeddings of a transfer's run on its training data set, where it was embedded
        there."""
        node = self.params.transfers.get(self.run)
        if node is None or not (paths.embedded(node.run) / embeddings.IMAGES).is_file():
            return None
        return load_embeddings(self.params, node.run)

    @cached_property
    def _lender(self) -> Embedded:
        """The embeddings that hold the bank: those that are ranked, or those of a transfer's
        run."""
        node, bank = self.params.transfers.get(self.run), self.options.bank
        if node is None or bank not in _SPLITS:
            return self.embedded
        if node.bank not in (None, node.dataset):
            return load_embeddings(self.params, node.run)
        source = None if self.embedded.has(bank) else self._training
        if source is None or not source.has(bank):
            return self.embedded
        dataset = self.params.dataset(node.run)
        console.warn(f"evaluate {self.run}: {node.dataset} has no split {bank}; the query bank is that of {dataset}")
        return source

    def _folder(self, place: Path) -> Split:
        """All embeddings of a folder, which the same model has to have made."""
        if isinstance(self.embedded, Ensemble):
            raise InputError(
                "scores of several models take their bank from their own runs: evaluate.bank test, train or val"
            )
        folder = Vectors.of_folder(place)
        self.embedded.must_match(folder)
        return folder.all_splits(self.device)
