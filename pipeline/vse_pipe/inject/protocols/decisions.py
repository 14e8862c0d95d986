"""Decisions on train pairs, made by people or by an audit, on top of the pairs of another protocol."""

import numpy as np
import pandas as pd


def apply(caption_ids: np.ndarray, image_ids: np.ndarray, rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The image that each caption is shown with, and its weight, float32 from 0 to 1.

    caption_ids, image_ids: (pairs,) of the base; rows: decisions on pairs, with the columns id, action, other and
    doubt. A caption that another
    pair takes moves there even if its old pair is dropped, but not if its own pair is kept, weighted or rematched. Of
    two pairs that take the same caption, the later row has it."""
    places = pd.Index(caption_ids)
    image_ids, before = image_ids.copy(), image_ids
    weights = np.ones(len(image_ids), np.float32)

    def with_action(*actions: str) -> tuple[pd.DataFrame, np.ndarray]:
        chosen = rows[rows["action"].isin(actions)]
        return chosen, places.get_indexer(chosen["id"])

    weights[with_action("drop", "caption")[1]] = 0
    taking, place = with_action("caption")
    stays = taking["other"].isin(with_action("keep", "weight", "picture")[0]["id"]).to_numpy()
    receivers = places.get_indexer(taking["other"].to_numpy(np.int64)[~stays])
    image_ids[receivers], weights[receivers] = before[place[~stays]], 1
    moving, place = with_action("picture")
    image_ids[place] = moving["other"].to_numpy(np.int64)
    weighted, place = with_action("weight")
    weights[place] = 1 - weighted["doubt"].to_numpy()
    return image_ids, weights
