"""Shards on object storage: the same tables as from the disk, ranges in place of whole files, and one line for what goes wrong."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pyarrow as pa
import pytest

from tests import bombs
from tests.prepare._data import one_line, picture, prepare, read, sample, shard
from vse_pipe.artifacts import captions, images
from vse_pipe.core import files as core_files
from vse_pipe.core import remote
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, PipelineError
from vse_pipe.pictures import address
from vse_pipe.pictures import read as sources
from vse_pipe.prepare.source import Source

COUNT = 6
OPTIONS = {"val": 0.0, "test": 0.0}
SECRET = "AKIASECRETSECRET"


@pytest.fixture
def files(folder: Path) -> dict[str, bytes]:
    """By name: two tar shards, and a Parquet file."""
    address._opened.cache_clear()
    for number in range(2):
        members = [one for k in range(3) for one in sample(f"{number}{k}", 3 * number + k, f"caption {number} {k}")]
        shard(folder / f"raw/train-{number:04d}.tar", members)
    bombs.captioned(folder / "raw/train-0.parquet", [f"caption {number}" for number in range(COUNT)])
    return {path.name: path.read_bytes() for path in (folder / "raw").iterdir()}


@pytest.fixture
def bucket(files: dict[str, bytes]) -> Iterator[str]:
    """A folder of the protocol that is always there."""
    system = fsspec.filesystem("memory")
    for name, content in files.items():
        system.pipe(f"/bucket/shards/{name}", content)
    yield "memory://bucket/shards"
    system.rm("/bucket", recursive=True)


def shards(root: str) -> Source:
    return read("webdataset", Path(root), Path("out"), **OPTIONS)


def same_as_on_the_disk(kind: str, there: str) -> pa.Table:
    """The tables, and pictures read from where these say."""
    wanted = read(kind, Path("raw"), Path("out"), **OPTIONS)
    out = prepare(kind, there, **OPTIONS)
    table = images.read(out)
    assert table.equals(wanted.images)
    assert captions.read(out).equals(wanted.captions)
    kept = [0] * COUNT if kind == "parquet" else range(COUNT)
    found = [sources.content(images.root(table), file, "x") for file in table["file"].to_pylist()]
    assert found == [picture(number) for number in kept]
    return table


@pytest.mark.parametrize("kind", ["webdataset", "parquet"])
def test_the_tables_are_those_of_the_disk(kind: str, bucket: str) -> None:
    table = same_as_on_the_disk(kind, bucket)
    assert images.root(table) == Path(bucket)
    assert core_files.url(images.root(table)) == bucket
    files = table["file"].to_pylist()
    assert [sources.at(Path(bucket) / file) for file in files] == [
        sources.content(Path(bucket), file, "x") for file in files
    ]


@pytest.mark.parametrize("source", ["memory://bucket/shards/train-{0000..0001}.tar", "raw/train-{0000..0001}.tar"])
def test_shards_by_their_numbers(source: str, bucket: str) -> None:
    assert read("webdataset", Path(source), Path("out")).images.num_rows == COUNT
    message = r"train-0002\.tar: does not exist, and 'train-\{0001\.\.0002\}\.tar' names it"
    with pytest.raises(InputError, match=message):
        shards(source.replace("0001}", "0002}").replace("{0000", "{0001"))


def test_a_picture_is_one_range(bucket: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, system = [], type(fsspec.filesystem("memory"))
    whole = system.cat_file

    def counted(self, path, start=None, end=None, **options):
        asked.append(end - start)
        return whole(self, path, start, end, **options)

    monkeypatch.setattr(system, "cat_file", counted)
    assert shards(bucket).images.num_rows == COUNT
    assert asked == [len(picture(number)) for number in range(COUNT)]


def test_a_shard_that_ends_before_a_picture_does(bucket: str) -> None:
    file = shards(bucket).images["file"][5].as_py()
    fsspec.filesystem("memory").pipe("/bucket/shards/train-0001.tar", b"short")
    with pytest.raises(IntegrityError, match=r"memory://bucket/shards/train-0001\.tar ends before 12\.png does"):
        sources.content(Path(bucket), file, "x")


@pytest.mark.parametrize("name", ["../other/a.tar::0:1::a.png", "/etc/a.tar::0:1::a.png", "a//b.tar::0:1::a.png"])
def test_names_stay_below_the_bucket(bucket: str, name: str) -> None:
    with pytest.raises(InputError, match="outside its root memory://bucket/shards"):
        sources.content(Path(bucket), name, "row 0")


@pytest.mark.parametrize(("source", "status", "message"), [
    ("memory://bucket/nothing", 3, "memory://bucket/nothing: no file matches train"),
    ("nowhere://bucket/shards", 4, "fsspec says: Protocol not known"),
    (f"s3://{SECRET}:x@bucket/shards", 2, "no user, password or query in it"),
    (f"s3:/x:{SECRET}@bucket/shards", 2, "no user, password or query in it"),
    (f"s3://bucket/shards?X-Amz-Signature={SECRET}", 2, "no user, password or query in it"),
])  # fmt: skip
def test_what_a_user_gets_wrong(source: str, status: int, message: str, bucket: str) -> None:
    assert told(source, message) == status


def told(source: str, message: str) -> int:
    """The exit status of what is refused in one line without a secret and with nothing written."""
    with one_line(message, PipelineError) as caught:
        prepare("webdataset", source, **OPTIONS)
    assert SECRET not in str(caught.value)
    assert list(Path("data").rglob("*.parquet")) == []
    return caught.value.exit_status


@pytest.fixture
def s3(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real server of S3 on this machine."""
    pytest.importorskip("s3fs", reason="extra s3 is not installed: pip install 'vse-pipe[s3]'")
    moto = pytest.importorskip("moto.server", reason="moto[server] is not installed")
    server = moto.ThreadedMotoServer("127.0.0.1", 0)
    server.start()
    _point(monkeypatch, "http://{}:{}".format(*server.get_host_and_port()))
    system = fsspec.filesystem("s3")
    with contextlib.suppress(FileExistsError):  # servers of one process hold the same
        system.mkdir("bucket")
    for name, content in files.items():
        system.pipe(f"bucket/shards/{name}", content)
    yield "s3://bucket/shards"
    server.stop()
    remote._system.cache_clear()


def _point(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    settings = {"AWS_ACCESS_KEY_ID": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**settings, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    remote._system.cache_clear()
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["webdataset", "parquet"])
def test_on_a_server_of_s3(kind: str, s3: str) -> None:
    table = same_as_on_the_disk(kind, s3)
    with pytest.raises(MissingResource, match=r"s3://nobody/shards.*: there is no such bucket, folder or file"):
        prepare(kind, "s3://nobody/shards", **OPTIONS)
    assert images.read(Path("data/prepare/tiny")).equals(table)
