import importlib.util
import json
import struct

import pytest

from tests.train.trackers.some import MARK, PARAMETERS, ROWS, interrupted, training, without
from vse_pipe.core.errors import MissingResource
from vse_pipe.train.trackers.wandb import Params, start

_BLOCK, _HEADER = 32768, 7


def records(content: bytes) -> list:
    """What a file of an offline run holds: LevelDB's log format after seven bytes, in blocks of 32 KiB."""
    from wandb.proto import wandb_internal_pb2

    assert content[:4] == b":W&B"
    place, found, parts = _HEADER, [], b""
    while place + _HEADER <= len(content):
        if _BLOCK - place % _BLOCK < _HEADER:  # padding at the end of a block
            place += _BLOCK - place % _BLOCK
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + _HEADER])
        parts += content[place + _HEADER : place + _HEADER + length]
        place += _HEADER + length
        if kind in (1, 4):  # whole, or the last part
            found.append(wandb_internal_pb2.Record.FromString(parts))
            parts = b""
    return found


@pytest.mark.skipif(importlib.util.find_spec("wandb") is None, reason="needs wandb (extra: wandb)")
@pytest.mark.acceptance
@pytest.mark.filterwarnings("ignore")
def test_offline_a_training_that_went_on_is_one_run_with_every_epoch_once(folder, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # whoever asks the network is refused
    interrupted(start, Params())
    files = sorted((folder / "data" / "track" / "wandb").glob("offline-run-*/*.wandb"))
    read = [record for file in files for record in records(file.read_bytes())]
    assert len(files) == 2
    assert {record.run.run_id for record in read if record.HasField("run")} == {MARK[:32]}
    assert {record.run.display_name for record in read if record.HasField("run")} == {"max/1"}
    said = [
        {"/".join(item.nested_key) or item.key: json.loads(item.value_json) for item in record.history.item}
        for record in read
        if record.HasField("history")
    ]
    assert [(row["_step"], row["loss"], row["val_rsum"]) for row in said] == [
        (row["epoch"], pytest.approx(row["loss"]), row["val_rsum"]) for row in ROWS
    ]
    config = {
        item.key: json.loads(item.value_json)
        for record in read
        if record.HasField("run")
        for item in record.run.config.update
    }
    assert {key: config[key] for key in PARAMETERS} == PARAMETERS


def test_without_the_package_the_extra_is_named(folder, monkeypatch):
    without("wandb", monkeypatch)
    with pytest.raises(MissingResource, match=r"tracker wandb needs .*'vse-pipe\[wandb\]'"):
        start(training(), Params())
