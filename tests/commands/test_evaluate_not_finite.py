"""vse-pipe evaluate of files with NaN or infinite values."""

from dataclasses import replace

import numpy as np

from tests.commands.options import arguments
from tests.evaluate.files import sample, write


def test_rows_that_are_not_finite_are_dropped_when_asked_for(call, tmp_path):
    """With an image go its captions, and with its only caption an image."""
    one = sample()
    images, captions = one.images.copy(), one.captions.copy()
    alone = np.flatnonzero(np.bincount(np.searchsorted(np.sort(one.image_ids), one.owners)) == 1)
    lost = np.sort(one.image_ids)[alone[:2]]
    images[one.image_ids == lost[0], 3] = np.nan
    captions[one.owners == lost[1], 0] = np.inf
    files = write(one.but(images=images, captions=captions), tmp_path)
    status, _, err = call("evaluate", *arguments(files))
    assert status == 3
    assert f"a.parquet: 1 rows hold NaN or infinite values: image_id {lost[0]}; --nan drop leaves them out" in err
    status, out, err = call("evaluate", *arguments(replace(files, nan="drop")), "--json")
    assert status == 0
    assert f"a.parquet: 1 rows hold NaN or infinite values and are left out: image_id {lost[0]}" in err
    assert "with them 1 images and 1 captions" in err
    kept, told = ~np.isin(one.image_ids, lost), ~np.isin(one.owners, lost)
    rest = one.but(
        image_ids=one.image_ids[kept],
        images=one.images[kept],
        caption_ids=one.caption_ids[told],
        owners=one.owners[told],
        captions=one.captions[told],
    )
    assert call("evaluate", *arguments(write(rest, tmp_path)), "--json")[1] == out


def test_a_file_without_any_finite_row_is_not_emptied(call, tmp_path):
    one = sample()
    files = write(one.but(images=np.full_like(one.images, np.nan)), tmp_path)
    assert call("evaluate", *arguments(replace(files, nan="drop")))[0] == 3
    assert call("evaluate", *arguments(replace(files, nan="keep")))[0] == 2
