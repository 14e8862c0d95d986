"""Shards on object storage: the same tables as from the disk, ranges in place of whole files, and one line for what goes wrong."""

import contextlib
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest

from tests import bombs
from tests.prepare._data import picture, prepare, read
from tests.prepare.formats.test_webdataset import sample, shard
from vse_pipe.artifacts import captions, images
from vse_pipe.core import files as core_files
from vse_pipe.core import remote
from vse_pipe.core.errors import InputError, IntegrityError, MissingResource, PipelineError, UsageError
from vse_pipe.pictures import address
from vse_pipe.pictures import read as sources

COUNT = 6
OPTIONS = {"val": 0.0, "test": 0.0}
SECRET = "AKIASECRETSECRET"


def _shards(folder: Path) -> dict[str, bytes]:
    """Files by name: two tar shards, and a Parquet file."""
    for number in range(2):
        members = [one for k in range(3) for one in sample(f"{number}{k}", 3 * number + k, f"caption {number} {k}")]
        shard(folder / f"train-{number:04d}.tar", members)
    bombs.captioned(folder / "train-0.parquet", [f"caption {number}" for number in range(COUNT)])
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, bytes]:
    monkeypatch.chdir(tmp_path)
    address._far.cache_clear()
    return _shards(tmp_path / "raw")


@pytest.fixture
def bucket(files: dict[str, bytes], tmp_path: Path) -> Iterator[str]:
    """A folder of the protocol that is always there."""
    system = fsspec.filesystem("memory")
    for name, content in files.items():
        system.pipe(f"/bucket/shards/{name}", content)
    yield "memory://bucket/shards"
    system.rm("/bucket", recursive=True)


@pytest.mark.parametrize("kind", ["webdataset", "parquet"])
def test_the_tables_are_those_of_the_disk(kind: str, bucket: str, tmp_path: Path) -> None:
    there = bucket
    wanted = read(kind, tmp_path / "raw", tmp_path / "out", **OPTIONS)
    out = prepare(kind, there, **OPTIONS)
    table = images.read(out)
    assert table.equals(wanted.images)
    assert captions.read(out).equals(wanted.captions)
    assert images.root(table) == Path(there)
    assert core_files.url(images.root(table)) == there
    files = table["file"].to_pylist()
    kept = [0] * COUNT if kind == "parquet" else range(COUNT)
    assert [sources.content(Path(there), file, "x") for file in files] == [picture(number) for number in kept]
    assert [sources.at(Path(there) / file) for file in files] == [picture(number) for number in kept]


def test_a_url_of_a_folder_is_that_folder(files: dict[str, bytes], tmp_path: Path) -> None:
    out = prepare("webdataset", f"file://{tmp_path}/raw", **OPTIONS)
    assert images.root(images.read(out)) == tmp_path / "raw"


@pytest.mark.parametrize("source", ["memory://bucket/shards/train-{0000..0001}.tar", "raw/train-{0000..0001}.tar"])
def test_shards_by_their_numbers(source: str, bucket: str, tmp_path: Path) -> None:
    assert read("webdataset", Path(source), tmp_path / "out").images.num_rows == COUNT
    with pytest.raises(
        InputError, match=r"train-0002\.tar: does not exist, and 'train-\{0001\.\.0002\}\.tar' names it"
    ):
        read("webdataset", Path(source.replace("0001}", "0002}").replace("{0000", "{0001")), tmp_path / "out")


def test_a_picture_is_one_range(bucket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    system = type(fsspec.filesystem("memory"))
    whole = system.cat_file

    def counted(self, path, start=None, end=None, **options):
        asked.append(end - start)
        return whole(self, path, start, end, **options)

    monkeypatch.setattr(system, "cat_file", counted)
    found = read("webdataset", Path(bucket), tmp_path / "out", **OPTIONS)
    assert found.images.num_rows == COUNT
    assert asked == [len(picture(number)) for number in range(COUNT)]


def test_a_shard_that_ends_before_a_picture_does(bucket: str, tmp_path: Path) -> None:
    file = read("webdataset", Path(bucket), tmp_path / "out", **OPTIONS).images["file"][5].as_py()
    fsspec.filesystem("memory").pipe("/bucket/shards/train-0001.tar", b"short")
    with pytest.raises(IntegrityError, match=r"memory://bucket/shards/train-0001\.tar ends before 12\.png does"):
        sources.content(Path(bucket), file, "x")


def test_names_stay_below_the_bucket(bucket: str) -> None:
    for name in ("../other/a.tar::0:1::a.png", "/etc/a.tar::0:1::a.png", "a//b.tar::0:1::a.png"):
        with pytest.raises(InputError, match="outside its root memory://bucket/shards"):
            sources.content(Path(bucket), name, "row 0")


@pytest.mark.parametrize(("source", "status", "message"), [
    ("memory://bucket/nothing", 3, "memory://bucket/nothing: no file matches train"),
    ("memory://bucket/shards/none.tar", 3, "no file matches"),
    ("nowhere://bucket/shards", 2, "fsspec knows no such protocol"),
    (f"s3://{SECRET}:x@bucket/shards", 2, "no user, password or query in it"),
    (f"s3://AKIA:{SECRET}/b@bucket/shards", 2, "no user, password or query in it"),
    (f"S3://x:{SECRET}@bucket/shards", 2, "no user, password or query in it"),
    (f"s3:/x:{SECRET}@bucket/shards", 2, "no user, password or query in it"),
    (f"s3://bucket/shards?X-Amz-Signature={SECRET}", 2, "no user, password or query in it"),
])  # fmt: skip
def test_what_a_user_gets_wrong(source: str, status: int, message: str, bucket: str) -> None:
    with pytest.raises(PipelineError, match=message) as caught:
        prepare("webdataset", source, **OPTIONS)
    assert caught.value.exit_status == status
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert list(Path("data").rglob("*.parquet")) == []


def test_other_formats_read_the_disk(bucket: str) -> None:
    with pytest.raises(
        UsageError, match=r"source memory://bucket/shards: object storage is read by .* webdataset and parquet"
    ):
        prepare("karpathy", bucket)


@pytest.fixture
def s3(files: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A real server of S3 on this machine."""
    pytest.importorskip("s3fs", reason="extra s3 is not installed: pip install 'vse-pipe[s3]'")
    server = pytest.importorskip("moto.server", reason="moto[server] is not installed").ThreadedMotoServer(
        "127.0.0.1", 0
    )
    server.start()
    host, port = server.get_host_and_port()
    _point(monkeypatch, f"http://{host}:{port}")
    system = fsspec.filesystem("s3")
    with contextlib.suppress(FileExistsError):  # servers of one process hold the same
        system.mkdir("bucket")
    for name, content in files.items():
        system.pipe(f"bucket/shards/{name}", content)
    yield "s3://bucket/shards"
    server.stop()
    remote._made.cache_clear()


def _point(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    settings = {"AWS_ACCESS_KEY_ID": SECRET, "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_DEFAULT_REGION": "us-east-1"}
    for name, value in {**settings, "AWS_ENDPOINT_URL": endpoint}.items():
        monkeypatch.setenv(name, value)
    remote._made.cache_clear()
    fsspec.get_filesystem_class("s3").clear_instance_cache()


@pytest.mark.acceptance
@pytest.mark.parametrize("kind", ["webdataset", "parquet"])
def test_on_a_server_of_s3(kind: str, s3: str, tmp_path: Path) -> None:
    wanted = read(kind, tmp_path / "raw", tmp_path / "out", **OPTIONS)
    table = images.read(prepare(kind, s3, **OPTIONS))
    assert table.equals(wanted.images)
    files = table["file"].to_pylist()
    assert [sources.content(images.root(table), file, "x") for file in files] == [
        picture(0 if kind == "parquet" else number) for number in range(COUNT)
    ]
    with pytest.raises(MissingResource, match=r"s3://nobody/shards.*: there is no such bucket, folder or file"):
        prepare(kind, "s3://nobody/shards", **OPTIONS)
    assert images.read(Path("data/prepare/tiny")).equals(table)


class _Answers(http.server.BaseHTTPRequestHandler):
    """Whatever is asked: 403, half of what was promised, or nothing for longer than anybody waits."""

    how = ""

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        if self.how == "silent":
            self.server.ended.wait(20)
            return
        if self.how == "forbidden":
            self.send_error(403)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(2**20))
        self.send_header("ETag", '"x"')
        self.send_header("Last-Modified", "Mon, 01 Jan 2024 00:00:00 GMT")
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(bytes(600))
            self.wfile.flush()
            self.connection.close()

    def log_message(self, *arguments: object) -> None:
        pass


@pytest.mark.acceptance
@pytest.mark.parametrize(("how", "status", "message"), [
    ("forbidden", 4, "may not be read with these credentials"),
    ("silent", 1, "cannot be read"),
    ("dropped", 1, "cannot be read"),
    ("gone", 1, "cannot be read"),
])  # fmt: skip
def test_servers_that_fail(how: str, status: int, message: str, files: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("s3fs", reason="extra s3 is not installed: pip install 'vse-pipe[s3]'")
    monkeypatch.setattr(_Answers, "how", how)
    quick = {"connect_timeout": 1, "read_timeout": 1, "retries": {"max_attempts": 0}}
    monkeypatch.setitem(remote._OPTIONS, "s3", {"config_kwargs": quick})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.ended = threading.Event()
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    _point(monkeypatch, f"http://127.0.0.1:{server.server_port}")
    if how == "gone":
        server.shutdown()
        server.server_close()
    try:
        with pytest.raises(PipelineError, match=message) as caught:
            prepare("webdataset", "s3://bucket/train-0000.tar", **OPTIONS)
    finally:
        server.ended.set()
        server.shutdown()
        server.server_close()
        thread.join()
        remote._made.cache_clear()
    assert (caught.value.exit_status, SECRET in str(caught.value)) == (status, False)
    assert "\n" not in str(caught.value)
    assert list(Path("data").rglob("*.parquet")) == []


def test_without_the_extra_it_is_named(files: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent(protocol: str, **options: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec, "filesystem", absent)
    remote._made.cache_clear()
    with pytest.raises(MissingResource, match=r"source s3:// needs the package s3fs.*pip install 'vse-pipe\[s3\]'"):
        prepare("webdataset", "s3://bucket/shards", **OPTIONS)
