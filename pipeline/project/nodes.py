"""Every artefact that params.yaml names: where it lies, which stage of dvc.yaml and which command makes it."""

from dataclasses import dataclass
from pathlib import Path

from pipeline.project import paths
from pipeline.project.params.typed import Params

# How deep below data/<stage>/ its outputs lie.
DEPTH = {"prepare": 1, "extract": 2, "inject": 2, "train": 1, "embed": 1, "evaluate": 1, "audit": 1}


@dataclass(frozen=True)
class Node:
    """group: the stage's key in dvc.yaml; name: of the entry; out: the folder it writes; command: what makes it by hand."""

    group: str
    name: str
    out: Path
    command: str

    @property
    def stage(self) -> str:
        """As DVC addresses it."""
        return f"{self.group}@{self.name}"

    @property
    def advice(self) -> str:
        return f"run `dvc repro {self.stage}`"


def nodes(params: Params) -> list[Node]:
    """In the order of the pipeline."""
    found = [
        Node("prepare", n, paths.prepared(n), f"vse-pipe prepare --dataset {n}") for n in params.datasets
    ]
    found += [
        Node("extract", n, paths.extracted(node.dataset, n), f"vse-pipe extract --features {n}")
        for n, node in params.features.items()
    ]
    found += [
        Node("extract_texts", n, paths.extracted(node.dataset, n), f"vse-pipe extract --texts {n}")
        for n, node in params.texts.items()
    ]
    found += [
        Node("inject", n, paths.injected(node.dataset, n), f"vse-pipe inject --noise {n}")
        for n, node in params.noises.items()
    ]
    for group, where in [
        ("train", paths.trained),
        ("embed", paths.embedded),
        ("evaluate", paths.evaluations),
    ]:
        found += [Node(group, n, where(n), f"vse-pipe {group} --run {n}") for n in params.runs]
    found += [
        Node("evaluate_ensembles", n, paths.evaluations(n), f"vse-pipe evaluate --run {n}")
        for n in params.ensembles
    ]
    audited = params.report.audits
    return found + [Node("audit", n, paths.audited(n), f"vse-pipe audit --run {n}") for n in audited]


def of_folder(out: Path) -> Node | None:
    """The node that writes ``out``, told from where it lies, so that params.yaml need not name it; None elsewhere."""
    parts = out.parts
    if len(parts) < 2 or parts[0] != str(paths.DATA) or len(parts) != 2 + DEPTH.get(parts[1], -1):
        return None
    group, name = parts[1], parts[-1]
    option = {"prepare": "--dataset", "extract": "--features", "inject": "--noise"}.get(group, "--run")
    if group == "extract" and not (out / "features.npy").exists() and (out / "tokens.npy").exists():
        group, option = "extract_texts", "--texts"
    return Node(group, name, out, f"vse-pipe {parts[1]} {option} {name}")


def on_disk() -> list[Path]:
    """The folders where artefacts lie, in the order of the pipeline."""
    found = [
        path
        for stage, depth in DEPTH.items()
        for path in sorted((paths.DATA / stage).glob("/".join("*" * depth)))
    ]
    return [path for path in found if path.is_dir() and not path.name.endswith(".partial")]
