"""The format of a file of shares: quotas.yaml, with a place for every fault."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BeforeValidator, Field

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.documents import Document, build, did_you_mean, read_document
from vgpu_cfg.errors import DocumentError, DocumentFault
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.values import parse_size
from vgpu_cfg.model.reservations import LicencePool, Quotas, Share, Spare

_EVERY_BOARD = "*"
_MOST_GPUS = 1_000_000


class _Amount(Frozen):
    """How much of some boards: GPUs, or framebuffer."""

    gpus: float | None = None
    framebuffer_mib: int | None = None


def _amount(value: object) -> _Amount:
    """Take a number as GPUs, and a size with its unit as framebuffer."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        if not 0 <= value <= _MOST_GPUS:
            raise ValueError(f"{value} is not a number of GPUs\nuse 0 or more, for example 8 or 2.5")
        return _Amount(gpus=float(value))
    try:
        return _Amount(framebuffer_mib=parse_size(value))
    except ValueError as error:
        message = f"{value!r} is neither a number of GPUs nor a framebuffer size\nexamples: 8, 320GiB"
        raise ValueError(message) from error


_Boards = Annotated[
    dict[Annotated[str, Field(min_length=1)], Annotated[_Amount, BeforeValidator(_amount)]],
    Field(min_length=1),
]
_Name = Annotated[str, Field(min_length=1)]


class _Pool(Frozen):
    """Which GPUs are shared out."""

    clusters: Annotated[tuple[_Name, ...], Field(min_length=1)]


class _Spare(Frozen):
    """How many hosts of each cluster can be emptied."""

    hosts: Annotated[int, Field(ge=1, le=64)]
    per: Literal["cluster"]


_PRODUCTS: Final = {
    "nvaie": ("vgpu", ("C",)),
    "vws": ("vm", ("Q",)),
    "vpc": ("vm", ("B",)),
    "vapps": ("vm", ("A",)),
}
"""By product: what takes a license, and the series of its vGPUs."""


class _Licences(Frozen):
    """How many licenses there are; a site whose contract counts in another way says so."""

    count: Annotated[int, Field(ge=0, le=_MOST_GPUS)]
    per: Literal["vm", "vgpu", "gpu"] | None = None
    series: Annotated[tuple[Literal["A", "B", "C", "Q"], ...], Field(min_length=1)] | None = None
    ends: date | None = None


def _licences(value: object) -> object:
    return {"count": value} if isinstance(value, int) else value


class _QuotasFile(Frozen):
    """A file of shares and licenses."""

    version: Literal[1]
    pool: _Pool | None = None
    owners: dict[_Name, _Boards] = Field(default_factory=dict)
    folders: dict[_Name, _Boards] = Field(default_factory=dict)
    others: _Boards | None = None
    spare: _Spare | None = None
    licences: dict[
        Literal["nvaie", "vws", "vpc", "vapps"], Annotated[_Licences, BeforeValidator(_licences)]
    ] = Field(default_factory=dict)


def read_quotas(path: Path, catalog: Catalog) -> Quotas:
    """Read a file of shares. Raises DocumentError with all its faults, and their places."""
    try:
        return _read(path, catalog)
    except DocumentError as error:
        raise DocumentError(error.faults, remedy="correct the quota file") from error


def _read(path: Path, catalog: Catalog) -> Quotas:
    document = read_document(path)
    content = build(document, _QuotasFile)
    faults: list[DocumentFault] = []
    shares = tuple(_shares(content, document, catalog, faults))
    if not (shares or content.licences or content.spare is not None or faults):
        hint = "use `owners`, `folders`, `others`, `spare` or `licences`"
        faults.append(document.fault((), "the file does not define any quotas", hint))
    if faults:
        raise DocumentError(faults)
    clusters = content.pool.clusters if content.pool is not None else ()
    licences = tuple(_pools(content, document))
    spare = None
    if content.spare is not None:
        place = document.fault(("spare",), "", at_key=True)
        spare = Spare(hosts=content.spare.hosts, origin=f"{place.file}:{place.line}")
    return Quotas(file=str(path), clusters=clusters, shares=shares, spare=spare, licences=licences)


def _pools(content: _QuotasFile, document: Document) -> Iterator[LicencePool]:
    for product, stated in content.licences.items():
        place = document.fault(("licences", product), "", at_key=True)
        per, series = _PRODUCTS[product]
        yield LicencePool.model_validate(
            {
                "product": product,
                "count": stated.count,
                "per": stated.per or per,
                "series": stated.series or series,
                "ends": stated.ends,
                "origin": f"{place.file}:{place.line}",
            }
        )


def _shares(
    content: _QuotasFile, document: Document, catalog: Catalog, faults: list[DocumentFault]
) -> Iterator[Share]:
    for (kind, name, *where), amounts in _holders(content):
        for called, amount in amounts.items():
            place = document.fault((*where, called), "", at_key=True)
            boards = () if called == _EVERY_BOARD else catalog.matching(called)
            if called != _EVERY_BOARD and not boards:
                hint = did_you_mean(called, catalog.boards) or (
                    f'use "{_EVERY_BOARD}" for all boards, or run `vgpu-cfg profiles` to list them'
                )
                message = f"no board matches {called!r}"
                faults.append(document.fault((*where, called), message, hint, at_key=True))
            yield Share.model_validate(
                {
                    "kind": kind,
                    "name": name,
                    "boards": tuple(board.key for board in boards),
                    "called": "any board" if called == _EVERY_BOARD else called,
                    "gpus": amount.gpus,
                    "framebuffer_mib": amount.framebuffer_mib,
                    "origin": f"{place.file}:{place.line}",
                }
            )


def _holders(content: _QuotasFile) -> Iterable[tuple[tuple[str, ...], Mapping[str, _Amount]]]:
    """Yield the owners of shares (kind, name, then their place in the file), and their boards."""
    yield from ((("owner", name, "owners", name), boards) for name, boards in content.owners.items())
    yield from ((("folder", name, "folders", name), boards) for name, boards in content.folders.items())
    if content.others is not None:
        yield ("others", "", "others"), content.others
