"""Parquet files with a row an image: its bytes, as the Hugging Face hub has them or plain, and its caption or captions."""

from pydantic import model_validator

from vse_pipe.prepare.engine.shard_params import Part, ShardParams


class Params(ShardParams):
    train: str = "train*.parquet"
    val: Part = "val*.parquet"
    test: Part = "test*.parquet"
    image: str = "image"
    """the column of bytes, or of structs with a field ``bytes``"""
    caption: str = "caption"
    """the column of strings or lists of strings"""
    image_id: str | None = None
    """the column of the images' ids, numbers or text; null: running numbers"""
    split: str | None = None
    """a column that says each row's split, of the files that ``train`` names"""

    @model_validator(mode="before")
    @classmethod
    def _one_way_to_split(cls, values):
        if isinstance(values, dict) and values.get("split") is not None:
            if twice := [name for name in ("val", "test") if name in values]:
                raise ValueError(f"split names a column, so {' and '.join(twice)} must not be given")
            values = {**values, "val": 0.0, "test": 0.0}
        return values
