"""Read params.yaml once, validate all of it, and report every problem with its address."""

from pathlib import Path

from pydantic import BaseModel, ValidationError

from pipeline.core.errors import ParamsError, UnknownMember, UsageError
from pipeline.core.strict import Strict
from pipeline.core.unknown import unknown
from pipeline.project.params import checks, ensembles, sweeps
from pipeline.project.params.document import read_document, with_overrides
from pipeline.project.params.messages import described
from pipeline.project.params.schema import EvaluateParams, Measuring, Root, TrainParams
from pipeline.project.params.typed import Dataset, FeatureSet, Member, Noise, Params, Run, TextSet
from pipeline.project.registry import (
    BACKBONES,
    FORMATS,
    INFERENCES,
    PROTOCOLS,
    RUN_FAMILIES,
    TEXT_FEATURES,
    Family,
)


def load(path: Path, overrides: list[str] | None = None, shown_as: str = "") -> Params:
    """Raises ParamsError with every problem found.

    overrides: ``["train.lr=1e-4"]``, applied for this call only; shown_as: the file's name in messages.
    """
    name = shown_as or path.name
    return _Loader(name, with_overrides(read_document(path), overrides or [], name)).params()


def load_measuring(overrides: list[str]) -> tuple[EvaluateParams, dict[str, Strict], int]:
    """How to measure where there is no params.yaml: the defaults, changed by ``["evaluate.ties=average"]``.

    Returns the parameters of evaluate, those of the criteria that ``overrides`` speak of, by name, and the seed. Raises
    ParamsError with every problem found.
    """
    loader = _Loader("--set", with_overrides({}, overrides, "the command line"))
    found = loader.measuring()
    if loader.problems:
        raise ParamsError(loader.problems)
    return found


def load_extraction(path: Path, overrides: list[str]) -> Params:
    """Seed, features and texts of params.yaml, without its runs: those bring torch, which takes seconds to load.

    Data sets are there by name and format, their own options are not looked at. Raises ParamsError with every problem found.
    """
    loader = _Loader(path.name, with_overrides(read_document(path), overrides, path.name))
    return loader.params(runs=False)


class _Loader:
    """Collects problems instead of stopping at the first."""

    def __init__(self, file: str, content: dict) -> None:
        self.file, self.content, self.problems = file, content, []

    def params(self, runs: bool = True) -> Params:
        root = self._model(Root, self.content, "")
        if root is None:
            raise ParamsError(self.problems)
        if not runs:
            root = root.model_copy(update={"noises": {}, "runs": {}, "ensembles": {}, "inference": {}})
            root = root.model_copy(update={"grid": root.grid.model_copy(update={"inferences": []})})
            root = root.model_copy(
                update={"report": root.report.model_copy(update={"audits": [], "sweeps": {}})}
            )
        for name, node in root.ensembles.items():
            self._known_row(node.row, f"ensembles.{name}")
        loaded = Params(
            seed=root.seed,
            grid=root.grid,
            datasets={name: self._dataset(name, node, runs) for name, node in root.datasets.items()},
            features={name: self._features(root, name, node) for name, node in root.features.items()},
            texts={name: self._texts(root, name, node) for name, node in root.texts.items()},
            noises={name: self._noise(root, name, node) for name, node in root.noises.items()},
            runs={name: self._run(root, name, node) for name, node in root.runs.items()},
            ensembles=root.ensembles,
            embed=root.embed,
            evaluate=root.evaluate,
            inference=self._inferences(root),
            report=root.report,
        )
        self._audits(root)
        if not self.problems:  # ensembles and sweeps look into their runs
            for address, text in [*ensembles.problems(loaded), *sweeps.problems(loaded)]:
                self._problem(address, text)
        if self.problems:
            raise ParamsError(self.problems)
        return loaded

    def measuring(self) -> tuple[EvaluateParams, dict[str, Strict], int] | None:
        root = self._model(Measuring, self.content, "")
        if root is None:
            return None
        members = [
            self._member(INFERENCES, name, options, f"inference.{name}", "")
            for name, options in root.inference.items()
        ]
        return root.evaluate, {member.name: member.params for member in members if member}, root.seed

    def _dataset(self, name, node, options: bool = True) -> Dataset:
        if not options:
            self._known(FORMATS, node.format, f"datasets.{name}.format")
            return Dataset(Member(node.format, Strict()), node.source)
        return Dataset(
            self._member(FORMATS, node.format, node.model_extra, f"datasets.{name}", "format"),
            node.source,
            node.on_error,
        )

    def _features(self, root, name, node) -> FeatureSet:
        address = f"features.{name}"
        self._reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
        backbone = self._member(BACKBONES, node.backbone, node.model_extra, address, "backbone")
        return FeatureSet(node.dataset, backbone, node.on_error, node.max_errors)

    def _texts(self, root, name, node) -> TextSet:
        address = f"texts.{name}"
        self._reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
        held = root.features.get(name)
        if held is not None and held.dataset == node.dataset:
            self._problem(
                address,
                f"features.{name} of the same data set is written to the same folder; rename one of them",
            )
        method = self._member(TEXT_FEATURES, node.method, node.model_extra, address, "method")
        return TextSet(node.dataset, method)

    def _noise(self, root, name, node) -> Noise:
        address = f"noises.{name}"
        self._reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
        protocol = self._member(PROTOCOLS, node.protocol, node.model_extra, address, "protocol")
        held = root.datasets.get(node.dataset)
        noisy = held is not None and not checks.knows_truth(FORMATS, held.format)
        if protocol and noisy and checks.knows_truth(PROTOCOLS, node.protocol):
            self._problem(
                f"{address}.protocol",
                f"data set '{node.dataset}' ({held.format}) is noisy by itself, and nobody knows which of its pairs "
                f"match; use protocol as_is, not '{node.protocol}'",
            )
        return Noise(node.dataset, protocol)

    def _run(self, root, name, node) -> Run:
        address = f"runs.{name}"
        self._reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
        for key in ("features", "texts", "noise"):
            self._node_of(root, node, key, address)
        for key in set(node.options) - set(RUN_FAMILIES):
            known = ", ".join(RUN_FAMILIES)
            self._problem(
                f"{address}.options.{key}",
                f"unknown family{near_miss(key, list(RUN_FAMILIES)) or ';'} known: {known}",
            )
        members = {
            key: self._run_member(root, node, key, family, address) for key, family in RUN_FAMILIES.items()
        }
        self._fits(root, node, address, members)
        self._known_row(node.row, address)
        self._sees(root, node, address, members["image"])
        train = self._model(TrainParams, {**root.train.model_dump(), **node.train}, f"{address}.train")
        return Run(node.dataset, node.features, node.texts, node.noise, **members, train=train, row=node.row)

    def _audits(self, root) -> None:
        for index, name in enumerate(root.report.audits):
            address = f"report.audits.{index}"
            if self._reference(name, root.runs, "run", address) and name in root.report.audits[:index]:
                self._problem(address, f"'{name}' is named twice")

    def _known_row(self, row: str | None, address: str) -> None:
        if row is None:
            return
        from pipeline.papers import catalogue

        try:
            catalogue.located(row)
        except UsageError as error:
            self._problem(f"{address}.row", str(error))

    def _node_of(self, root, node, key: str, address: str) -> None:
        """``key`` must name a node of the run's own data set."""
        nodes = getattr(root, "noises" if key == "noise" else key)
        chosen = getattr(node, key)
        if self._reference(chosen, nodes, key, f"{address}.{key}") and nodes[chosen].dataset != node.dataset:
            self._problem(
                f"{address}.{key}",
                f"'{chosen}' belongs to data set '{nodes[chosen].dataset}', not '{node.dataset}'",
            )

    def _run_member(self, root, node, key: str, family: Family, address: str) -> Member | None:
        chosen, own = getattr(node, key), node.options.get(key, {})
        values = {**(getattr(root, key).get(chosen) or {}), **own}
        place = f"{address}.options.{key}" if own else f"{key}.{chosen}"
        return self._member(family, chosen, values, place, "", f"{address}.{key}")

    def _fits(self, root, node, address: str, members: dict[str, Member | None]) -> None:
        """The text encoder must read what the run's texts are, the scheme must know the loss, the loss the similarity."""
        if (
            members["text"]
            and node.texts in root.texts
            and root.texts[node.texts].method in TEXT_FEATURES.names()
        ):
            method = root.texts[node.texts].method
            kind = TEXT_FEATURES.load(method).KIND
            wanted = RUN_FAMILIES["text"].load(node.text).reads
            if kind != wanted:
                self._problem(
                    f"{address}.text",
                    f"text encoder '{node.text}' reads {wanted}, but texts '{node.texts}' ({method}) are {kind}",
                )
        for key, other in checks.PARTNERS:
            if members[key] and members[other]:
                for text in checks.partners(node, key, other):
                    self._problem(f"{address}.{key}", text)
        if all(members[key] for key in ("similarity", "image", "text")):
            for text in checks.fragments(node):
                self._problem(f"{address}.similarity", text)

    def _sees(self, root, node, address: str, image: Member | None) -> None:
        """An image encoder that reads pixels needs features that a network makes from images."""
        held = root.features.get(node.features)
        if image is None or held is None or held.backbone not in BACKBONES.names():
            return
        reads = getattr(RUN_FAMILIES["image"].load(node.image), "reads", "features")
        if reads == "pixels" and "image_size" not in BACKBONES.load(held.backbone).Params.model_fields:
            self._problem(
                f"{address}.image",
                f"image encoder '{node.image}' reads pixels, but features '{node.features}' ({held.backbone}) are not made from images",
            )

    def _inferences(self, root) -> dict[str, Strict]:
        names = set(root.inference)
        for index, entry in enumerate(root.grid.inferences):
            parts = [
                part for part in entry.split("+") if self._known(INFERENCES, part, f"grid.inferences.{index}")
            ]
            names.update(parts)
            if len(parts) == entry.count("+") + 1:
                self._combines(entry, f"grid.inferences.{index}")
        members = {
            name: self._member(INFERENCES, name, root.inference.get(name, {}), f"inference.{name}", "")
            for name in sorted(names)
        }
        return {name: member.params for name, member in members.items() if member}

    def _combines(self, entry: str, address: str) -> None:
        from pipeline.ranking.engine.criteria import parse

        try:
            parse(entry, {})
        except UsageError as error:
            self._problem(address, str(error))

    def _member(
        self, family: Family, name: str, options: dict, address: str, key: str, named_at: str = ""
    ) -> Member | None:
        if not self._known(family, name, named_at or (f"{address}.{key}" if key else address)):
            return None
        params = self._model(family.load(name).Params, dict(options or {}), address)
        return None if params is None else Member(name, params)

    def _known(self, family: Family, name: str, address: str) -> bool:
        try:
            family.check(name)
        except UnknownMember as error:
            self._problem(address, str(error))
            return False
        return True

    def _reference(self, name: str, nodes: dict, kind: str, address: str) -> bool:
        if name not in nodes:
            known = sorted(nodes)
            self._problem(address, unknown(kind, name, known))
        return name in nodes

    def _model(self, model: type[BaseModel], values: dict, address: str):
        try:
            checked = model.model_validate(values)
            beyond = list(checks.out_of_range(checked.model_dump()))
            for place, text in beyond:
                self._problem(".".join(part for part in [address, place] if part), text)
            return None if beyond else checked
        except ValidationError as error:
            for problem in error.errors():
                place = ".".join(part for part in [address, *map(str, problem["loc"])] if part)
                self._problem(place, described(model, problem))
            return None

    def _problem(self, address: str, text: str) -> None:
        self.problems.append(f"{self.file} {address}: {text}")
