"""What `vse-pipe extract --texts` would do."""

from vse_pipe.artifacts import captions, texts
from vse_pipe.core.files import read_json, sha256
from vse_pipe.project import paths
from vse_pipe.project.params.typed import Params
from vse_pipe.project.step import AGAIN, DONE, RUNS, Earlier, Step, rows_in, scaled, seconds


def plan(params: Params, name: str) -> Step:
    node = params.texts[name]
    out, source = paths.extracted(node.dataset, name), paths.prepared(node.dataset) / captions.NAME
    count, before = rows_in(source), rows_in(out / texts.INDEX)
    state, meta = RUNS, read_json(out / texts.META) if (out / texts.META).is_file() else None
    spent, because = seconds(count, [Earlier(out, before)])
    if meta is not None:
        state = AGAIN
        asked = {"method": node.method.name, "seed": params.seed, "captions_sha256": sha256(source)}
        options = node.method.params.model_dump(mode="json")
        if all(meta.get(key) == value for key, value in asked.items()) and meta.get("options") == options:
            state, spent = DONE, 0.0
            because = "same captions and parameters; the command itself compares files, code and versions too"
    share = count / before if count and before else None
    written = 0 if state == DONE else scaled(out, share)
    return Step("extract_texts", name, str(out), state, {"captions": count or 0}, written, spent, because)
