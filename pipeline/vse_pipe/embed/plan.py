"""What `vse-pipe embed` would do."""

from vse_pipe.artifacts import captions, embeddings, images
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.registry import SIMILARITIES
from vse_pipe.project.step import AGAIN, FLOAT32, RUNS, Earlier, Step, by_split, rows_in, scaled, seconds


def plan(params: Params, run: str) -> Step:
    node, out = params.runs[params.trained(run)], paths.embedded(run)
    prepared = paths.prepared(params.dataset(run))
    fragments = SIMILARITIES.traits(node.similarity.name).fragments
    splits = params.embed.splits or (["val", "test"] if fragments else images.SPLITS)
    rows = {
        name: sum(by_split(prepared / file).get(split, 0) for split in splits)
        for name, file in (("images", images.NAME), ("captions", captions.NAME))
    }
    work, before = sum(rows.values()), _rows(run)
    alike = [one for one, other in params.runs.items() if one != run and other.image == node.image]
    alike = [one for one in alike if params.runs[one].text == node.text]
    spent, because = seconds(work, [Earlier(paths.embedded(one), _rows(one)) for one in (run, *alike)])
    written = scaled(out, work / before if before else None)
    if written is None and not fragments:
        written = work * node.train.embed_size * FLOAT32
    return Step("embed", run, str(out), AGAIN if before else RUNS, rows, written, spent, because)


def _rows(run: str) -> int | None:
    counts = [rows_in(paths.embedded(run) / name) for name in (embeddings.IMAGES, embeddings.CAPTIONS)]
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None
