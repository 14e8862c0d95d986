"""CSLS by kiez, for ``test_others.py``: kiez 0.5.0 needs numpy < 2 and pandas < 2, so it runs outside of the project.

    uv run --no-project --python 3.11 --with kiez==0.5.0 --with 'scikit-learn<1.6' python tests/api/kiez_csls.py FILE.npz

The file was written with numpy 1.26.4, scikit-learn 1.5.2 and Python 3.11. kiez fails under scikit-learn 1.6 and newer.
"""

import sys

import numpy as np
from kiez import Kiez

K = 5
rng = np.random.default_rng(0)
images = rng.normal(size=(20, 8)).astype(np.float32)
captions = (np.repeat(images, 2, axis=0) + rng.normal(size=(40, 8))).astype(np.float32)
arrays = {"images": images, "captions": captions, "k": np.int64(K)}
for direction, sides in {"image_to_text": (images, captions), "text_to_image": (captions, images)}.items():
    kiez = Kiez(n_candidates=K, algorithm="SklearnNN", algorithm_kwargs={"metric": "cosine"}, hubness="CSLS")
    distances, items = kiez.fit(*(side.astype(np.float64) for side in sides)).kneighbors(K)
    arrays |= {f"{direction}_distances": distances, f"{direction}_items": items.astype(np.int16)}
np.savez_compressed(sys.argv[1], **arrays)
