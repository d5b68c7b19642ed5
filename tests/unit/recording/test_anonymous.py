"""An attack on the removal of names: secrets of every form, in every text field of the vSphere API."""

from __future__ import annotations

import re
from functools import cache
from xml.etree import ElementTree as ET

import pytest
from pyVmomi import VmomiSupport

from vgpu_cfg.recording.anonymous import Anonymous
from vgpu_cfg.vsphere.wire.leaves import api_words

SECRETS = {
    "password": "Tr0ub4dor&amp;3",
    "word": "swordfish",
    "token": "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm5hIn0.c2lnbmF0dXJl",
    "key": "-----BEGIN OPENSSH PRIVATE KEY----- b3BlbnNzaC1rZXktdjEAAAAA",
    "binary": "b3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQAAAAAAAAABAAABlwAAAAdzc2gtcn",
    "host": "esx-payroll-07.corp.acme.example",
    "short host": "esxpayroll07",
    "address": "10.47.11.8",
    "address 6": "fe80::9a03:9bff:fe8f:7d1c",
    "mac": "b8:ce:f6:47:11:08",
    "automatic mac": "00:50:56:b3:47:11",
    "user": "ACME\\anna.schmidt",
    "mail": "anna.schmidt@acme.example",
    "licence": "5H64L-00M9K-08J4P-0HCK2-9RJ4T",
    "serial": "CZJ47110815",
    "number": "4711081512",
    "uuid": "4d9f1c3a-77b1-4b6e-9a55-0c9e7d1f2a3b",
    "disk": "6000C29d-1c36-6306-da5a-86e3205f155c",
    "path": "[payroll-ds] classified project/payroll.vmdk",
    "url": "ds:///vmfs/volumes/5f8e1d22-ab12cd34-77aa-b8cef6471108/",
    "key of a host": "key-vim.host.PortGroup-payroll-net",
    "note": "call Anna, ext. 4711; root login is swordfish",
}
KEPT_AS_PRODUCTS = {
    *("apiType", "apiVersion", "build", "deviceName", "faultcode", "licenseProductName", "model", "osType"),
    *("productLineId", "vendor", "vendorName", "version"),
}
"""Names and versions of products: the server's model is one."""
ENVELOPE = (
    '<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
    ' xmlns:xsd="http://www.w3.org/2001/XMLSchema"><s:Body>{}</s:Body></s:Envelope>'
)


@cache
def words() -> frozenset[str]:
    return api_words()


@cache
def text_fields() -> tuple[str, ...]:
    """Name every field of the API that holds texts."""
    found: set[str] = set()
    for name in {*VmomiSupport._wsdlDefMap, *VmomiSupport._wsdlTypeMap}:
        kind = VmomiSupport.GetWsdlType(*name)
        if issubclass(kind, VmomiSupport.DataObject):
            found |= {one.name for one in kind._GetPropertyList() if one.type in (str, VmomiSupport.URI)}
            found |= {one.name for one in kind._GetPropertyList() if one.type.__name__ == "str[]"}
    return tuple(sorted(found - KEPT_AS_PRODUCTS))


def anonymous(inner: str) -> str:
    clean = Anonymous(words()).answer(ENVELOPE.format(inner).encode(), "X.Read").decode()
    ET.fromstring(clean)  # noqa: S314 - it was written here
    return clean


def pieces(secret: str) -> list[str]:
    """Return the parts of a secret that tell something on their own."""
    return [
        secret,
        *(one for one in re.split(r"[\s/\[\]@]|key-vim\.host\.PortGroup-", secret) if len(one) > 5),
    ]


def leaks(clean: str, secret: str) -> list[str]:
    return [one for one in pieces(secret) if one in clean]


def test_the_api_has_many_text_fields() -> None:
    assert len(text_fields()) > 1000


@pytest.mark.parametrize("form", SECRETS)
def test_no_text_field_keeps_a_secret(form: str) -> None:
    secret = SECRETS[form]
    inner = "".join(f"<{name}>{secret}</{name}>" for name in text_fields())
    kept = [name for name in text_fields() if leaks(anonymous(f"<x><{name}>{secret}</{name}></x>"), secret)]
    assert kept == []
    assert leaks(anonymous(f"<x>{inner}</x>"), secret) == []


PLACES = {
    "property": '<propSet><name>config.annotation</name><val xsi:type="xsd:string">{}</val></propSet>',
    "property with another prefix": "<propSet><name>config.uuid</name><val xmlns:XMLSchema-instance="
    '"http://www.w3.org/2001/XMLSchema-instance" XMLSchema-instance:type="string">{}</val></propSet>',
    "property of a product": '<propSet><name>name</name><val xsi:type="xsd:string">{}</val></propSet>',
    "option": '<o><key>guestinfo.site</key><value xsi:type="xsd:string">{}</value></o>',
    "known option": '<o><key>numa.nodeAffinity</key><value xsi:type="xsd:string">{}</value></o>',
    "key of an option": '<o><key>{}</key><value xsi:type="xsd:string">1</value></o>',
    "value without a type": "<o><key>101</key><value>{}</value></o>",
    "list": '<val xsi:type="ArrayOfString"><string>{}</string></val>',
    "attribute": '<obj type="VirtualMachine" serverGuid="{}">vm-1</obj>',
    "element with a type": '<note type="string">{}</note>',
    "spaced attribute": '<obj type="VirtualMachine" v:note = "{}" xmlns:v="urn:v">vm-1</obj>',
    "single quotes": "<obj note='{}' type=\"VirtualMachine\">vm-1</obj>",
    "fault": "<s:Fault><faultcode>ServerFaultCode</faultcode><faultstring>{}</faultstring></s:Fault>",
    "message": "<localizedMessage>{}</localizedMessage>",
    "comment": "<x><!-- {} -->1</x>",
    "instruction": "<x><?note {}?>1</x>",
    "esxcli": "<response>&lt;obj&gt;&lt;Name&gt;{}&lt;/Name&gt;&lt;/obj&gt;</response>",
    "no xml": "<response>&lt;obj&gt;{}</response>",
    "mixed": "<x>{}<y>1</y></x>",
}


@pytest.mark.parametrize("place", PLACES)
def test_no_place_keeps_a_secret(place: str) -> None:
    for form, text in SECRETS.items():
        secret = text.replace("--", "") if place == "comment" else text
        assert leaks(anonymous(PLACES[place].format(secret)), secret) == [], form


@pytest.mark.parametrize("form", [form for form in SECRETS if form not in {"word", "short host", "serial"}])
def test_an_object_id_has_the_form_of_those_that_vcenter_makes(form: str) -> None:
    secret = SECRETS[form]
    assert leaks(anonymous(f'<x><host type="HostSystem">{secret}</host></x>'), secret) == []


@pytest.mark.parametrize("form", SECRETS)
def test_a_secret_in_cdata_is_not_kept(form: str) -> None:
    secret = SECRETS[form]
    assert leaks(anonymous(f"<x><name><![CDATA[<b c='{secret}'>{secret}</b>]]></name></x>"), secret) == []


def test_a_long_number_keeps_its_magnitude_only() -> None:
    assert re.search(r"<count>40{3,}\d+</count>", anonymous("<x><count>4711081512</count></x>"))


def test_answers_still_fit_together() -> None:
    scrubber = Anonymous(words())
    one = scrubber.answer(ENVELOPE.format("<x><fileName>[ds1] vm1/vm1.vmdk</fileName></x>").encode(), "X.R")
    other = scrubber.answer(ENVELOPE.format("<x><name>ds1</name><name>vm1</name></x>").encode(), "X.R")
    request = scrubber.request(
        ENVELOPE.format("<Find><_this>s</_this><dnsName>vm1</dnsName></Find>").encode()
    )
    (file,) = re.findall(rb"<fileName>(.*)</fileName>", one)
    datastore, vm = re.findall(rb"<name>(.*?)</name>", other)
    assert file == b"[%b] %b/%b.vmdk" % (datastore, vm, vm)
    assert b"<dnsName>%b</dnsName>" % vm in request


@pytest.mark.parametrize(
    ("address", "begins"),
    [
        ("00:50:56:80:12:34", "00:50:56:80:"),
        ("00:50:56:C1:12:34", "00:50:56:c0:"),
        ("b8:ce:f6:00:00:01", "02:"),
    ],
)
def test_a_mac_address_stays_in_its_range(address: str, begins: str) -> None:
    assert f"<mac>{begins}" in anonymous(f"<x><mac>{address}</mac></x>")


@pytest.mark.parametrize(
    "kept",
    [
        "<powerState>poweredOn</powerState>",
        "<profileName>grid_a100-1-5cme</profileName>",
        "<pciId>0000:21:00.0</pciId>",
        '<host type="HostSystem">host-11</host>',
        "<device>vmnic0</device>",
        "<memorySize>1099511627776</memorySize>",
        "<bootTime>2026-01-05T08:00:00Z</bootTime>",
        "<build>24022515</build>",
        "<deviceName>MT2892 Family [ConnectX-6 Dx]</deviceName>",
        '<o><key>numa.nodeAffinity</key><value xsi:type="xsd:string">0,1</value></o>',
    ],
)
def test_what_verdicts_rest_on_is_kept(kept: str) -> None:
    assert kept in anonymous(f"<x>{kept}</x>")
