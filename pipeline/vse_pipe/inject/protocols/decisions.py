"""Decisions on train pairs, by people or an audit, on top of another protocol."""

import numpy as np
import pandas as pd


def apply(caption_ids: np.ndarray, image_ids: np.ndarray, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The image that each caption is shown with, and its weight, float32 from 0 to 1.

    caption_ids, image_ids: (pairs,) of the base; rows: one decision a pair, with the columns id,
    action, other and doubt."""
    rows = rows.set_index("id").reindex(caption_ids)
    action = rows["action"]
    images = rows["other"].where(action == "picture", image_ids).to_numpy(np.int64)
    weights = np.select([action == "drop", action == "weight"], [0.0, 1 - rows["doubt"]], 1.0)
    return images, weights.astype(np.float32)
