"""The process around a command: signals, output, the lock of a folder, and what is refused before torch is loaded."""

import errno
import json
import os
import signal
import subprocess
import sys
import textwrap
import time

import pytest

from dofnerf import process
from dofnerf.cli import main

CHILD = """
import os, sys, time
from dofnerf import process

def work(arguments):
    {body}

sys.exit(process.start(work, ["train", "scene", "--out", "a b"]))
"""
WAITS = """
    with process.keeps(lambda: "a b, step 3 of 9"):
        print("ready", flush=True)
        {wait}
    return 0
"""


def child(body, **named):
    code = CHILD.format(body=textwrap.dedent(body).strip().replace("\n", "\n    "))
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **named
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "wait", ["time.sleep(600)", "__import__('hashlib').pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)"]
)
def test_a_signal_ends_it_and_tells_how_to_go_on(number, wait):
    """Also where the main thread is in a library that hears nothing."""
    with child(WAITS.format(wait=wait)) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(number)
        _, error = running.communicate(timeout=120)
    assert running.returncode == 128 + number and "Traceback" not in error
    words = "interrupted; kept: a b, step 3 of 9; to go on: dofnerf train scene --out 'a b' --resume"
    assert words in error


def test_a_second_signal_ends_it_at_once_without_a_traceback():
    body = """
    while True:
        try:
            print("ready", flush=True)  # in here: the signal comes right after it
            time.sleep(600)
        except KeyboardInterrupt:
            print("again", flush=True)
    """
    with child(body) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGTERM)  # it has more patience
        assert running.stdout.readline() == "again\n"
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=120)
    assert running.returncode == 128 + signal.SIGTERM and "Traceback" not in error and "nothing was kept" in error


def test_a_signal_that_reaches_nobody_prints_no_traceback():
    """Python only reports what a destructor raises; the process ends all the same."""
    body = """
    class Slow:
        def __del__(self):
            print("ready", flush=True)
            time.sleep(600)
    one = Slow()
    del one
    time.sleep(600)
    """
    with child(body) as running:
        assert running.stdout.readline() == "ready\n"
        running.send_signal(signal.SIGINT)
        _, error = running.communicate(timeout=120)
    assert running.returncode == 128 + signal.SIGINT and "Traceback" not in error and "Exception" not in error, error
    assert "nothing was kept" in error


def test_children_end_with_it():
    body = """
    import subprocess
    with process.child(subprocess.Popen(["sleep", "600"])) as one:
        print(one.pid, flush=True)
        one.wait()
    """
    with child(body) as running:
        number = int(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=120)
    for _ in range(200):
        try:
            os.kill(number, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the child lives on")


@pytest.mark.parametrize("closing", ["print('x')", "sys.stdout.close(); print('x')", "print('x', file=sys.stderr)"])
@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_output_is_no_reason_to_stop(closed, closing, tmp_path):
    body = f"{closing}\nopen({str(tmp_path / 'done')!r}, 'w').write('x')\nos.write(1, b'')\nreturn 0"
    code = CHILD.format(body=body.replace("\n", "\n    "))
    (tmp_path / "code.py").write_text(code)
    done = subprocess.run(f"{sys.executable} {tmp_path / 'code.py'} {closed}", shell=True, check=False, timeout=120)
    assert done.returncode in ((0,) if "close" not in closing else (0, 1))
    assert (tmp_path / "done").read_text() == "x"


def test_ascii_output_gets_plain_letters():
    body = "print('3×4 … → ° é 中 \\udcff'); return 0"
    with child(body, env={**os.environ, "PYTHONIOENCODING": "ascii", "LANG": "C"}) as running:
        out, error = running.communicate(timeout=120)
    assert running.returncode == 0 and out.startswith("3x4 ... ->") and out.isascii(), error


def test_a_file_s_name_does_not_command_the_terminal():
    body = "print('a\\x1b]0;title\\x07b\\x1b[31mred\\x9b1A\\x00 \\tc'); return 0"
    with child(body) as running:
        out, error = running.communicate(timeout=120)
    assert running.returncode == 0 and out == "a�]0;title�b\x1b[31mred�1A� \tc\n", error


def test_a_folder_has_one_worker(tmp_path):
    folder = tmp_path / "run"
    with process.locked(folder):
        assert process.is_empty(folder)
        with (
            pytest.raises(ValueError, match=f"the process {os.getpid()} is at work in this folder"),
            process.locked(folder),
        ):
            pass
        code = f"from dofnerf.process import locked\nfrom pathlib import Path\nwith locked(Path({str(folder)!r})): pass"
        other = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=120)
        assert f"the process {os.getpid()} is at work" in other.stderr
    assert not folder.exists()  # nothing was put into it


def test_a_lock_on_a_full_disk_holds_and_one_that_is_a_pipe_is_refused(tmp_path, monkeypatch):
    """Both went round for ever."""
    signal.alarm(20)  # ends the tests, if it hangs
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "No space left")))
        with process.locked(tmp_path), pytest.raises(ValueError, match="at work"), process.locked(tmp_path):
            pass
    os.mkfifo(tmp_path / process.LOCK)
    with pytest.raises(OSError, match="not a regular file"), process.locked(tmp_path):
        pass
    signal.alarm(0)


def test_a_lock_left_by_a_dead_process_does_not_block(tmp_path):
    code = (
        "import os\nfrom dofnerf.process import locked\nfrom pathlib import Path\n"
        f"with locked(Path({str(tmp_path)!r})): os.kill(os.getpid(), 9)"
    )
    subprocess.run([sys.executable, "-c", code], check=False, timeout=120)
    assert (tmp_path / process.LOCK).exists()
    with process.locked(tmp_path):
        pass
    assert not list(tmp_path.iterdir())


EARLY = {
    "run": ["run", "nosuch"],
    "capture": ["capture", "nosuch"],
    "train": ["train", "nosuch"],
    "train into a run": ["train", "demo", "--out", "run"],
    "train on no scene": ["train", "empty"],
    "render": ["render", "nosuch"],
    "view": ["view", "nosuch"],
    "export": ["export", "nosuch", "--html"],
    "eval": ["eval", "nosuch"],
    "focus": ["render", "run", "--focus-at", "9999,9999"],
    "width": ["train", "demo", "--width", "wide"],
    "width of 0": ["run", "demo", "--width=0"],
    "steps": ["train", "demo", "--steps", "nan"],
    "no value": ["train", "demo", "--seed"],
    "focus in the viewer": ["view", "run", "--focus-at", "9999,9999"],
    "focus, resized": ["render", "run", "--focus-at", "30,3", "--width", "30"],
}


@pytest.mark.parametrize("arguments", EARLY.values(), ids=EARLY)
def test_it_is_refused_before_torch_is_loaded(arguments, tmp_path):
    (tmp_path / "empty").mkdir()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "checkpoint.safetensors").write_bytes(b"")
    (tmp_path / "run" / "config.json").write_text(json.dumps({"setting": {"size": [60, 40]}}))
    code = (
        "import sys\nfrom dofnerf.cli import main\n"
        f"code = main({arguments!r})\nassert code == 2, code\nassert 'torch' not in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, cwd=tmp_path, timeout=120
    )
    assert done.returncode == 0 and done.stderr.startswith("dofnerf: error: "), done.stderr


def test_a_result_of_no_use_is_exit_code_1(monkeypatch, capsys):
    def run(_config):
        raise process.Failed("it shows nothing")

    monkeypatch.setattr("dofnerf.cli.parse", lambda arguments: (None, run))
    assert main(["anything"]) == 1
    assert capsys.readouterr().err == "dofnerf: it shows nothing\n"


def test_no_child_is_listed_afterwards():
    """Killed and collected, also where the main thread hears nothing."""
    body = """
    import subprocess, hashlib
    with process.child(subprocess.Popen(["sleep", "600"])) as sleeper:
        print(sleeper.pid, flush=True)
        hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
    """
    with child(body) as running:
        sleeper = int(running.stdout.readline())
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=120)
    with pytest.raises(ProcessLookupError):
        os.kill(sleeper, 0)
