"""``python -m benchmarks.cleaning flickr8k_precomp``: what an audit finds, and what cleaning is worth.

The folder has Flickr8k in the layout of format ``precomp``. For each draw of mismatches (the seed of the project): the
audit without a run at 20, 40 and 60 % mismatched captions and images; at 40 %, runs on the clean, the noisy and the
cleaned pairs, on the pairs without the true mismatches (oracle), and robust losses on the noisy ones; audits of runs by
their losses. A line of JSON for each figure.
"""

import argparse
import itertools
import json
import multiprocessing
import os
import shutil
import sys
import time
from pathlib import Path
from typing import Any

DRAWS, RATES, LEVELS = 5, (20, 40, 60), ("caption", "image")
AUTO = 0.5
# Ways to learn, with the options of reports/noise.md for such a model; `strong` is the recipe of docs/recipes.md.
STRONG = {
    "train": {"epochs": 12, "batch_size": 256, "lr": 1.0e-3, "schedule": "cosine", "warm_up": 0.5, "average": 0.998},
    "text": "residual",
    "image": "residual",
    "options": {
        "loss": {"tau": 0.1, "learn": True},
        "text": {"dropout": 0.4, "drop": 0.4},
        "image": {"dropout": 0.3, "drop": 0.3},
    },
}
LINEAR: dict[str, Any] = {
    "train": {"epochs": 24, "batch_size": 128, "lr_update": 18},
    "text": "two_branch",
    "image": "linear",
    "options": {"text": {"nonlinear": False, "drop": 0.4}},
}
WAYS: dict[str, dict] = {
    "strong": {**STRONG, "loss": "infonce"},
    "infonce": {**LINEAR, "loss": "infonce", "lr": 2e-4},
    "crcl": {**LINEAR, "loss": "crcl", "scheme": "crcl", "lr": 1e-4},
    "infonce_rce": {**LINEAR, "loss": "infonce_rce", "lr": 1e-4},
    "rcl": {**LINEAR, "loss": "rcl", "lr": 1e-4},
    "decl": {**LINEAR, "loss": "decl", "scheme": "decl", "lr": 1e-4},
    "ncr": {**LINEAR, "loss": "max", "scheme": "ncr", "lr": 1e-4},
    "l2rm": {**LINEAR, "loss": "max", "scheme": "l2rm", "lr": 5e-4},
    "strong_crcl": {**STRONG, "loss": "crcl", "scheme": "crcl", "lr": 1e-3},
    "strong_rce": {**STRONG, "loss": "infonce_rce", "lr": 1e-3},
}
ROBUST = ("crcl", "infonce_rce", "rcl", "decl", "ncr", "l2rm", "strong_crcl", "strong_rce")
AUDITED = ("infonce", "crcl", "l2rm")


def run_of(way: str, noise: str) -> dict:
    """The entry of params.yaml."""
    node = {name: value for name, value in WAYS[way].items() if name not in ("lr", "options", "train")}
    train = {**WAYS[way]["train"], "embed_size": 512 if "residual" in node["text"] else 256, "mask_same_image": True}
    options = dict(WAYS[way].get("options", {}))
    if way.startswith("strong_"):
        options.pop("loss")
    return {
        **{
            "dataset": "f8",
            "features": "unit",
            "texts": "tfidf",
            "noise": noise,
            "scheme": "plain",
            "similarity": "cosine",
        },
        **node,
        "train": {**train, **({"lr": WAYS[way]["lr"]} if "lr" in WAYS[way] else {})},
        **({"options": options} if options else {}),
    }


def write_params(folder: Path, source: Path, seed: int) -> None:
    from ruamel.yaml import YAML

    yaml = YAML()
    with (Path(__file__).parents[1] / "params.yaml").open() as file:
        params = yaml.load(file)
    noises = {f"{level}_{rate}": (level, rate) for level in LEVELS for rate in RATES}
    params["seed"] = seed
    params["datasets"] = {"f8": {"format": "precomp", "source": str(source)}}
    params["features"] = {"unit": {"dataset": "f8", "backbone": "precomp", "normalise": True, "store": "float32"}}
    params["texts"] = {"tfidf": {"dataset": "f8", "method": "tfidf", "size": 3000}}
    params["noises"] = {"clean": {"dataset": "f8", "protocol": "image", "rate": 0.0}}
    for name, (level, rate) in noises.items():
        params["noises"][name] = {"dataset": "f8", "protocol": level, "rate": rate / 100}
        for kind, file in (("cleaned", f"decisions_{name}.csv"), ("oracle", f"oracle_{name}.csv")):
            decided = {"dataset": "f8", "protocol": "decisions", "base": level, "rate": rate / 100, "file": file}
            params["noises"][f"{kind}_{name}"] = decided
            (folder / file).touch()
    runs = {"strong_clean": run_of("strong", "clean")}
    for level in LEVELS:
        runs |= {f"{way}_{level}_40": run_of(way, f"{level}_40") for way in ("strong", *ROBUST)}
        runs |= {f"strong_{kind}_{level}_40": run_of("strong", f"{kind}_{level}_40") for kind in ("cleaned", "oracle")}
    runs |= {f"{way}_caption_{rate}": run_of(way, f"caption_{rate}") for way in AUDITED for rate in RATES}
    params["runs"] = runs
    params["grid"] = {"inferences": ["nns"]}
    with (folder / "params.yaml").open("w") as file:
        yaml.dump(params, file)


def write_oracle(noise: str) -> None:
    """Decisions to drop every pair that is mismatched, from the truth."""
    import pandas as pd

    from tests.toy_project import write_decisions
    from vse_pipe.project import paths

    pairs = pd.read_parquet(paths.injected("f8", noise) / "pairs.parquet")
    wrong = pairs.loc[pairs["mismatched"] & (pairs["split"] == "train"), "caption_id"]
    values = {"kind": "pair", "proposal": "drop", "decision": "drop", "by": "truth"}
    write_decisions("f8", [values | {"id": number} for number in wrong], noise, f"oracle_{noise}.csv")


def audited(folder: str, noise: str, threads: int) -> dict:
    """The audit without a run, and the automatic decisions on it."""
    import torch

    torch.set_num_threads(threads)
    os.chdir(folder)
    from vse_pipe.audit.data import audit_data
    from vse_pipe.audit.review import desk
    from vse_pipe.inject.stage import inject
    from vse_pipe.project import paths
    from vse_pipe.project.params.load import load

    params = load(paths.PARAMS)
    started = time.monotonic()
    metrics = audit_data(params, "f8", noise)
    seconds = time.monotonic() - started
    decisions = Path(f"decisions_{noise}.csv")
    decisions.unlink()
    record = desk.open_desk("f8", noise, decisions)
    record.decide(AUTO)
    inject(params, f"cleaned_{noise}")
    names = ("pairs", "expected", "interval", "mismatched", "auc", "average_precision", "precision_at_mismatched")
    first = next(row for row in metrics["ranked"] if row["first"] == metrics["expected"])
    ranked = {row["first"]: [row["estimated"], row["precision"]] for row in metrics["ranked"]}
    figures = {name: metrics[name] for name in names} | {"at_expected": [first["estimated"], first["precision"]]}
    return {"audit": noise, "seed": params.seed, "seconds": round(seconds, 1), "ranked": ranked, **figures}


def trained(folder: str, run: str, device: str, threads: int) -> dict:
    """Test rsum of a run, and for runs on noisy pairs what its losses tell."""
    import torch

    torch.set_num_threads(threads)
    os.chdir(folder)
    from vse_pipe.audit import stage as audit
    from vse_pipe.embed.stage import embed
    from vse_pipe.evaluate.stage import evaluate
    from vse_pipe.project import paths
    from vse_pipe.project.params.load import load
    from vse_pipe.train.stage import train

    params = load(paths.PARAMS)
    started = time.monotonic()
    train(params, run, device)
    embed(params, run, device)
    metrics = evaluate(params, run, ["nns"], device)["nns"]
    figures: dict[str, Any] = {
        "run": run,
        "seed": params.seed,
        "rsum": metrics["rsum"],
        "noise": params.runs[run].noise,
    }
    if params.runs[run].noise.startswith(LEVELS):
        found = audit.audit(params, run, device=device)
        figures |= {name: found[name] for name in ("auc", "average_precision", "precision_at_mismatched")}
    return figures | {"seconds": round(time.monotonic() - started, 1)}


def attempt(job: tuple) -> dict:
    name, *arguments = job
    try:
        return {"audited": audited, "trained": trained}[name](*arguments)
    except Exception as error:
        return {"failed": str(arguments[:2]), "error": f"{type(error).__name__}: {error}"}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("data", type=Path)
    options.add_argument("--folder", type=Path, default=Path("/tmp/vse-pipe-cleaning"))
    options.add_argument("--device", default="cpu")
    options.add_argument("--draws", type=int, default=DRAWS)
    options.add_argument("--auditors", type=int, default=1)
    options.add_argument("--trainers", type=int, default=1)
    options.add_argument("--rates", type=int, nargs="+", default=[40, 20, 60])
    options.add_argument("--only", default="", help="runs whose name contains it; none: audits alone")
    chosen = options.parse_args()
    folders = {seed: chosen.folder / str(seed) for seed in range(1, chosen.draws + 1)}
    for seed, folder in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        write_params(folder, chosen.data.resolve(), seed)
    first = folders[1]
    os.chdir(first)
    from vse_pipe.extract.stage import extract
    from vse_pipe.extract.text_stage import extract_texts
    from vse_pipe.inject.stage import inject
    from vse_pipe.prepare.stage import prepare
    from vse_pipe.project import paths
    from vse_pipe.project.params.load import load

    params = load(paths.PARAMS)
    prepare(params, "f8")
    extract(params, "unit", "cpu")
    extract_texts(params, "tfidf")
    noises = [f"{level}_{rate}" for rate in chosen.rates for level in LEVELS]
    for folder in folders.values():
        if folder != first:
            shutil.copytree(first / "data", folder / "data", dirs_exist_ok=True)
        os.chdir(folder)
        params = load(paths.PARAMS)
        for noise in ("clean", *noises):
            inject(params, noise)
        for noise in noises:
            write_oracle(noise)
            inject(params, f"oracle_{noise}")
    threads = max(1, (os.cpu_count() or 1) // (2 * chosen.auditors))
    audits = [("audited", str(folder), noise, threads) for noise in noises for folder in folders.values()]
    runs = [
        ("trained", str(folder), run, chosen.device, 1)
        for run in sorted(params.runs, key=_turn)
        for folder in folders.values()
        if chosen.only in run
    ]
    cleaned = [job for job in runs if "cleaned" in job[2]]
    others = [job for job in runs if "cleaned" not in job[2]]
    context = multiprocessing.get_context("spawn")
    with context.Pool(chosen.auditors) as auditors, context.Pool(chosen.trainers) as trainers:
        first_wave = trainers.imap_unordered(attempt, others[: len(others) // 4])
        doubts = auditors.imap(attempt, audits)
        # Cleaned pairs need the automatic decisions on audits of 40 % mismatches, which come first.
        for _ in range(len(LEVELS) * len(folders)):
            print(json.dumps(next(doubts)), flush=True)
        second_wave = trainers.imap_unordered(attempt, cleaned + others[len(others) // 4 :])
        for line in itertools.chain(first_wave, doubts, second_wave):
            print(json.dumps(line), flush=True)


def _turn(run: str) -> tuple[int, str]:
    """The runs that the table needs first come first."""
    order = ("strong_clean", "strong_caption", "strong_image", "crcl_", "strong_crcl", "infonce_rce", "strong_rce")
    return next((place for place, start in enumerate(order) if run.startswith(start)), len(order)), run


if __name__ == "__main__":
    sys.exit(main())
