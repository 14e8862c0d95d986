"""What is ranked: images and captions, the bank, and validation data."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
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
from vse_pipe.ranking import evaluation
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
    for the bootstrap. names: of ids that are text. trials: of scores that are given; None: they are
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
        split, moved = embedded.split(options.split, device), embedded.transfer(options.split)
        training = cache(partial(_training, params, run))
        validation, tuned_on, lacking = None, None, f"{embedded.folder} holds no split val"
        if options.split == "val":
            lacking = "evaluate.split ranks val itself"
        elif embedded.has("val"):
            validation = embedded.split("val", device)
        if validation is None and moved and any(criterion.open_parameters(options.tune) for criterion in criteria):
            if (source := training()) is None:
                lacking += f", and run '{moved['run']}' is not embedded on its own data set"
            elif not source.has("val"):
                lacking += f", nor does {source.folder}"
            else:
                validation, tuned_on = _lent(embedded, source, "val", device), f"val of {moved['trained_on']}"
                require_others(split, validation, tuned_on)
        bank = validation_bank = BankSource(options.split)
        lender = _lender(params, run, embedded, options.bank, training)
        if options.bank != OWN and (lender is not embedded or options.bank != options.split):
            bank = validation_bank = _bank(embedded, lender, options, device)
            if lender is not embedded or options.bank not in _SPLITS:
                require_others(split, bank.split, f"bank {bank.name}")
            if tuned_on and options.bank == "train" and (source := training()) and source.has("train"):
                of_training = _lent(embedded, source, "train", device)
                validation_bank = BankSource(f"train of {moved['trained_on']}", of_training)
            if options.bank == "val" and validation is not None and (lender is embedded or tuned_on):
                # Every second image to tune on, the rest as the bank.
                validation, rest = (validation.fold(slice(start, None, 2)) for start in (0, 1))
                validation_bank = BankSource(bank.name, rest)
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
        names = self.open_parameters(criterion)
        if names and self.validation is None:
            fixed = ", or evaluate.tune: false" if self.options.tune else ""
            raise Untuned(f"{self.lacking}; give {', '.join(names)}{fixed}")

    def tuned(self, criteria: Sequence[Criterion]) -> tuple["Task", list[Criterion]]:
        """Validation data choose parameters that are open, unless ``evaluate.tune`` says no."""
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
        folds = evaluation.folds(self.validation, self.options, chooses=True)
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


def _training(params: Params, run: str) -> Embedded | None:
    """The embeddings of a transfer's run on its training data set, where it was embedded there."""
    node = params.transfers.get(run)
    if node is None or not (paths.embedded(node.run) / embeddings.IMAGES).is_file():
        return None
    return load_embeddings(params, node.run)


def _lender(
    params: Params, run: str, embedded: Embedded, bank: str, training: Callable[[], Embedded | None]
) -> Embedded:
    """The embeddings that hold the bank: those that are ranked, or those of a transfer's run."""
    node = params.transfers.get(run)
    if node is None or bank not in _SPLITS:
        return embedded
    if node.bank not in (None, node.dataset):
        return load_embeddings(params, node.run)
    source = None if embedded.has(bank) else training()
    if source is None or not source.has(bank):
        return embedded
    dataset = params.dataset(node.run)
    console.warn(f"evaluate {run}: {node.dataset} has no split {bank}; the query bank is that of {dataset}")
    return source


def _bank(embedded: Embedded, lender: Embedded, settings: EvaluateParams, device: torch.device) -> BankSource:
    """A split of ``lender``, or a folder of embeddings from the same model."""
    if settings.bank in _SPLITS:
        moved = embedded.transfer(settings.split)
        dataset = moved.get("dataset" if lender is embedded else "trained_on")
        name = settings.bank + (f" of {dataset}" if moved else "")
        return BankSource(name, _lent(embedded, lender, settings.bank, device))
    if isinstance(embedded, Ensemble):
        raise InputError("an ensemble takes its bank from its own runs: evaluate.bank test, train or val")
    folder = Vectors.of_folder(Path(settings.bank))
    embedded.must_match(folder)
    return BankSource(settings.bank, _lent(embedded, folder, None, device))


def _lent(embedded: Embedded, lender: Any, name: str | None, device: torch.device) -> Split:
    """A split of ``lender``, all its splits without a name. Text ids get the numbers that they have
    in ``embedded``, because the numbers of two data sets are unrelated."""
    split = lender.all_splits(device) if name is None else lender.split(name, device)
    if embedded.names is None or lender.folder == embedded.folder:
        return split
    keys = {"image_ids": "image_id", "caption_ids": "caption_id", "caption_images": "image_id"}
    ids: Any = {side: embedded.names.numbers(key, lender.names, getattr(split, side)) for side, key in keys.items()}
    return replace(split, **ids)
