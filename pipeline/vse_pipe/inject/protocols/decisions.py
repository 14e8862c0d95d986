"""Decisions on train pairs, by people or an audit, on top of another protocol."""

import numpy as np
import pandas as pd


def apply(caption_ids: np.ndarray, image_ids: np.ndarray, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The image that each caption is shown with, and its weight, float32 from 0 to 1.

    caption_ids, image_ids: (pairs,) of the base; rows: one decision a pair, with the columns id,
    action, other and doubt."""
    places = pd.Index(caption_ids)
    image_ids = image_ids.copy()
    weights = np.ones(len(image_ids), np.float32)

    def with_action(action: str) -> tuple[pd.DataFrame, np.ndarray]:
        chosen = rows[rows["action"] == action]
        return chosen, places.get_indexer(chosen["id"])

    weights[with_action("drop")[1]] = 0
    moving, place = with_action("picture")
    image_ids[place] = moving["other"].to_numpy(np.int64)
    weighted, place = with_action("weight")
    weights[place] = 1 - weighted["doubt"].to_numpy()
    return image_ids, weights
