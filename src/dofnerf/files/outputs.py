"""Writing: atomic files, JSON, checks of what a command is about to write, and the record of what a folder holds."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from dofnerf.files.guard import check_regular, open_regular, read_json_value
from dofnerf.process import is_empty

_MARK = ".dofnerf-"  # in the names of temporary files
_swept: set[Path] = set()


@contextlib.contextmanager
def atomic(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` (same suffix) that replaces it if the block succeeds and is removed if not.

    So an interrupted write neither leaves half a file nor harms the one that was there. What killed processes left in
    the folder is removed first.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    temporary: Path | None = None
    handle: int | None = None
    try:
        while temporary is None:
            handle, name = tempfile.mkstemp(prefix=f".{path.stem}{_MARK}", suffix=path.suffix, dir=path.parent)
            if (alone := _lock(handle)) and os.path.exists(name):
                temporary = Path(name)
                continue
            os.close(handle)  # there are no locks, or somebody sweeps
            temporary, handle = Path(name) if alone is None else None, None
        yield temporary
        with open(temporary, "rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        if _is_about(error, path, temporary):  # "No space left" and the like name no file, or the temporary one
            raise OSError(error.errno or errno.EIO, error.strerror or str(error), str(path)) from None
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)
        if handle is not None:
            os.close(handle)


def _sweep(folder: Path) -> None:
    """Remove temporary files whose lock nobody holds, once for each folder."""
    if folder not in _swept:
        _swept.add(folder)
        for path in folder.glob(f".*{_MARK}*"):
            with contextlib.suppress(OSError), open_regular(path) as file:
                if _lock(file.fileno()):
                    path.unlink()


def _lock(handle: int) -> bool | None:
    """Whether an open file is ours alone from now on; None where there are no locks."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except (ImportError, OSError):
        return None
    return True


def _is_about(error: OSError, path: Path, temporary: Path | None) -> bool:
    """Whether an error of the system concerns the file that is being written."""
    if error.errno is None:
        return str(error).startswith("encoder error")  # Pillow's
    return error.filename is None or temporary is None or str(error.filename) == str(temporary)


def append(path: Path, text: str) -> None:
    """Add to the end of a file, such as a log."""
    try:
        with open_log(path) as file:
            file.write(text.encode())
    except OSError as error:  # writing, unlike opening, does not name the file
        raise OSError(error.errno, error.strerror, str(path)) from None


def open_log(path: Path) -> BinaryIO:
    """Open a regular file to add to its end. A link is refused: the folder may be somebody else's, and the link lead
    to a file of ours."""
    check_no_link(path)
    if path.exists():
        check_regular(path)
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    return os.fdopen(os.open(path, flags | getattr(os, "O_BINARY", 0), 0o666), "ab")


def check_no_link(path: Path) -> None:
    """Refuse a link where we are about to write by ourselves, in a folder that may be somebody else's."""
    if path.is_symlink():
        raise ValueError(f"{path}: is a link, and what is written here stays in its folder; remove it")


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def write_json(path: Path | str, value: Any) -> None:
    """Write indented JSON."""
    write_text(path, json.dumps(value, indent=1, allow_nan=False) + "\n")


def write_text(path: Path | str, text: str) -> None:
    """Write text in UTF-8."""
    with atomic(Path(path)) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_file(flag: str, path: Path, suffixes: Sequence[str]) -> None:
    """Refuse an output file of another type, or one that could not be written; creates nothing."""
    if path.suffix.lower() not in suffixes:
        found = path.suffix or "no suffix"
        raise ValueError(f"{flag} {path}: unknown file type ({found}); use one of {' '.join(suffixes)}")
    if path.is_dir():
        raise ValueError(f"{flag} {path}: is a folder, not a file")
    if path.exists() and not path.is_file():
        raise ValueError(f"{flag} {path}: not a regular file (a pipe, a device or a socket)")
    check_folder(flag, path.parent)


def check_folder(flag: str, folder: Path) -> None:
    """Refuse a folder that is not writable, or does not exist and could not be made; creates nothing."""
    there = folder.absolute()
    while not os.path.lexists(there):
        there = there.parent
    if not there.is_dir():
        raise ValueError(f"{flag} {folder}: {there} is not a folder")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ValueError(f"{flag} {folder}: no permission to write in {there}")


def claim(out: Path, record: str, source: Path | None, made_by: str, settings: dict[str, Any]) -> None:
    """Write into the file `record` what `out` is to hold, or check that it was begun with the same settings.

    So work can be resumed, and results of two settings are never mixed. `out` may not lie in `source`.
    """
    if source is not None and out.resolve().is_relative_to((source.parent if source.is_file() else source).resolve()):
        raise ValueError(f"--out {out}: lies in the source {source}, where nothing is written; choose another folder")
    if out.exists() and not out.is_dir():
        raise ValueError(f"--out {out}: is a file, not a folder")
    content = record_of(made_by, settings)
    path = out / record
    if path.exists():
        try:
            found = read_json_value(path)
        except ValueError:
            raise ValueError(f"{path}: not readable; delete the folder or choose another one") from None
        if found != content:
            theirs = found.get("settings") if isinstance(found, dict) else None
            theirs = theirs if isinstance(theirs, dict) else {}
            differing = [key for key in content["settings"] if theirs.get(key) != content["settings"][key]] or ["maker"]
            other = ", ".join(differing)
            raise ValueError(f"--out {out}: holds a scene made with another {other}; choose another folder")
    elif out.is_dir() and not is_empty(out):
        raise ValueError(f"--out {out}: not empty and not begun by {made_by}; choose another folder")
    else:
        write_json(path, content)


def record_of(made_by: str, settings: dict[str, Any]) -> Any:
    """The content of the record of a folder with these settings, as JSON gives it back."""
    return json.loads(json.dumps({"made_by": made_by, "settings": settings}))
