"""Preference between pictures and captions that combine the same words in different ways."""

import numpy as np
from jaxtyping import Bool, Float

Answers = dict[str, Bool[np.ndarray, " sets"]]
# Percent of sets that random scores answer.
CHANCE = {"text": 25.0, "image": 25.0, "group": 100.0 / 6.0, "accuracy": 50.0}


def two_by_two(scores: Float[np.ndarray, "sets 2 2"]) -> Answers:
    """Two pictures and their captions, the i-th of the i-th. Each picture prefers its caption (text), each caption its
    picture (image), or both (group). Thrush et al., Winoground, CVPR 2022, Eqs. 1 to 3; equal scores count as no
    preference, as in the paper."""
    matching, swapped = scores[:, [0, 1], [0, 1]], scores[:, [0, 1], [1, 0]]
    text: np.ndarray = np.all(matching > swapped, axis=1)
    image: np.ndarray = np.all(matching > swapped[:, ::-1], axis=1)
    return {"text": text, "image": image, "group": text & image}


def true_or_false(right: Float[np.ndarray, " sets"], wrong: Float[np.ndarray, " sets"]) -> Answers:
    """Whether a picture prefers its caption to a false one. Hsieh et al., SugarCrepe, NeurIPS 2023 (ARO and
    VL-CheckList use the same measure); equal scores count as wrong."""
    return {"accuracy": right > wrong}
