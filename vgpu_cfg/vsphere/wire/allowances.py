"""What is allowed to whatever is asked inside a block: more time, or the certificate of another host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PATIENCE: ContextVar[float] = ContextVar("patience", default=0.0)
"""How many seconds what is asked takes by itself, beside the connection's own limit: see `patient`."""

CERTIFICATE: ContextVar[str | None] = ContextVar("certificate", default=None)
"""The thumbprint by which another host than vCenter is believed: see `believing`."""


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Give what is asked inside so many seconds more than any other exchange: it takes them by itself."""
    before = PATIENCE.set(seconds)
    try:
        yield
    finally:
        PATIENCE.reset(before)


@contextmanager
def believing(thumbprint: str | None) -> Iterator[None]:
    """Believe another host than vCenter, where one is asked inside, by the certificate with this thumbprint.

    With None it is believed as vCenter is, except for a thumbprint, which is vCenter's alone.
    """
    before = CERTIFICATE.set(thumbprint)
    try:
        yield
    finally:
        CERTIFICATE.reset(before)
