"""Make the data set ``shapes``: PNG files and the tables of the prepare stage, from one seed."""

import hashlib
from pathlib import Path

import numpy as np

from vse_pipe.core.console import track
from vse_pipe.core.devices import generator
from vse_pipe.prepare.engine.scenes.captions import describe
from vse_pipe.prepare.engine.scenes.drawing import box, draw
from vse_pipe.prepare.engine.scenes.params import ShapesParams
from vse_pipe.prepare.engine.scenes.sampling import near_duplicate, sample_scene
from vse_pipe.prepare.engine.scenes.scene import Scene, pick
from vse_pipe.prepare.engine.source import Source, caption_table, image_table, phrase_table

FOLDER = "images"


def render(out: Path, params: ShapesParams, seed: int) -> Source:
    """Write ``out/images/<split>_<number>.png`` and return the tables of images, captions and, where asked for, phrases.

    ``file`` is relative to ``out/images``; images are numbered from 1 through train, val and test. Each split draws
    from its own generators, so its scenes do not depend on the sizes of the others, and a near duplicate always copies
    a scene of its own split. A phrase's chain is the number of its figure, from 1; its type is the figure's shape.
    """
    folder = out / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    image_rows: list[tuple] = []
    caption_rows: list[tuple] = []
    phrase_rows: list[tuple] = []
    for split in params.counts():
        words = generator(seed, "shapes captions", split)
        scenes = sample_split(params, split, seed)
        for number, scene in enumerate(track(scenes, len(scenes), f"drawing scenes of {split}"), start=1):
            image_id, name = len(image_rows) + 1, f"{split}_{number:05d}.png"
            draw(scene, params.pixels).save(folder / name)
            digest = hashlib.sha256((folder / name).read_bytes()).hexdigest()
            image_rows.append((image_id, name, split, params.pixels, params.pixels, digest))
            wanted = int(words.integers(params.min_captions, params.max_captions + 1))
            for text, mentions in describe(scene, wanted, params.vague, words).items():
                caption_id = len(caption_rows) + 1
                caption_rows.append((caption_id, image_id, text, split))
                for start, phrase, index in mentions:
                    figure = scene.figures[index]
                    of = (len(phrase_rows) + 1, caption_id, image_id, index + 1, start, phrase, figure.shape)
                    phrase_rows.append((*of, *box(figure, params.pixels), split))
    tables = image_table(*zip(*image_rows, strict=True)), caption_table(*zip(*caption_rows, strict=True))
    phrases = phrase_table(phrase_rows, "the rendered scenes") if params.phrases else None
    return Source(*tables, str(folder), phrases=phrases)


def sample_split(params: ShapesParams, split: str, seed: int) -> list[Scene]:
    """The scenes of one split, all different; a share ``near_duplicates`` copy an earlier one with one change."""
    rng: np.random.Generator = generator(seed, "shapes scenes", split)
    scenes: list[Scene] = []
    seen: set[Scene] = set()
    while len(scenes) < params.counts()[split]:
        copies = scenes and rng.random() < params.near_duplicates
        scene = near_duplicate(pick(rng, scenes), rng) if copies else sample_scene(rng)
        # A change may undo an earlier one; two equal images could not be told apart by any model.
        if scene not in seen:
            scenes.append(scene)
            seen.add(scene)
    return scenes
