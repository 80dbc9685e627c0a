"""The process around a command: its signals, its output, and the lock of a folder that it works in.

Only the standard library, so that Ctrl-C is answered from the first moment on.

**Signals.** `start` (the command's entry) takes SIGINT and SIGTERM over. The first one raises KeyboardInterrupt in the
main thread, which may be in a kernel or a library for long: a thread, woken by the signal itself, ends the process
after `patience` seconds whatever the main thread does, and at once at a second signal. Files are written atomically, so
this harms nothing. What was kept so far is told by `keeps`.

**Output.** Nobody to read it, a closed or full file, or an encoding without some letter is no reason to stop.
"""

from __future__ import annotations

import codecs
import contextlib
import errno
import functools
import os
import re
import shlex
import signal
import socket
import stat
import sys
import threading
import time
import unicodedata
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, NoReturn, TypeVar

T = TypeVar("T")
LOCK = ".lock"
PATIENCE = {int(signal.SIGINT): 1.5, int(signal.SIGTERM): 8.0}  # seconds for the main thread to stop by itself
_LAST = 0.4  # seconds for children to end, once they are told to
# Begins the code of a `python -c`, which would otherwise import what lies in the current folder: somebody's files.
WITHOUT_FOLDER = "import sys; sys.path[:] = [place for place in sys.path if place]; "
_RESUMES = {"train": "--resume"}  # the flag by which a verb goes on; others go on by the same command
_COMMANDS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f-\x9f]|\x1b(?!\[[0-9;?]*[A-Za-z])")
_PLAIN = {"×": "x", "…": "...", "–": "-", "—": "-", "−": "-", "→": "->", "±": "+-", "≥": ">=", "≤": "<=", "·": "."}


class Failed(Exception):
    """The work was done and its result is of no use: exit code 1."""


class _State:
    """What a signal finds."""

    arguments: ClassVar[list[str]] = []
    kept: ClassVar[Callable[[], str] | None] = None
    children: ClassVar[set[Any]] = set()
    locks: ClassVar[set[Path]] = set()
    sockets: ClassVar[tuple[Any, ...]] = ()
    more_patience: ClassVar[float] = 0.0


def interrupted_words() -> str:
    """One line: what was kept, and the command to go on with. Told once: a later command has kept nothing yet."""
    tell, _State.kept = _State.kept, None
    kept = tell() if tell is not None else ""
    if not _State.arguments:
        return "interrupted" + (f"; kept: {kept}" if kept else "")
    words, flag = list(_State.arguments), _RESUMES.get(_State.arguments[0])
    if kept and flag is not None and flag not in words:
        words.append(flag)
    then = "to go on" if kept else "nothing was kept; to begin again"
    return f"interrupted{f'; kept: {kept}' if kept else ''}; {then}: {shlex.join(['dofnerf', *words])}"


@contextlib.contextmanager
def keeps(words: Callable[[], str]) -> Iterator[None]:
    """While this runs, `words()` tell what would be kept if it were stopped now; empty if nothing."""
    before, _State.kept = _State.kept, words
    try:
        yield
    except KeyboardInterrupt:
        raise  # the words are still wanted
    except BaseException:
        _State.kept = before
        raise
    else:
        _State.kept = before


@contextlib.contextmanager
def patient(seconds: float) -> Iterator[None]:
    """So many seconds more before a signal ends the process by force: others must be told, too."""
    before, _State.more_patience = _State.more_patience, seconds
    try:
        yield
    finally:
        _State.more_patience = before


@contextlib.contextmanager
def child(process: Any) -> Iterator[Any]:
    """A `subprocess.Popen` that never outlives this block, nor this process."""
    _State.children.add(process)
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        _State.children.discard(process)


def start(main: Callable[[list[str]], int], arguments: list[str] | None = None) -> int:
    """The command's entry: `main(arguments)` with signals and output as described above; returns the exit code."""
    _State.arguments = list(sys.argv[1:] if arguments is None else arguments)
    steady_output()
    heard: list[int] = []
    try:
        _listen(heard)
        try:
            code = main(_State.arguments)
        except SystemExit as error:
            code = error.code if isinstance(error.code, int) else 0 if error.code is None else 2
        if heard and code == 130:
            _end(heard[0], say=False)  # at once: threads may still be at work
        for number in PATIENCE:  # all is done
            if signal.getsignal(number) not in (signal.SIG_IGN, signal.SIG_DFL, None):
                signal.signal(number, lambda *_: os._exit(code))
    except BaseException:
        if not heard or os.environ.get("DOFNERF_DEBUG") == "1":
            raise
        _end(heard[0])  # an interrupted import may raise anything
    sys.stdout.flush()
    lost = getattr(sys.stdout, "error", None)
    if isinstance(lost, BrokenPipeError):
        return code or 141  # as a shell says of a program that SIGPIPE ended
    if lost is not None:
        print(f"dofnerf: the work is done; what it printed is lost: {lost}", file=sys.stderr)
    return code or int(lost is not None)


def _listen(first: list[int]) -> None:
    """Take the signals over; the first element of `first` will be the first one."""
    heard: list[int] = []  # by the thread
    if threading.current_thread() is not threading.main_thread():
        return
    reader, writer = socket.socketpair()
    writer.setblocking(False)

    def wait(since: float) -> None:
        while time.monotonic() < since + PATIENCE[heard[0]] + _State.more_patience:
            time.sleep(0.05)
        _end(heard[0])

    def watch() -> None:
        while True:
            numbers = [number for number in reader.recv(16) if number in PATIENCE]
            if not numbers:
                continue
            heard.extend(numbers)
            first.extend(numbers[: not first])  # the main thread may have a handler of its own
            if len(heard) > 1:
                _end(heard[0])
            threading.Thread(target=wait, args=(time.monotonic(),), daemon=True).start()

    def interrupt(number: int, frame: object) -> None:
        first.append(number)
        raise KeyboardInterrupt

    def unraisable(found: Any) -> None:
        """An interrupt in a destructor or a library's callback reaches nobody; the thread ends the process then."""
        if not first or os.environ.get("DOFNERF_DEBUG") == "1":
            sys.__unraisablehook__(found)

    sys.unraisablehook = unraisable
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # as nohup and a shell's background have it
        signal.signal(signal.SIGINT, interrupt)
    signal.signal(signal.SIGTERM, interrupt)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    _State.sockets = reader, writer  # or they would be closed
    threading.Thread(target=watch, daemon=True, name="signals").start()


_ending = threading.Lock()


def _end(number: int, say: bool = True) -> NoReturn:
    """End the process now, and its children."""
    if threading.current_thread() is threading.main_thread():
        for one in PATIENCE:  # another would come up here
            signal.signal(one, signal.SIG_IGN)
    if not _ending.acquire(blocking=False):
        time.sleep(60)  # another thread ends it already
    with contextlib.suppress(Exception):
        for process in (children := [one for one in _State.children if one.poll() is None]):
            process.kill()
        for path in _State.locks:
            path.unlink(missing_ok=True)
        if "multiprocessing" in sys.modules:
            for process in (workers := sys.modules["multiprocessing"].active_children()):
                process.terminate()
            for process in workers:
                process.join(_LAST / len(workers))
                process.kill()  # if it is still there: none outlives us
        for process in children:
            process.wait(_LAST)  # dying takes a moment, and the dead are listed until somebody collects them
    with contextlib.suppress(Exception):
        if say:
            sys.stderr.write(f"\ndofnerf: {interrupted_words()}\n")
        sys.stderr.flush()
    with contextlib.suppress(Exception):
        sys.stdout.flush()
    os._exit(128 + number)


class Output:
    """A text stream whose errors are noted in `error`, and stop nothing. What a file's name may hold to command a
    terminal (set its title, its clipboard, its keys) is not passed on; colours and movements of the bar are."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.error: Exception | None = None

    def write(self, text: str) -> int:
        self._try(self.stream.write, _COMMANDS.sub("\N{REPLACEMENT CHARACTER}", text))
        return len(text)

    def flush(self) -> None:
        self._try(self.stream.flush)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def _try(self, act: Callable[..., Any], *given: Any) -> None:
        if self.error is not None:
            return
        try:
            act(*given)
        except (OSError, ValueError) as error:  # ValueError: it was closed
            self.error = error
            with contextlib.suppress(OSError, ValueError):  # what is still in its buffer goes nowhere
                nowhere = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nowhere, self.stream.fileno())
                os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)


def steady_output() -> None:
    """Make stdout and stderr streams that never stop the work."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:  # closed: the next file that is opened would take its number
            os.open(os.devnull, os.O_RDWR)
    codecs.register_error("dofnerf", _plainly)
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, Output):
            continue
        if stream is None:
            stream = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="dofnerf")
        setattr(sys, name, Output(stream))


def _plainly(error: UnicodeError) -> tuple[str, int]:
    """Letters that an output does not have, in letters that it has."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end]
    plain = "".join(_PLAIN.get(one) or unicodedata.normalize("NFKD", one) for one in text)
    return plain.encode("ascii", "replace").decode("ascii"), error.end


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Work in a folder alone: ValueError, which names the process, if another one is at work there.

    The lock is the operating system's, and ends with the process. Where there is none (no fcntl, some network
    drives) it is not held.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out {folder}: is a file, not a folder")
    made = [one for one in (folder, *folder.absolute().parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / LOCK
    try:
        file = _locked_file(folder, path)
        try:
            _State.locks.update([] if file is None else [path])
            yield
        finally:
            _State.locks.discard(path)
            if file is not None:
                path.unlink(missing_ok=True)
                os.close(file)
    finally:
        with contextlib.suppress(OSError):  # not empty, then
            for one in made:
                one.rmdir()


def alone(function: Callable[[Any], T]) -> Callable[[Any], T]:
    """For a function of a config: hold the lock of the folder `config.out`, in which work that was stopped goes on."""

    @functools.wraps(function)
    def holding(config: Any) -> T:
        with locked(config.out), keeps(lambda: _so_far(Path(config.out))):
            return function(config)

    return holding


def _so_far(folder: Path) -> str:
    """What is kept in words, if the folder has more than its lock."""
    more = any(path.is_file() and not path.name.startswith(".") for path in folder.rglob("*"))
    return f"{folder}, what is in it so far" if more else ""


def _locked_file(folder: Path, path: Path) -> int | None:
    try:
        import fcntl
    except ImportError:
        return None
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        if not stat.S_ISREG(os.fstat(file).st_mode):
            os.close(file)
            raise OSError(errno.EINVAL, "not a regular file (a pipe, a device or a socket)", str(path))
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(file, 20).decode("ascii", "replace").strip() or "that has just begun"
            os.close(file)
            raise ValueError(
                f"{folder}: the process {holder} is at work in this folder; wait for it or stop it"
            ) from None
        except OSError:  # a file system without locks
            os.close(file)
            return None
        with contextlib.suppress(OSError):
            if os.fstat(file).st_ino == os.stat(path).st_ino:  # not one that its holder removed meanwhile
                with contextlib.suppress(OSError):  # on a full disk it holds all the same
                    os.ftruncate(file, 0)
                    os.write(file, f"{os.getpid()}\n".encode())
                return file
        os.close(file)


def is_empty(folder: Path) -> bool:
    """Whether there is nothing in a folder but perhaps our lock."""
    return all(one.name == LOCK for one in folder.iterdir())
