"""Removal of everything that could identify a site or be a secret of it, from recorded answers.

Only the content of known elements, and content of a known form, is kept: numbers, words of the vSphere API,
object IDs, PCI addresses, versions, and names of boards, drivers and profiles. Any other content is replaced
by a plain one of its form, the same wherever it occurs, so that the answers still fit together.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from contextlib import suppress
from typing import Final

from vgpu_cfg.recording.recorder import OpenElement, Scrubber

_FORMS: Final = re.compile(
    r"-?\d{1,6}(\.\d+)?|(?i:true|false|null)|\d{4}-\d\d-\d\dT[\d:.]+(Z|[+-]\d\d:\d\d)?|255(\.\d{1,3}){3}"
    r"|([0-9a-fA-F]{4}:)?[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]"
    r"|(key-vim\.host\.[A-Z]\w+-)?(vm(nic|k|hba|rdma)|vSwitch)\d+|[A-Z]\w+Manager(-\d+)?|Vpx?Settings"
    r"|(vm|host|datastore|network|dvportgroup|dvs|resgroup|datacenter)-\d+|(domain-[cs]|group-[dhnpsv]?)\d+"
    r"|vmx-\d\d|\w{1,30}Guest|(grid|nvidia)_[a-z0-9]{1,8}(-\d{1,2})?-\d{1,3}[a-z]{1,3}"
    r"|(NVD|NVIDIA)[-_](?i:aie|vgpu|vmware|gpu)[-\w.]{0,40}|nvdgpumgmt[-\w]{0,20}|nmlx\d_\w{2,6}"
    r"|(vtdA|a)tsSupport|Evaluation( Mode)?|expirationDate"
)
"""Content that is kept in any element that is not free text."""

_FREE: Final = re.compile(r"(?i).*(serial|identifier|annotation|notes?|tag|description|summary|message)")
_AMOUNTS: Final = re.compile(
    r"\w*([bB]ytes|InKB|MB|Size|RangeLength|RangeBegin|deviceVendorId|Seconds)|freeSpace|capacity|m(ax|in)|used"
)
"""Elements with numbers of any length."""

_PRODUCTS: Final = re.compile(
    r"apiType|apiVersion|build|deviceName|faultcode|osType|productLineId|licenseProductName|model|vendor"
    r"|vendorName|version"
)
"""Elements with the name or version of a product."""
_OPTIONS: Final = re.compile(
    r"(pciPassthru\d*|numa|sched\.(cpu|mem)|vgpu|VMkernel\.Boot|Net|Mem|Numa|DRS)\.[\w.-]{1,60}|TSM(-SSH)?"
)
_SETTING: Final = re.compile(r"(?i)true|false|auto|none|\d{1,6}([,-]\d{1,6}){0,60}")
_PRODUCT: Final = re.compile(r"[\w .,:()\[\]/+#&-]{1,80}")
_MOID: Final = re.compile(r"[A-Za-z][A-Za-z-]{1,60}(-?[a-z]?\d+)?")
_BINARY = re.compile(r"[A-Za-z0-9+/\s]{60,}={0,2}")
_UUID = re.compile(r"(?i)[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MAC = re.compile(r"(?i)([0-9a-f]{2}):([0-9a-f]{2}):([0-9a-f]{2}):([0-9a-f]{2})(:[0-9a-f]{2}){2}")
_IPV4 = re.compile(r"\d{1,3}(\.\d{1,3}){3}")
_ADDRESS = re.compile(
    r"(?<![\d.])(?:\d{1,3}\.){3}\d{1,3}(?![\d.])|(?<![\w:])(?:[0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}(?![\w:])"
    r"|(?<![\w:])(?=[\w:]*::|(?:\w{1,4}:){7})[0-9a-fA-F:]{3,39}(?![\w:])"
    r"|(?<![\w-])[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}(?![\w-])|[\w.+-]+@[\w-]+(?:\.[\w-]+)+"
)
"""Addresses in free text: IP, MAC, UUIDs but a GPU's, and mail or account names with a domain."""
_PATH = re.compile(r"\[(.*?)\] ?(.*)", re.DOTALL)
_KEY = re.compile(r"(key-vim\.host\.[A-Z]\w+-)(.+)", re.DOTALL)
_SUFFIX = re.compile(r"\.(vmdk|vmx|vmtx|iso)$")
_ATTRIBUTE: Final = re.compile(r"xmlns(:[\w-]+)?|([\w-]+:)?(type|nil)")


class Anonymous(Scrubber):
    """Scrubs all exchanges of one session, with the same plain names; `words` are those of vSphere."""

    def __init__(self, words: frozenset[str]) -> None:
        super().__init__()
        self._words = words
        self._names: dict[str, str] = {}

    def _keeps_attribute(self, name: str) -> bool:
        return _ATTRIBUTE.fullmatch(name) is not None

    def _in_request(self, element: OpenElement, parent: OpenElement, content: str) -> str | None:
        if element.name in ("name", "path", "pathSet", "type"):
            return None
        return super()._in_request(element, parent, content) or self._names.get(content)

    def _in_answer(self, element: OpenElement, parent: OpenElement, content: str) -> str | None:
        secret = super()._in_answer(element, parent, content)
        if secret is not None or not content or self._keeps(element, parent, content):
            return secret
        if content.startswith("<"):
            with suppress(ValueError):
                return self._rewritten(content.encode(), self._in_answer).decode()
        return self._name(content)

    def _keeps(self, element: OpenElement, parent: OpenElement, content: str) -> bool:
        """Whether content can be kept. A property's value is judged by its path, an option's by its key."""
        if element.name in ("name", "path") and parent.name in ("propSet", "changeSet", "missingSet"):
            return True
        if element.refers_to[:1].isupper() and element.refers_to in self._words:
            return _MOID.fullmatch(content) is not None
        name = parent.label.rpartition(".")[2] if element.name == "val" else element.name
        if element.name in ("key", "value") and _OPTIONS.fullmatch(parent.label or content):
            return element.name == "key" or _SETTING.fullmatch(content) is not None
        if _PRODUCTS.fullmatch(name):
            return _PRODUCT.fullmatch(content) is not None
        # The value of an option without a stated type is a text, also if it is a number.
        kind = element.kind or ("string" if element.name == "value" and parent.label else "")
        if _FREE.match(name) or (content.isdigit() and kind == "string"):
            return False
        is_amount = content.isdigit() and _AMOUNTS.fullmatch(name) is not None
        return content in self._words or is_amount or _FORMS.fullmatch(content) is not None

    def in_text(self, text: str, names: Collection[str]) -> str:
        """Replace these names and all addresses in free text; GPU UUIDs, serials and PCI addresses stay."""
        known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
        named = rf"(?<![\w-])({known})(?![\w-])|" if known else ""
        return re.sub(f"{named}{_ADDRESS.pattern}", lambda found: self._name(found[0]), text)

    def _name(self, text: str) -> str:
        if text not in self._names:
            self._names[text] = ""
            self._names[text] = self._made(text, len(self._names))
        return self._names[text]

    def _made(self, text: str, number: int) -> str:
        """Make a plain text of the same form and length of digits; a MAC address stays in its range."""
        if text.isdigit():
            return text[0] + str(number).zfill(len(text) - 1)
        if _BINARY.fullmatch(text):
            return "AAAA"
        if _UUID.fullmatch(text):
            return f"00000000-0000-4000-8000-{number:012d}"
        if mac := _MAC.fullmatch(text):
            is_vmware = mac[0].lower().startswith("00:50:56")
            head = f"00:50:56:{'c0' if mac[4].lower() >= 'c0' else '80'}" if is_vmware else "02:00:00:00"
            return f"{head}:{number >> 8 & 255:02x}:{number & 255:02x}"
        if _IPV4.fullmatch(text):
            return f"198.18.{number >> 8 & 255}.{number & 255}"
        if path := _PATH.fullmatch(text):
            parts = [self._part(part) for part in path[2].split("/")]
            return f"[{self._name(path[1])}] {'/'.join(parts)}"
        if key := _KEY.fullmatch(text):
            return f"{key[1]}{self._name(key[2])}"
        return f"name-{number}"

    def _part(self, part: str) -> str:
        suffix = _SUFFIX.search(part)
        stem = part[: suffix.start()] if suffix else part
        return (self._name(stem) if stem else "") + (suffix[0] if suffix else "")
