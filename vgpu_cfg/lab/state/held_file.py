"""Lock a file against other processes for some milliseconds, thousands of times in a command.

The system's own call takes a tenth of the time of filelock, which keeps books on threads, forks and waits.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if sys.platform == "win32":  # which has no such call
    from filelock import FileLock

    def held(path: Path) -> FileLock:
        """Hold a file, which is made where it is missing. Raises OSError, RuntimeError."""
        return FileLock(path)

else:
    import fcntl

    @contextmanager
    def held(path: Path) -> Iterator[None]:
        """Hold a file, which is made where it is missing. Raises OSError."""
        file = _hold(path)
        try:
            yield
        finally:
            # What was forked meanwhile has the file open, too: closing it here alone lets nobody in.
            fcntl.flock(file, fcntl.LOCK_UN)
            os.close(file)

    def _hold(path: Path) -> int:
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(file, fcntl.LOCK_EX)
                if os.fstat(file).st_nlink:
                    return file
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # it was removed while this waited: others hold the new one
