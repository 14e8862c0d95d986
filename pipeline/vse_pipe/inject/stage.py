"""inject: pair every caption with an image, and pairs with the models that teach a run."""

import shutil
import time
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Int

from vse_pipe.artifacts import captions, digests, embeddings, identity, images, pairs
from vse_pipe.core.console import say, warn
from vse_pipe.core.errors import InputError
from vse_pipe.core.files import read_json, require, sha256, whole_folder, write_json
from vse_pipe.core.locks import claim
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Member, Params
from vse_pipe.project.registry import PROTOCOLS


def inject(params: Params, noise: str) -> Path:
    """Write data/inject/<dataset>/<noise>/pairs.parquet. Only train pairs can be mismatched;
    with rate 0 all stay as they are.

    A data set without captions has no pairs; runs that train nothing need none. Raises
    MissingResource, IntegrityError or InputError when a protocol cannot use its file."""
    started = time.monotonic()
    node = params.noises[noise]
    out, source = paths.injected(node.dataset, noise), paths.prepared(node.dataset)
    base, is_decided = node.protocol, PROTOCOLS.traits(node.protocol.name).decides
    if is_decided:
        options = base.params
        base = Member(options.base, PROTOCOLS.read(options.base, options.model_extra or {}))
    with claim(out):
        inputs = identity.parts_of(source, "images", "captions")
        needed = ("caption_id", "image_id", "split", *(["text"] if is_decided else []))
        caption_table, image_table = captions.read(source, columns=needed), images.read(source)
        table, numbers = _pairs(image_table, caption_table, base, node.seed), ""
        if is_decided:
            table, numbers = _decided(params, noise, table, image_table, caption_table)
        share = _mismatched(table)
        about = {"protocol": node.protocol.name, "seed": str(node.seed)}
        about["mismatched"] = "unknown" if share is None else f"{share:.5f}"
        with whole_folder(out) as folder:
            pairs.write(folder, table, about)
            identity.write(folder, inputs, {"pairs": sha256(folder / pairs.NAME)})
    paths.record_seconds(out, time.monotonic() - started)
    train = pc.sum(pc.equal(table["split"], "train")).as_py() or 0
    mismatched = "an unknown share" if share is None else f"{share:.2%}"
    protocol = f"decisions on {base.name}" if is_decided else node.protocol.name
    say(f"inject {noise}: {train} train pairs{numbers}, {mismatched} mismatched (protocol {protocol})")
    return out


def _mismatched(table: pa.Table) -> float | None:
    """The share among the train pairs that are not dropped, None where the truth is unknown."""
    used = pc.equal(table["split"], "train")
    if "weight" in table.schema.names:
        used = pc.and_(used, pc.greater(table["weight"], 0))
    column = table.filter(used)["mismatched"]
    return None if column.null_count else pc.mean(column.cast(pa.int8())).as_py() or 0.0


def _pairs(image_table: pa.Table, caption_table: pa.Table, protocol: Member, seed: int) -> pa.Table:
    """The rows of pairs.parquet."""
    true = caption_table["image_id"].to_numpy()
    train_images = image_table["image_id"].to_numpy()[pc.equal(image_table["split"], "train").to_numpy()]
    is_train = pc.equal(caption_table["split"], "train").to_numpy()
    member, image_ids = PROTOCOLS.load(protocol.name), true.copy()
    if is_train.any():
        basis = getattr(protocol.params, "rate", None)
        if path := getattr(protocol.params, "path", None):
            counts = len(train_images), int(is_train.sum())
            basis = pairs.read_noise_index(Path(path), protocol.params.sha256, *counts)
        image_ids[is_train] = shown_images(true[is_train], train_images, member, basis, seed)
    unknown = is_train & (not PROTOCOLS.traits(protocol.name).knows_truth)
    columns = {
        "caption_id": caption_table["caption_id"],
        "image_id": image_ids,
        "true_image_id": pa.array(true, mask=unknown),
        "mismatched": pa.array(image_ids != true, mask=unknown),
        "split": caption_table["split"],
    }
    return pa.table(columns)


def _decided(params: Params, noise: str, table: pa.Table, images: pa.Table, captions: pa.Table) -> tuple[pa.Table, str]:
    """The pairs with the column ``weight``, and in words how many were decided on.

    table: the pairs of the base protocol; images, captions: the prepared tables. Decisions on val
    and test pairs are left to ``prepare``. Raises InputError as ``decisions.read``."""
    from vse_pipe.artifacts import decisions  # pandas, which other protocols do not need

    node = params.noises[noise]
    file, prepared = Path(node.protocol.params.file), params.datasets[node.dataset].decisions
    rows, train = decisions.read(file), pc.equal(table["split"], "train")
    is_pair = rows["kind"] == "pair"
    is_elsewhere = is_pair & rows["id"].isin(table["caption_id"].filter(pc.invert(train)).to_numpy())
    paired = captions.set_column(captions.schema.get_field_index("image_id"), "image_id", table["image_id"])
    train_images = images.filter(pc.equal(images["split"], "train"))
    holding = decisions.in_force(rows, is_pair & ~is_elsewhere, train_images, paired.filter(train))
    elsewhere = int((is_elsewhere & rows["decision"].isin(["drop", "take"])).sum())
    if prepared is not None and Path(prepared).resolve() == file.resolve():
        holding, elsewhere = replace(holding, missing=[]), 0  # ``prepare`` applies them
    for sentence in decisions.notes(holding):
        warn(f"inject {noise}: {sentence}")
    if elsewhere:
        where = f"datasets.{node.dataset}.decisions: {file}"
        warn(f"inject {noise}: decisions on pairs of val and test that are not applied: {elsewhere}; set {where}")
    ids, before = table["caption_id"].to_numpy(), table["image_id"].to_numpy()
    image_ids, weights = PROTOCOLS.load(node.protocol.name).apply(ids, before, holding.rows)
    # Null stays null where the truth is unknown.
    mismatched = pc.not_equal(pa.array(image_ids), table["true_image_id"])
    columns = dict(zip(table.schema.names, table.columns, strict=True))
    columns |= {"image_id": image_ids, "mismatched": mismatched, "weight": weights}
    is_used = weights > 0
    rematched, weighted = (is_used & (image_ids != before)).sum(), (is_used & (weights < 1)).sum()
    numbers = f", {(~is_used).sum()} dropped, {rematched} rematched, {weighted} weighted"
    return pa.table(columns), numbers


def shown_images(
    owners: Int[np.ndarray, " captions"],
    ids: Int[np.ndarray, " images"],
    member: ModuleType,
    basis: float | np.ndarray | None,
    seed: int,
) -> Int[np.ndarray, " captions"]:
    """The image that each caption is shown with. owners: its own image; ids: of all images,
    each once; member: a protocol; basis: its rate, or the array of its index file.

    Protocols use positions in ``ids``, the order of the data set, as the authors' loaders do."""
    return ids[member.corrupt(images.places(ids, owners), len(ids), basis, np.random.RandomState(seed))]


def teach(params: Params, name: str) -> Path:
    """Write data/inject/<dataset>/<name>/: the pairs.parquet of the node that ``noise`` names, and
    teachers.json. Raises InputError for a run that is not embedded, or not with its training split,
    IntegrityError for pairs or vectors of other images or captions than are prepared now."""
    started = time.monotonic()
    node = params.teachers[name]
    out, base = paths.injected(node.dataset, name), paths.injected(node.dataset, node.noise)
    models = params.models(node.run)
    with claim(out):
        identity.require_current(base)
        read = identity.parts_of(base)
        entries = read_json(base / pairs.TEACHER, list) if node.noise in params.teachers else []
        for run in models:
            read |= identity.parts_of(paths.embedded(run), "vectors")
            entries += _entries(params, run, node.weight / len(models))
        with whole_folder(out) as folder:
            shutil.copyfile(base / pairs.NAME, folder / pairs.NAME)
            write_json(folder / pairs.TEACHER, entries)
            parts = {"pairs": sha256(folder / pairs.NAME), "teachers": digests.of_values([entries, read])}
            identity.write(folder, identity.inputs_of(base) | read, parts)
    paths.record_seconds(out, time.monotonic() - started)
    say(f"inject {name}: the pairs of {node.noise}, taught by {', '.join(entry['folder'] for entry in entries)}")
    return out


def _entries(params: Params, run: str, weight: float) -> list[dict]:
    """An entry for each network of the run, which has one or two."""
    folder = paths.embedded(run)
    identity.require_current(folder, (), [paths.trained(params.trained(run)), paths.prepared(params.dataset(run))])
    identity.require_current(folder, ["train"])
    require(folder / embeddings.CAPTIONS)
    images = embeddings.read(folder / embeddings.IMAGES)
    if not (images.splits == "train").any():
        remedy = f"name it in embed.splits and {identity.made_anew(folder)}"
        raise InputError(f"{folder}: holds no split train, whose similarities teach; {remedy}")
    folders = [folder, folder / embeddings.PEER] if "peer_sha256" in images.about else [folder]
    return [{"run": run, "folder": str(path), "weight": weight / len(folders)} for path in folders]
