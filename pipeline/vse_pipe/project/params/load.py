"""params.yaml, read once and validated completely. Every problem is reported with its address."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from vse_pipe.core.errors import ParamsError, near_miss
from vse_pipe.core.files import refuse_secrets
from vse_pipe.core.strict import Strict
from vse_pipe.project import paths, registry
from vse_pipe.project.engines.options import EngineParams
from vse_pipe.project.params import checks as params_checks
from vse_pipe.project.params import schema, typed
from vse_pipe.project.params.document import read_document, with_overrides
from vse_pipe.project.params.typed import Params, ParamsReader, Run
from vse_pipe.project.registry import INFERENCES, RUN_FAMILIES, SIMILARITIES, TEXT_FEATURES

# A check gives (address, problem) for the mistakes in a file of the right form.
Check = Callable[[schema.Root], Iterable[tuple[str, str]]]


def load(path: Path, overrides: list[str] | None = None, shown_as: str = "", further: Iterable[Check] = ()) -> Params:
    """The typed params.yaml. Raises ParamsError with every problem.

    overrides: ``["train.lr=1e-4"]``, for this call only; shown_as: the file's name in messages; further: checks by
    higher rooms.
    """
    name = shown_as or path.name
    reader = ParamsReader(name)
    root = reader.model(schema.Root, with_overrides(read_document(path), overrides or [], name), "")
    if root is None:
        raise ParamsError(reader.problems)
    loaded = _params(reader, root)
    _check_unused(reader, root)
    _report(reader, (problem for check in further for problem in check(root)))
    if not reader.problems:  # these look into their runs
        checks = (
            params_checks.teacher_problems,
            params_checks.ensemble_problems,
            params_checks.transfer_problems,
            params_checks.sweep_problems,
            params_checks.evaluation_problems,
        )
        _report(reader, dict.fromkeys(problem for check in checks for problem in check(loaded)))
    if reader.problems:
        raise ParamsError(reader.problems)
    return params_checks.completed(loaded)


def load_measuring(overrides: list[str]) -> tuple[schema.EvaluateParams, dict[str, Strict], int, EngineParams]:
    """Parameters of evaluate, of the criteria in ``overrides`` by name, the seed and the engine, without params.yaml:
    the defaults changed by ``["evaluate.ties=average"]``. Raises ParamsError with every problem."""
    reader = ParamsReader("--set")
    root = reader.model(schema.Measuring, with_overrides({}, overrides, "the command line"), "")
    criteria = {} if root is None else _criteria(reader, root.inference, list(root.inference))
    _report(reader, [] if root is None else params_checks.without_project(root.evaluate))
    if reader.problems:
        raise ParamsError(reader.problems)
    return root.evaluate, criteria, root.seed, root.engine


def _params(reader: ParamsReader, root: schema.Root) -> Params:
    """The result is valid only if ``reader`` has no problems."""
    models, groups = _models(root, {name: _run(reader, root, name, node) for name, node in root.runs.items()})
    noises, draws = _draws(root, {name: _noise(reader, root, name, node) for name, node in root.noises.items()})
    moved, of_moved = params_checks.expanded(root.transfers, groups)
    return Params(
        seed=root.seed,
        grid=root.grid,
        datasets={name: _dataset(reader, name, node) for name, node in root.datasets.items()},
        features={name: _features(reader, root, name, node) for name, node in root.features.items()},
        texts={name: _texts(reader, root, name, node) for name, node in root.texts.items()},
        noises=noises,
        draws=draws,
        teachers={name: _teacher(reader, root, name, node) for name, node in root.teachers.items()},
        runs=models,
        groups={**groups, **of_moved},
        transfers=moved,
        ensembles={name: _ensemble(node, groups) for name, node in root.ensembles.items()},
        embed=root.embed,
        evaluate=root.evaluate,
        localize=root.localize,
        engine=root.engine,
        inference=_ranked(reader, root),
        report=_audited(reader, root, groups),
    )


def _models(root: schema.Root, read: dict[str, Run]) -> tuple[dict[str, Run], dict[str, tuple[str, ...]]]:
    """A run for each model, and the names of the seeds of a run."""
    models: dict[str, Run] = {}
    groups = {}
    for name, run in read.items():
        seeds = root.runs[name].seeds
        names = {name: root.seed} if seeds is None else {paths.seed_run(name, seed): seed for seed in seeds}
        noise = root.noises.get(root.runs[name].noise)
        drawn = noise is not None and noise.seeds is not None
        for model, seed in names.items():
            models[model] = run and replace(
                run, seed=seed, noise=paths.seed_run(run.noise, seed) if drawn else run.noise
            )
        if seeds is not None:
            groups[name] = tuple(names)
    return models, groups


def _draws(
    root: schema.Root, read: dict[str, typed.Noise]
) -> tuple[dict[str, typed.Noise], dict[str, tuple[str, ...]]]:
    """A noise for each draw, and the names of the draws of a noise with seeds."""
    noises: dict[str, typed.Noise] = {}
    draws = {}
    for name, noise in read.items():
        seed, seeds = root.noises[name].seed, root.noises[name].seeds
        names = {name: root.seed if seed is None else seed}
        if seeds is not None:
            names = {paths.seed_run(name, seed): seed for seed in seeds}
            draws[name] = tuple(names)
        noises |= {draw: replace(noise, seed=seed) for draw, seed in names.items()}
    return noises, draws


def _ensemble(node: schema.EnsembleNode, groups: dict[str, tuple[str, ...]]) -> schema.EnsembleNode:
    """The node with all seeds of its runs."""
    return node.model_copy(update={"runs": paths.expand_groups(groups, node.runs)})


def _ranked(reader: ParamsReader, root: schema.Root) -> dict[str, Strict]:
    """Options of the criteria that rank every run, and of all others in the file."""
    names = set(root.inference)
    for index, entry in enumerate(root.grid.inferences):
        address, parts = f"grid.inferences.{index}", params_checks.parts(entry)
        members = [part for part in parts if reader.is_member(INFERENCES, part, address)]
        names.update(members)
        if members == parts and (text := params_checks.objection(entry)):
            reader.problem(address, text)
    return _criteria(reader, root.inference, sorted(names))


def _criteria(reader: ParamsReader, options: dict[str, dict], names: list[str]) -> dict[str, Strict]:
    places = {name: f"inference.{name}" for name in names}
    members = [reader.member(INFERENCES, name, options.get(name, {}), place, place) for name, place in places.items()]
    return {member.name: member.params for member in members if member}


def _audited(reader: ParamsReader, root: schema.Root, groups: dict[str, tuple[str, ...]]):
    """The report. Its audits and localisations must name runs, which stand for all their seeds; cleaning names noises."""
    for key, names in (("audits", root.report.audits), ("localized", root.report.localized)):
        for index, name in enumerate(names):
            address = f"report.{key}.{index}"
            if reader.reference(name, root.runs, "run", address) and name in names[:index]:
                reader.problem(address, f"'{name}' is named twice")
    for name, dataset in root.report.cleaning.items():
        address = f"report.cleaning.{name}"
        if not reader.reference(name, root.noises, "noise", address):
            continue
        if root.noises[name].seeds is not None:
            reader.problem(address, f"noise '{name}' has several draws; audit one of them by `vse-pipe audit --noise`")
        if root.noises[name].dataset != dataset:
            reader.problem(address, f"noise '{name}' is of data set '{root.noises[name].dataset}', not of '{dataset}'")
    report = root.report
    update = {key: paths.expand_groups(groups, getattr(report, key)) for key in ("audits", "localized")}
    return report.model_copy(update=update)


def _report(reader: ParamsReader, problems: Iterable[tuple[str, str]]) -> None:
    for address, text in problems:
        reader.problem(address, text)


def _dataset(reader: ParamsReader, name: str, node: schema.DatasetNode) -> typed.Dataset:
    address = f"datasets.{name}"
    member = reader.member(registry.FORMATS, node.format, node.model_extra, address, f"{address}.format")
    if member and registry.FORMATS.traits(node.format).proposes:
        params = member.params
        reader.member(
            registry.PROPOSALS, params.proposals, params.options, f"{address}.options", f"{address}.proposals"
        )
    refuse_secrets(node.source)
    return typed.Dataset(member, node.source, node.on_error, node.memory, node.decisions)


def _features(reader: ParamsReader, root: schema.Root, name: str, node: schema.FeaturesNode) -> typed.FeatureSet:
    address = f"features.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    backbone = reader.member(registry.BACKBONES, node.backbone, node.model_extra, address, f"{address}.backbone")
    dataset = root.datasets.get(node.dataset)
    on_error = node.on_error or (dataset.on_error if dataset else "fail")
    return typed.FeatureSet(node.dataset, backbone, on_error, node.max_errors)


def _texts(reader: ParamsReader, root: schema.Root, name: str, node: schema.TextsNode) -> typed.TextSet:
    address = f"texts.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    features = root.features.get(name)
    if features is not None and features.dataset == node.dataset:
        reader.problem(
            address, f"features.{name} of the same data set is written to the same folder; rename one of them"
        )
    method = reader.member(TEXT_FEATURES, node.method, node.model_extra, address, f"{address}.method")
    if method and TEXT_FEATURES.traits(node.method).mixes:
        for index, part in enumerate(method.params.parts):
            _part(reader, part, f"{address}.parts.{index}")
        if not reader.problems and (text := method.params.objection()):
            reader.problem(f"{address}.parts", text)
    return typed.TextSet(node.dataset, method)


def _part(reader: ParamsReader, part: Any, address: str) -> None:
    """A part of a mixed method must give vectors."""
    if reader.member(TEXT_FEATURES, part.method, part.model_extra, address, f"{address}.method"):
        by_name = {name: TEXT_FEATURES.traits(name) for name in TEXT_FEATURES.names()}
        able = [name for name, traits in by_name.items() if traits.gives == "vectors" and not traits.mixes]
        if part.method not in able:
            reader.problem(f"{address}.method", f"'{part.method}' cannot be a part; those that can: {', '.join(able)}")


def _noise(reader: ParamsReader, root: schema.Root, name: str, node: schema.NoiseNode) -> typed.Noise:
    address = f"noises.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    protocol = reader.member(registry.PROTOCOLS, node.protocol, node.model_extra, address, f"{address}.protocol")
    if node.seed is not None and node.seeds is not None:
        reader.problem(f"{address}.seed", "seeds gives a seed to each draw; leave one of them out")
    dataset, key, name = root.datasets.get(node.dataset), "protocol", node.protocol
    if protocol and registry.PROTOCOLS.traits(node.protocol).decides_by == "decisions":
        key, name = "base", protocol.params.base
        if name == node.protocol:
            reader.problem(
                f"{address}.base", f"'{name}' cannot be its own base; name the protocol of the audited pairs"
            )
            return typed.Noise(node.dataset, protocol)
        if not reader.member(registry.PROTOCOLS, name, protocol.params.model_extra, address, f"{address}.base"):
            return typed.Noise(node.dataset, protocol)
    if (
        protocol
        and dataset is not None
        and dataset.format in registry.FORMATS.names()
        and not registry.FORMATS.traits(dataset.format).knows_truth
        and registry.PROTOCOLS.traits(name).knows_truth
    ):
        reader.problem(
            f"{address}.{key}",
            f"data set '{node.dataset}' ({dataset.format}) is noisy by itself, and nobody knows which of its pairs match; use protocol as_is, not '{name}'",
        )
    return typed.Noise(node.dataset, protocol)


def _teacher(reader: ParamsReader, root: schema.Root, name: str, node: schema.TeacherNode) -> schema.TeacherNode:
    address = f"teachers.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    _require_same_dataset(reader, {**root.noises, **root.teachers}, node, "noise", address)
    if (noise := root.noises.get(node.noise)) is not None and noise.seeds is not None:
        reader.problem(f"{address}.noise", f"noise '{node.noise}' has several draws; a teacher takes a noise with one")
    return node


# The first may name in its traits those of the second that it supports: ``losses=("hal",)``.
_PARTNERS = (
    ("scheme", "loss", "losses"),
    ("scheme", "similarity", "similarities"),
    ("loss", "similarity", "similarities"),
)


def _run(reader: ParamsReader, root: schema.Root, name: str, node: schema.RunNode) -> Run:
    address = f"runs.{name}"
    reader.reference(node.dataset, root.datasets, "data set", f"{address}.dataset")
    for key, nodes in (("features", root.features), ("texts", root.texts), ("noise", {**root.noises, **root.teachers})):
        _require_same_dataset(reader, nodes, node, key, address)
    if (noise := root.noises.get(node.noise)) is not None and noise.seeds is not None:
        lacking = [str(seed) for seed in node.seeds or [root.seed] if seed not in noise.seeds]
        if node.seeds is None or lacking:
            text = (
                f"has no draw of seed {', '.join(lacking)}" if node.seeds else "has a draw a seed, and the run no seeds"
            )
            drawn = ", ".join(map(str, noise.seeds))
            reader.problem(f"{address}.seeds", f"noise '{node.noise}' {text}; the run's seeds must be among {drawn}")
    for key in set(node.options) - set(RUN_FAMILIES):
        close = near_miss(key, list(RUN_FAMILIES)) or ";"
        reader.problem(f"{address}.options.{key}", f"unknown family{close} known: {', '.join(RUN_FAMILIES)}")
    members = {key: _member(reader, root, node, key, address) for key in RUN_FAMILIES}
    for key, text in _misfits(root, node, {key for key, member in members.items() if member}):
        reader.problem(f"{address}.{key}", text)
    train = reader.model(schema.TrainParams, {**root.train.model_dump(), **node.train}, f"{address}.train")
    if train and train.warm_up >= train.epochs:
        place = f"{address}.train" if node.train.keys() & {"warm_up", "epochs"} else "train"
        reader.problem(f"{place}.warm_up", f"{train.warm_up:g} epochs leave none of train.epochs {train.epochs}")
    model = _packed_model(reader, node, address)
    return Run(node.dataset, node.features, node.texts, node.noise, **members, train=train, row=node.row, model=model)


def _packed_model(reader: ParamsReader, node: schema.RunNode, address: str) -> typed.GivenModel | None:
    """The model that the run takes instead of training one."""
    if node.model is None or node.sha256 is None:
        if node.model is not None:
            reader.problem(
                f"{address}.sha256", "is missing: the digest of the model's config.json, as its README.md has it"
            )
        if node.sha256 is not None:
            reader.problem(f"{address}.model", "is missing: the folder whose config.json has this sha256")
        return None
    if node.seeds is not None:
        reader.problem(
            f"{address}.seeds", "the run takes one model from a folder, which no seed changes; leave one of them out"
        )
    return typed.GivenModel(node.model, node.sha256)


def _require_same_dataset(reader: ParamsReader, nodes: dict, node: Any, key: str, address: str) -> None:
    """``key`` of a run or teacher must name a node of its own data set."""
    chosen = getattr(node, key)
    if reader.reference(chosen, nodes, key, f"{address}.{key}") and nodes[chosen].dataset != node.dataset:
        reader.problem(
            f"{address}.{key}", f"'{chosen}' belongs to data set '{nodes[chosen].dataset}', not '{node.dataset}'"
        )


def _member(reader: ParamsReader, root: schema.Root, node: schema.RunNode, key: str, address: str) -> Any:
    chosen, overrides = getattr(node, key), node.options.get(key, {})
    shared, section = getattr(root, key).get(chosen) or {}, f"{key}.{chosen}"
    place = f"{address}.options.{key}" if overrides else section
    elsewhere = dict.fromkeys(shared.keys() - overrides.keys(), section)
    return reader.member(RUN_FAMILIES[key], chosen, {**shared, **overrides}, place, f"{address}.{key}", elsewhere)


def _check_unused(reader: ParamsReader, root: schema.Root) -> None:
    """Entries of members that no run names: a typing error in the name of a member or of its option."""
    for key, family in RUN_FAMILIES.items():
        used = {getattr(node, key) for node in root.runs.values()}
        for name, options in getattr(root, key).items():
            if name not in used:
                reader.member(family, name, options, f"{key}.{name}", f"{key}.{name}")


def _misfits(root: schema.Root, node: schema.RunNode, valid: set[str]) -> Iterator[tuple[str, str]]:
    """(entry of the run, problem) of members that do not fit. valid: members whose name and options are right."""
    texts = root.texts.get(node.texts)
    if "text" in valid and texts and texts.method in TEXT_FEATURES.names():
        output, expected = TEXT_FEATURES.traits(texts.method).gives, registry.TEXT_ENCODERS.traits(node.text).reads
        if output != expected:
            source_text = f"texts '{node.texts}' ({texts.method}) are {output}"
            yield "text", f"text encoder '{node.text}' reads {expected}, but {source_text}"
        methods = registry.TEXT_ENCODERS.traits(node.text).methods
        if output == expected and methods and texts.method not in methods:
            yield "text", f"text encoder '{node.text}' reads texts of method {' or '.join(methods)}, not {texts.method}"
    for key, partner, plural in _PARTNERS:
        if {key, partner} <= valid:
            chosen, partner_name = getattr(node, key), getattr(node, partner)
            partners = getattr(RUN_FAMILIES[key].traits(chosen), plural)
            if partners is not None and partner_name not in partners:
                yield key, f"{key} '{chosen}' works with {partner} {', '.join(partners)}, not '{partner_name}'"
    if "scheme" in valid:
        yield from _teacher_misfits(root, node)
    if {"scheme", "image", "text"} <= valid:
        yield from _learner_misfits(node)
    if {"loss", "similarity"} <= valid and (problem := never_learns(node.loss, node.similarity)):
        yield "loss", problem
    if {"similarity", "image", "text"} <= valid:
        yield from (("similarity", text) for text in _fragment_misfits(node))
    source = root.features.get(node.features)
    if source and source.backbone in registry.BACKBONES.names():
        yield from _network_misfits(node, source.backbone, valid)


def _network_misfits(node: schema.RunNode, backbone: str, valid: set[str]) -> Iterator[tuple[str, str]]:
    """Problems of encoders that hold the network behind the run's features, which is another one or none."""
    for key in sorted({"image", "text"} & valid):
        able = RUN_FAMILIES[key].traits(getattr(node, key)).backbones
        if able is not None and backbone not in able:
            network = f"{key} encoder '{getattr(node, key)}' trains the network of features of {' or '.join(able)}"
            yield key, f"{network}, and features '{node.features}' are of {backbone}"
    traits = registry.IMAGE_ENCODERS.traits(node.image) if "image" in valid else registry.ImageEncoderTraits()
    if traits.reads == "pixels" and traits.backbones is None and not registry.BACKBONES.traits(backbone).trainable:
        stored = f"features '{node.features}' ({backbone}) are not made from images"
        if backbone == "open_clip":
            stored = f"features '{node.features}' are of a pretrained pair; take image encoder 'open_clip'"
        yield "image", f"image encoder '{node.image}' reads pixels, but {stored}"


def never_learns(loss: str, similarity: str) -> str | None:
    """The reason why a pair learns nothing from this loss with this similarity, or None."""
    if RUN_FAMILIES["loss"].traits(loss).above_zero and not SIMILARITIES.traits(similarity).above_zero:
        return f"loss '{loss}' pulls a pair together only while its similarity is above 0, and '{similarity}' never is"
    return None


def _fragment_misfits(node: schema.RunNode) -> Iterator[str]:
    """Problems of a similarity of fragments with encoders of one vector, or the reverse."""
    by_fragment = SIMILARITIES.traits(node.similarity).fragments
    images, words = registry.IMAGE_ENCODERS.traits(node.image).regions, registry.TEXT_ENCODERS.traits(node.text).words
    if by_fragment and not images:
        yield f"similarity '{node.similarity}' compares regions, but image encoder '{node.image}' gives one vector an image"
    if by_fragment and not words:
        yield f"similarity '{node.similarity}' compares words, but text encoder '{node.text}' gives one vector a caption"
    if images and not by_fragment:
        yield f"image encoder '{node.image}' gives regions, but similarity '{node.similarity}' compares one vector an image"


def _learner_misfits(node: schema.RunNode) -> Iterator[tuple[str, str]]:
    """Problems of a training scheme without weights to train, or of weights with a scheme that does not train."""
    learn = {key: RUN_FAMILIES[key].traits(getattr(node, key)).learns for key in ("image", "text")}
    if not RUN_FAMILIES["scheme"].traits(node.scheme).trains:
        for key in filter(learn.__getitem__, learn):
            weights = f"{key} encoder '{getattr(node, key)}' has weights"
            yield key, f"{weights}, and scheme '{node.scheme}' trains none; take identity"
    elif not any(learn.values()):
        yield (
            "scheme",
            f"scheme '{node.scheme}' has nothing to train: neither encoder has weights; take scheme zero_shot",
        )


def _teacher_misfits(root: schema.Root, node: schema.RunNode) -> Iterator[tuple[str, str]]:
    """Problems of a scheme with a teacher that lacks one, or the reverse. A packed model needs no teacher."""
    if node.model is not None:
        return
    needs_teacher, has_teacher = RUN_FAMILIES["scheme"].traits(node.scheme).teacher, node.noise in root.teachers
    if needs_teacher and not has_teacher:
        yield "scheme", f"scheme '{node.scheme}' learns from a teacher; name an entry of teachers as noise"
    if has_teacher and not needs_teacher:
        yield "noise", f"'{node.noise}' is a teacher, whom scheme '{node.scheme}' does not ask; take scheme distil"
