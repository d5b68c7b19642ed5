"""What this package makes of an answer beside what pyvmomi's own reader makes of the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from pyVmomi import VmomiSupport, vmodl
from pyVmomi.SoapAdapter import SoapResponseDeserializer, SoapStubAdapterBase

from vgpu_cfg.vsphere.wire import decoding, stub
from vgpu_cfg.vsphere.wire.decoding import Decoder, Found, Moid, Read, UnreadableAnswer

KEPT = decoding.__name__
PAGE: Any = vmodl.query.PropertyCollector.RetrieveResult


class Judged(Decoder):
    """A decoder that holds every answer beside pyvmomi's own reading, and counts those it read."""

    answers = 0

    def read(self, answer: bytes, result: Any) -> Any:
        found = super().read(answer, result)
        assert taken_apart(found) == taken_apart(by_pyvmomi(self._stub, answer, result))
        type(self).answers += 1
        return found

    def objects(
        self, answer: bytes, readers: Mapping[str, Read], turn: Callable[[str], None]
    ) -> Iterator[Found]:
        told = by_pyvmomi(self._stub, answer, PAGE)
        type(self).answers += 1
        marks: list[str] = []
        contents = list(getattr(told, "objects", ()))

        def noted(mark: str) -> None:
            marks.append(mark)
            turn(mark)

        try:
            for type_name, moid, values, faults in super().objects(answer, readers, noted):
                content = contents.pop(0)
                assert (type_name, moid) == (content.obj._wsdlName, content.obj._GetMoId())
                whole = {entry.name: entry.val for entry in content.propSet if entry.val is not None}
                assert values.keys() == whole.keys()
                for path, value in values.items():
                    assert_is_of(value, whole[path])
                missing = {entry.path: taken_apart(entry.fault) for entry in content.missingSet}
                assert {path: taken_apart(fault) for path, fault in faults.items()} == missing
                yield type_name, moid, values, faults
        except vmodl.MethodFault as fault:
            if taken_apart(fault) != taken_apart(told):
                raise AssertionError(f"pyvmomi reads {told!r}") from fault
            raise
        assert not contents
        assert marks == [told.token] if getattr(told, "token", None) else not marks


def assert_is_of(found: Any, whole: Any) -> None:
    """Hold what is kept of a value beside pyvmomi's own, field by field as far as it is kept."""
    if isinstance(found, Moid):
        assert found == whole._GetMoId()
    elif isinstance(found, list | tuple) and not isinstance(found, VmomiSupport.Array):
        wanted = {_base(value) for value in found}
        others = [value for value in whole if _base(value) in wanted or not is_parted(value)]
        assert len(found) == len(others)
        for value, other in zip(found, others, strict=True):
            assert_is_of(value, other)
    elif is_parted(found) and _base(found) is not type(found):
        assert _base(found) is type(whole)
        for name in vars(type(found)).keys() - {"__module__", "__doc__"}:
            assert_is_of(getattr(found, name), getattr(whole, name))
    elif type(found) in (str, int, bool, float):
        assert isinstance(whole, type(found))
        assert found == whole
    else:
        assert taken_apart(found) == taken_apart(whole)


def is_parted(value: Any) -> bool:
    return isinstance(value, VmomiSupport.DataObject)


def _base(value: Any) -> Any:
    """Return the type that a value has in the API: what is kept of one has a type of its own below it."""
    kind = type(value)
    return kind.__base__ if is_parted(value) and kind.__module__ == KEPT else kind


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
    if isinstance(value, list | tuple):
        return (kind, [taken_apart(part) for part in value])
    return (kind, value)
