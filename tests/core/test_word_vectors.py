"""Word vectors: the same from every form of file; damage is named."""

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from tests.extract.texts.project import WORDS, as_binary, as_text, vectors
from tests.hostile import Hostile
from vse_pipe.core import arrays, memory
from vse_pipe.core.errors import InputError, UsageError
from vse_pipe.core.word_vectors import read_word_vectors

ARRAY = vectors()


TEXT = as_text(WORDS, ARRAY)
BINARY = as_binary(WORDS, ARRAY)
WANTED = {"red", "caf\u00e9", "ball", "nowhere"}


def written(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return path


FORMS = {
    "glove.txt": TEXT, "word2vec.vec": as_text(WORDS, ARRAY, header=True),
    "trailing.txt": TEXT.replace(b"\n", b" \r\n"), "unfinished.txt": TEXT.rstrip(b"\n"), "packed.txt.gz": TEXT,
    "word2vec.bin": BINARY, "GoogleNews.bin": as_binary(WORDS, ARRAY, b""), "packed.BIN.gz": BINARY,
}  # fmt: skip


@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_the_same(tmp_path: Path, name: str) -> None:
    words, array = read_word_vectors(written(tmp_path, name, FORMS[name]), WANTED)
    assert words == ["ball", "caf\u00e9", "red"]
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, ARRAY[[3, 5, 1]])


def test_words_with_spaces_or_of_no_utf8_are_passed_over(tmp_path: Path) -> None:
    content = b"dog 1 2\n. . . 3 4\nred 5 6\n"
    words, array = read_word_vectors(written(tmp_path, "glove.txt", content), {"dog", "red", "."})
    assert words == ["dog", "red"]
    assert array.tolist() == [[1, 2], [5, 6]]
    content = BINARY.replace(b"unused", b"\xff\xfe\xfd\xfc\xfb\xfa")
    assert read_word_vectors(written(tmp_path, "v.bin", content), {"dog"})[0] == ["dog"]
    with pytest.raises(UsageError, match=r"word vectors are read from \.bin"):
        read_word_vectors(written(tmp_path, "v.pkl", b""), {"dog"})


FAULTS = {
    "short line": ("v.txt", b"dog 1 2 3\nred 1 2\n", r"v\.txt line 2: 2 values, expected 3"),
    "no number": ("v.txt", b"dog 1 2\nred 1 x\n", "could not convert"),
    "truncated": ("v.bin", BINARY[:-9], r"v\.bin: no whole entry of 4 dimensions for word 7 of 7"),
    "no header": ("v.bin", BINARY[4:], "no readable file of word vectors"),
    "damaged gzip": ("v.txt.gz", None, r"v.txt.gz: no readable file"),
    "no known word": ("v.txt", b"Dog 1\nRed 2\n", r"knows none of the 2 words"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_damage_is_named(tmp_path: Path, fault: str) -> None:
    name, content, message = FAULTS[fault]
    path = tmp_path / name
    path.write_bytes(gzip.compress(TEXT)[:-12] if content is None else content)
    with pytest.raises(InputError, match=message):
        read_word_vectors(path, {"dog", "red"})


@pytest.mark.parametrize("form", ["txt", "bin"])
def test_memory_is_for_the_wanted_words_alone(tmp_path: Path, form: str) -> None:
    words = [f"w{number}" for number in range(20_000)]
    array = np.ones((len(words), 64), np.float32)
    path = written(tmp_path, f"v.{form}", (as_text if form == "txt" else as_binary)(words, array))
    tracemalloc.start()
    read_word_vectors(path, {"w7"})
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert path.stat().st_size > 5e6
    assert peak < 4.5e6


def test_objects_are_refused_and_never_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.array([Hostile(tmp_path / "pwned")], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="Python objects"):
        arrays.open_npy(tmp_path / "a.npy", InputError)
    assert not (tmp_path / "pwned").exists()
    hostile = np.array([Hostile(tmp_path / "pwned")], dtype=object)
    np.savez(tmp_path / "v.npz", words=hostile, vectors=ARRAY[:1], allow_pickle=True)
    with pytest.raises(InputError, match=r"v\.npz: "):
        read_word_vectors(tmp_path / "v.npz", {"dog"})
    assert not (tmp_path / "pwned").exists()


def test_what_packs_gigabytes_or_promises_text_without_letters_takes_no_memory(tmp_path: Path) -> None:
    header = f"{{'descr': '<U0', 'fortran_order': False, 'shape': ({2**45},)}}\n".encode()
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header)
    with pytest.raises(InputError, match=r"not a whole \.npy file"):
        arrays.open_npy(tmp_path / "a.npy", InputError)
    np.savez_compressed(tmp_path / "v.npz", words=np.array(["dog"]), vectors=np.zeros((1, 2**24), np.float32))
    refused = pytest.raises(InputError, match=r"v\.npz: takes 65 MiB in memory, more than the 16")
    with memory.limit(16, "some.memory"), refused:
        read_word_vectors(tmp_path / "v.npz", {"dog"})
