"""Call an absent user: when a command has ended, and when it waits for an answer."""

from __future__ import annotations

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import typer

from vgpu_cfg.errors import VgpuCfgError
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
