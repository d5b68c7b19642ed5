"""Reach the user: a call when a command has ended, and questions at a terminal, which call as well.

A Ctrl-C at a question is never lost.
"""

from __future__ import annotations

import os
import select
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import typer

from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.model.wording import shown
from vgpu_cfg.settings.environment import others_environment

BELL = "bell"
"""The value of `--notify` in place of a command: the terminal's own bell."""
_LONGEST_SECONDS = 30
_ENDINGS = {
    0: "done",
    7: "manual action required",
    8: "a check failed",
    9: "something could not be verified",
    10: "differences found",
    130: "interrupted",
}
"""How docs/reference/exit-codes.md says it, in the fewest words."""
_news: ContextVar[str | None] = ContextVar("news", default=None)
_caller: ContextVar[Callable[[str, str, str], None] | None] = ContextVar("caller", default=None)
_ANSWERS = {"y": True, "yes": True, "n": False, "no": False, "": False}


@contextmanager
def calling(notify: str | None, command: str) -> Iterator[None]:
    """Let `notify` be called at the end of a block, however it ends, and at each question.

    `notify` is a command line, to which a sentence is added; `command` is the action of the block.
    """
    if notify is None:
        yield
        return
    token = _caller.set(lambda event, text, code: _call(notify, event, f"{command}: {text}", code))
    code, text = 0, ""
    _news.set(None)
    try:
        yield
    except typer.Exit as error:
        code = error.exit_code
        raise
    except VgpuCfgError as error:
        code, text = error.exit_code, error.message
        raise
    except KeyboardInterrupt:
        code = 130
        raise
    except BaseException:
        code = 1
        raise
    finally:
        if text or _news.get() is None:
            _tell("ended", text or _ENDINGS.get(code, f"ended with exit code {code}"), str(code))
        _caller.reset(token)


def tell_news(text: str) -> None:
    """Call the user now with a sentence of the command's own; none for "".

    The end of the command is then no news, unless it is an error.
    """
    _news.set(text)
    if text:
        _tell("news", text, "")


def call_for_an_answer(question: str) -> None:
    """Call the user: a question needs an answer."""
    _tell("question", question, "")


def _tell(event: str, text: str, code: str) -> None:
    caller = _caller.get()
    if caller is not None:
        caller(event, text, code)


def _call(notify: str, event: str, sentence: str, code: str) -> None:
    """Ring the bell or run the command; where it cannot be run that is said, and changes nothing."""
    if notify == BELL:
        sys.stderr.write("\a")
        sys.stderr.flush()
        return
    known = {"VGPU_CFG_EVENT": event, "VGPU_CFG_EXIT_CODE": code}
    try:
        subprocess.run(  # noqa: S603 - the user's own command, by the user's own words
            [*shlex.split(notify), sentence],
            check=True,
            timeout=_LONGEST_SECONDS,
            env=others_environment() | known,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
    except (OSError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"--notify: the command could not be run: {error}\n")


def confirm(question: str) -> bool:
    """Ask a yes-or-no question on standard error; an empty line, the end of input and Ctrl-C are no.

    A word that is neither is asked about again. Main thread only.
    """
    call_for_an_answer(question)
    try:
        with _woken_by_signals() as woken:
            while True:
                sys.stderr.write(f"{shown(question)} [y/N]: ")
                sys.stderr.flush()
                answer = _ANSWERS.get(_read_line(woken).strip().lower())
                if answer is not None:
                    return answer
                sys.stderr.write("Error: invalid input\n")
    except KeyboardInterrupt:
        return False


def _read_line(woken: int) -> str:
    """Return a line of standard input, "" at its end.

    Python acts on a signal between two of its own steps. One that comes after the last of them and before the
    read would be noted, and acted on when the read has ended: so it is only begun once there is a line.
    """
    if sys.platform != "win32":  # there select knows sockets alone
        while sys.stdin not in select.select([sys.stdin, woken], [], [])[0]:
            os.read(woken, 64)
    return sys.stdin.readline()


@contextmanager
def _woken_by_signals() -> Iterator[int]:
    """Yield a file descriptor that has something to read as soon as a signal has come."""
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    try:
        before = signal.set_wakeup_fd(wakes, warn_on_full_buffer=False)
        try:
            yield woken
        finally:
            signal.set_wakeup_fd(before)
    finally:
        os.close(woken)
        os.close(wakes)
