"""Allowances for all requests inside a block: more time, or the certificate of another host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PATIENCE: ContextVar[float] = ContextVar("patience", default=0.0)
"""Seconds that the requests take by themselves, in addition to the connection's own limit: see `patient`."""

CERTIFICATE: ContextVar[str | None] = ContextVar("certificate", default=None)
"""The thumbprint by which another host than vCenter is believed: see `believing`."""


@contextmanager
def patient(seconds: float) -> Iterator[None]:
    """Give all requests inside so many seconds more than any other exchange: they take them by themselves."""
    before = PATIENCE.set(seconds)
    try:
        yield
    finally:
        PATIENCE.reset(before)


@contextmanager
def believing(thumbprint: str | None) -> Iterator[None]:
    """Trust another host than vCenter for requests inside, by the certificate with this thumbprint.

    With None it is trusted as vCenter is, except for a thumbprint, which is vCenter's alone.
    """
    before = CERTIFICATE.set(thumbprint)
    try:
        yield
    finally:
        CERTIFICATE.reset(before)
