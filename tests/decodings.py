"""What this package makes of an answer beside what pyvmomi's own reader makes of the same bytes."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import VmomiSupport
from pyVmomi.SoapAdapter import SoapResponseDeserializer, SoapStubAdapterBase

from vgpu_cfg.vsphere.wire import stub
from vgpu_cfg.vsphere.wire.decoding import Decoder, UnreadableAnswer


class Judged(Decoder):
    """A decoder that holds every answer beside pyvmomi's own reading, and counts those it read."""

    answers = 0

    def read(self, answer: bytes, result: Any) -> Any:
        found = super().read(answer, result)
        assert taken_apart(found) == taken_apart(by_pyvmomi(self._stub, answer, result))
        type(self).answers += 1
        return found


def judge(monkeypatch: pytest.MonkeyPatch) -> type[Judged]:
    """Let every session decode by a judged decoder; return what counts."""

    class Counting(Judged):
        pass

    monkeypatch.setattr(stub, "Decoder", Counting)
    return Counting


def stub_of(version: str) -> Any:
    untyped: Any = SoapStubAdapterBase
    return untyped(version=version)


def by_pyvmomi(stub: Any, answer: bytes, result: Any) -> Any:
    untyped: Any = SoapResponseDeserializer
    return untyped(stub).Deserialize(answer, result)


def is_refused_by_both(stub: Any, answer: bytes, result: Any) -> str:
    """Return why an answer is not read; pyvmomi must not read it either."""
    try:
        by_pyvmomi(stub, answer, result)
    except Exception:  # noqa: BLE001 - its reader has no errors of its own
        with pytest.raises(UnreadableAnswer) as caught:
            Decoder(stub).read(answer, result)
        return str(caught.value)
    raise AssertionError("pyvmomi reads it")


def taken_apart(value: Any) -> Any:
    """Return a value as plain lists with the type beside every part."""
    kind = type(value)
    if isinstance(value, VmomiSupport.ManagedObject):
        untyped: Any = value
        return (kind, untyped._GetMoId(), untyped._GetServerGuid())
    if isinstance(value, VmomiSupport.DataObject):
        return (kind, [(name, taken_apart(part)) for name, part in sorted(vars(value).items())])
    if isinstance(value, list):
        return (kind, [taken_apart(part) for part in value])
    return (kind, value)
