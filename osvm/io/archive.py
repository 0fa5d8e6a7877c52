"""The container of model files: a zip of ``.npy`` arrays and one JSON header.

Layout (``doc/guide/model_format.rst`` is the full description)
- members are stored, not compressed: ``header.json`` first, then one
  ``<name>.npy`` for each array that the header lists, in its order;
- the archive's comment is 64 hexadecimal digits, the SHA-256 of every byte
  before it, so that the file ends with its own checksum.

Invariants
- nothing in a file is looked at before the checksum of the whole was found
  right, and no array is allocated before its size was found to be in the file;
- a file is written beside its final name, synced and renamed: whoever opens
  the name finds the old file or the new one.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import stat
import zipfile
from collections.abc import Iterator
from typing import IO, Any

import numpy as np

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

HEADER = "header.json"
HEADER_CAP = 1 << 26  # bytes
MEMBER_CAP = 1000
DIGEST = 64  # hexadecimal digits of SHA-256
PIECE = 1 << 20
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
ARRAY_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]{0,99}(/[A-Za-z_][A-Za-z0-9_.]{0,99})?")


class ModelFileError(ValueError):
    """A file that is not a whole, sound model file of a known version."""


# ------------------------------------------------------------------- arrays


def npy_prefix(dtype: str, shape: tuple[int, ...]) -> bytes:
    """What stands before the data in a ``.npy`` member: version 1.0, C order."""
    text = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape!r}, }}"
    padding = -(10 + len(text) + 1) % 64
    body = text.encode("latin1") + b" " * padding + b"\n"
    return b"\x93NUMPY\x01\x00" + len(body).to_bytes(2, "little") + body


def describe(name: str, array: Any) -> tuple[np.ndarray, dict[str, Any]]:
    """The array as it is stored, and its entry in the header."""
    if not ARRAY_NAME.fullmatch(name):
        raise ValueError(f"{name!r} cannot name an array of a model file")
    array = np.asarray(array)
    stored = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    stored = stored.reshape(array.shape)  # a 0-dimensional array stays one
    dtype = np.lib.format.dtype_to_descr(stored.dtype)
    if dtype not in DTYPES:
        raise ValueError(f"array {name!r} has dtype {array.dtype}, which model files do not hold")
    entry: dict[str, Any] = {"dtype": dtype, "shape": list(array.shape)}
    if stored.dtype.kind == "f":
        entry["finite"] = bool(np.isfinite(stored).all())
    return stored, entry


# ------------------------------------------------------------------ writing


class _Digester:
    """A file that only grows, hashing everything but its last `DIGEST` bytes."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file = file
        self.hash = hashlib.sha256()
        self.tail = b""

    def write(self, data: Any) -> int:
        self.file.write(data)
        view = memoryview(data).cast("B")
        if len(view) >= DIGEST:
            self.hash.update(self.tail)
            self.hash.update(view[: len(view) - DIGEST])
            self.tail = bytes(view[len(view) - DIGEST :])
        else:
            joined = self.tail + bytes(view)
            cut = max(0, len(joined) - DIGEST)
            self.hash.update(joined[:cut])
            self.tail = joined[cut:]
        return len(view)

    def flush(self) -> None:
        self.file.flush()


def write_archive(path: Any, header: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Write header and arrays to `path` (all or nothing), or to an open binary file."""
    stored: dict[str, np.ndarray] = {}
    entries: dict[str, Any] = {}
    for name, array in arrays.items():
        stored[name], entries[name] = describe(name, array)
    if len(stored) + 1 > MEMBER_CAP:
        raise ValueError(f"{len(stored)} arrays are too many for one model file")
    text = json.dumps({**header, "arrays": entries}, allow_nan=False, indent=1).encode()
    if len(text) > HEADER_CAP:
        raise ValueError(
            f"the header takes {len(text)} bytes, more than the {HEADER_CAP} that a model file "
            "holds; were feature names or labels meant to be that long?"
        )
    with contextlib.nullcontext(path) if hasattr(path, "write") else replacing(path) as file:
        out = _Digester(file)
        with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as archive:  # type: ignore[call-overload]
            archive.comment = b"0" * DIGEST
            with archive.open(_member(HEADER), "w") as member:
                member.write(text)
            for name, array in stored.items():
                size = array.nbytes + 4096
                with archive.open(
                    _member(f"{name}.npy"), "w", force_zip64=size > 1 << 31
                ) as member:
                    member.write(npy_prefix(entries[name]["dtype"], array.shape))
                    if array.nbytes:
                        flat = memoryview(array.reshape(-1)).cast("B")
                        for start in range(0, len(flat), PIECE):
                            member.write(flat[start : start + PIECE])
        file.seek(-DIGEST, os.SEEK_END)
        file.write(out.hash.hexdigest().encode())


def _member(name: str) -> zipfile.ZipInfo:
    """A member with nothing in it that depends on the time or the machine."""
    info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    info.external_attr = 0o644 << 16
    info.create_system = 3
    return info


def check_folder(path: Any) -> None:
    """Raise unless there is a folder for the file, and nothing but a file in its place."""
    path = os.path.realpath(os.fspath(path))
    folder = os.path.dirname(path)
    if not os.path.isdir(folder):
        raise FileNotFoundError(errno.ENOENT, "no such folder to save in", folder)
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "a folder, where a file is to be saved", path)
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "a device or pipe, which cannot be replaced by a file", path)


@contextlib.contextmanager
def replacing(path: Any) -> Iterator[IO[bytes]]:
    """A new file that takes the name `path` when the block ends, and only then."""
    path = os.path.realpath(os.fspath(path))  # a link stays one
    folder, name = os.path.split(path)
    check_folder(path)
    remove_leftovers(path)
    temporary, handle = _new_temporary(folder, name)
    try:
        with os.fdopen(handle, "r+b") as file:
            keep_mode(path, handle)
            yield file
            file.flush()
            os.fsync(handle)
            if fcntl is not None:  # while the lock is held
                os.replace(temporary, path)
        if fcntl is None:  # a system where files that are open cannot be renamed
            os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_folder(folder)


def _new_temporary(folder: str, name: str) -> tuple[str, int]:
    """A new file in the folder, open and locked."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    while True:
        temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
        with _locked_folder(folder):
            handle = os.open(temporary, flags, 0o666)
            # or another writer has taken it for a leftover just before it was locked
            if not _lock(handle) or _is_named(handle, temporary):
                return temporary, handle
        os.close(handle)


@contextlib.contextmanager
def _locked_folder(folder: str) -> Iterator[bool]:
    """Whether nobody else makes a temporary file, or deletes one; does not wait."""
    if fcntl is None:
        yield False
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        yield _lock(handle)
    finally:
        os.close(handle)


def _lock(handle: int) -> bool:
    """Lock an open file until it is closed, or its process ends; False if that cannot be."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_named(handle: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(handle), os.stat(path))
    except FileNotFoundError:
        return False


def keep_mode(path: str, handle: int) -> None:
    """Give the new file the permissions of the one that it will replace."""
    if os.name == "posix" and os.path.exists(path):
        os.fchmod(handle, stat.S_IMODE(os.stat(path).st_mode))


def sync_folder(folder: str) -> None:
    """Make a rename last, where the system can."""
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:
        pass  # some file systems cannot
    finally:
        os.close(handle)


def remove_leftovers(path: Any) -> None:
    """Delete what writers of `path` that were killed have left behind.

    A writer's lock on its file ends with its process, in whatever container that runs; without
    locks (some file systems, other systems than Unix) nothing is deleted.
    """
    folder, name = os.path.split(os.path.realpath(os.fspath(path)))
    pattern = re.compile(re.escape(f".{name}.") + r"[0-9a-f]{16}\.tmp")
    with contextlib.suppress(OSError):
        leftovers = [os.path.join(folder, n) for n in os.listdir(folder) if pattern.fullmatch(n)]
        if not leftovers:
            return
        with _locked_folder(folder) as locked:
            for leftover in leftovers if locked else ():
                with contextlib.suppress(OSError), open(leftover, "r+b") as file:
                    if _lock(file.fileno()):
                        os.unlink(leftover)


# ------------------------------------------------------------------ reading


def read_archive(
    path: Any, *, arrays: bool = True
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Header and arrays of a sound file (a path, or open); `ModelFileError` for any other."""
    with contextlib.nullcontext(path) if hasattr(path, "read") else open(path, "rb") as file:
        _check_digest(file)
        try:
            return _read_members(file, arrays)
        except ModelFileError:
            raise
        except (
            zipfile.BadZipFile,
            zipfile.LargeZipFile,
            NotImplementedError,
            RuntimeError,
            ValueError,
            KeyError,
            TypeError,
            IndexError,
            OverflowError,
            EOFError,
            OSError,
        ) as error:
            raise ModelFileError(f"the file is malformed ({error})") from error


def _size(file: IO[bytes]) -> int:
    """Bytes of the file, which is then at its beginning."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def _check_digest(file: IO[bytes]) -> None:
    size = _size(file)
    start = file.read(4)
    if start != b"PK\x03\x04":
        raise ModelFileError("not an osvm model file")
    if size < DIGEST + 22:
        raise ModelFileError("the file is truncated")
    file.seek(0)
    digest = hashlib.sha256()
    left = size - DIGEST
    while left:
        piece = file.read(min(left, PIECE))
        if not piece:
            raise ModelFileError("the file is truncated")
        digest.update(piece)
        left -= len(piece)
    if file.read() != digest.hexdigest().encode():
        raise ModelFileError("the checksum is wrong: the file is truncated, damaged or not osvm's")


def _read_members(
    file: IO[bytes], want_arrays: bool
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    size = _size(file)
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
        if len(members) > MEMBER_CAP:
            raise ModelFileError(f"{len(members)} members are too many")
        total = 0
        for member in members:
            if member.compress_type != zipfile.ZIP_STORED or member.flag_bits & 0x1:
                raise ModelFileError(f"member {member.filename!r} is compressed or encrypted")
            if member.compress_size != member.file_size:
                raise ModelFileError(f"member {member.filename!r} has two sizes")
            total += member.file_size
        if total > size:
            raise ModelFileError("the members are larger than the file")
        if not members or members[0].filename != HEADER:
            raise ModelFileError("the file does not begin with its header")
        if members[0].file_size > HEADER_CAP:
            raise ModelFileError("the header is too large")
        header = read_json(archive.read(members[0]))
        entries = header.pop("arrays", None)
        if not isinstance(entries, dict):
            raise ModelFileError("the header does not list the arrays")
        names = [member.filename for member in members[1:]]
        if names != [f"{name}.npy" for name in entries]:
            raise ModelFileError("the arrays are not those that the header lists")
        arrays = {}
        for member, (name, entry) in zip(members[1:], entries.items()):
            checked = _check_entry(name, entry, member.file_size)
            if want_arrays:
                arrays[name] = _read_array(archive, member, name, *checked)
    header["arrays"] = entries
    return header, arrays


def _check_entry(name: str, entry: Any, size: int) -> tuple[str, tuple[int, ...], bool]:
    """dtype, shape and finiteness of an array whose size agrees with them."""
    if not ARRAY_NAME.fullmatch(name) or not isinstance(entry, dict):
        raise ModelFileError(f"the entry of array {name!r} is malformed")
    dtype, shape = entry.get("dtype"), entry.get("shape")
    if dtype not in DTYPES:
        raise ModelFileError(f"array {name!r} has the unknown dtype {dtype!r}")
    if not isinstance(shape, list) or len(shape) > 8:
        raise ModelFileError(f"array {name!r} has no shape")
    for length in shape:
        if not isinstance(length, int) or isinstance(length, bool) or not 0 <= length < 2**62:
            raise ModelFileError(f"array {name!r} has the wrong shape {shape!r}")
    count = math.prod(shape)
    expected = len(npy_prefix(dtype, tuple(shape))) + count * int(dtype[2:])
    if expected != size:
        raise ModelFileError(f"array {name!r} should take {expected} bytes and takes {size}")
    return dtype, tuple(shape), entry.get("finite", True) is not False


def _read_array(
    archive: zipfile.ZipFile,
    member: zipfile.ZipInfo,
    name: str,
    dtype: str,
    shape: tuple[int, ...],
    finite: bool,
) -> np.ndarray:
    prefix = npy_prefix(dtype, shape)
    array = np.empty(shape, dtype)
    with archive.open(member) as source:
        if source.read(len(prefix)) != prefix:
            raise ModelFileError(f"array {name!r} does not begin as the header says")
        if array.nbytes:
            flat = memoryview(array.reshape(-1)).cast("B")
            done = 0
            while done < len(flat):
                got = source.readinto(flat[done : done + PIECE])  # type: ignore[attr-defined]
                if not got:
                    raise ModelFileError(f"array {name!r} is truncated")
                done += got
        if source.read(1):
            raise ModelFileError(f"array {name!r} is too long")
    if dtype == "|b1" and array.nbytes and array.view(np.uint8).max() > 1:
        raise ModelFileError(f"array {name!r} holds a byte that is neither true nor false")
    if finite and array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ModelFileError(f"array {name!r} holds a value that is not finite")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def read_json(text: bytes) -> dict[str, Any]:
    """A JSON object without repeated keys and without NaN or infinity."""

    def refuse(word: str) -> Any:
        raise ModelFileError(f"the header holds {word}")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            raise ModelFileError("the header repeats a key")
        return out

    try:
        header = json.loads(text.decode(), parse_constant=refuse, object_pairs_hook=unique)
    except RecursionError:
        raise ModelFileError("the header is nested too deeply") from None
    if not isinstance(header, dict):
        raise ModelFileError("the header is not a JSON object")
    return header
