"""Known failures of licences: nvidia-gridd in guests, and what vCenter says of the host's own."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

_LICENSING = "NVIDIA virtual GPU client licensing user guide"

LICENCE_ROWS = (
    FaultRow(
        "licence-not-acquired",
        (
            r"failed to acquire licen[sc]e",
            r"unable to connect to (the )?licen[sc]e server",
            r"gridd[^\n]*failed to (register client|renew|borrow|check ?out)",
        ),
        sample="nvidia-gridd: Failed to acquire license from nls.example.com",
        symptom="the guest gets no vGPU licence from its server",
        cause=(
            "in this order: no way to the licence server (ports 443 and 80), a token of another server or"
            " one that was revoked, a clock that is wrong, no licence left"
        ),
        check=(
            "journalctl -u nvidia-gridd in the guest: the lines just before it name the reason",
            "ls -l /etc/nvidia/ClientConfigToken in the guest: one token, readable for all",
            "timedatectl status in the guest, beside date on the licence server: the same time",
            (
                "docker logs, or the event page of the licence server (DLS) or the portal (CLS): whether the"
                " request arrived"
            ),
        ),
        remedy="open the way, set the clock, or put a fresh token there; then systemctl restart nvidia-gridd",
        source="github.com/NVIDIA/nvidia-docker/issues/1787; NVIDIA virtual GPU client licensing user guide",
        words="license server unreachable token checkout",
    ),
    FaultRow(
        "licence-not-configured",
        (r"configuration parameter \([^)]*\) not set", r"unable to open directory /etc/nvidia/license"),
        sample="nvidia-gridd: Configuration parameter ( ServerAddress FeatureType) not set",
        symptom="gridd does not know of any licence server",
        cause="neither a client configuration token nor gridd.conf names one",
        check=("ls /etc/nvidia/ClientConfigToken /etc/nvidia/gridd.conf in the guest: what is there",),
        remedy=(
            "put the token into /etc/nvidia/ClientConfigToken (guest.licence does), and systemctl restart"
            " nvidia-gridd"
        ),
        source="github.com/MicrosoftDocs/azure-docs/issues/32746",
    ),
    FaultRow(
        "licence-feature-type",
        (r"invalid feature type requested", r"FeatureType[^\n]*(invalid|wrong|not supported)"),
        sample="nvidia-gridd: Invalid feature type requested",
        symptom="gridd asks for a licence of a kind that the vGPU cannot use",
        cause="FeatureType in gridd.conf does not go with the vGPU's series",
        check=(
            (
                "grep FeatureType /etc/nvidia/gridd.conf in the guest: 1 for a vGPU, 2 a workstation, 4 for"
                " compute on passthrough"
            ),
        ),
        remedy=(
            "set FeatureType as the licence and the device are (1 for every vGPU), and systemctl restart"
            " nvidia-gridd"
        ),
        source=(
            "github.com/MicrosoftDocs/azure-docs/issues/32746; NVIDIA virtual GPU client licensing user guide"
        ),
    ),
    FaultRow(
        "licence-unlicensed",
        (r"licen[sc]e status\s*:\s*unlicensed", r"vGPU[^\n]*\bunlicensed\b"),
        sample="License Status : Unlicensed (Unrestricted)",
        symptom="nvidia-smi says that the vGPU is unlicensed",
        cause="no licence was acquired yet: for 20 minutes it runs at full speed, then slower and slower",
        check=(
            "nvidia-smi -q in the guest: License Status under vGPU Software Licensed Product",
            "journalctl -u nvidia-gridd in the guest: why",
        ),
        remedy=(
            "`vgpu-cfg explain` the last line of gridd; see whether the service runs at all: systemctl"
            " status nvidia-gridd"
        ),
        source="github.com/NVIDIA/gpu-operator/issues/220; NVIDIA virtual GPU client licensing user guide",
        words="restricted slow throttled after twenty minutes",
    ),
    FaultRow(
        "licence-expired",
        (
            r"licen[sc]e status\s*:\s*(expired|licensed \(expiry[^)]*\bpast)",
            r"(lease|licen[sc]e) (has )?expired",
        ),
        sample="License Status : Expired",
        symptom="the vGPU's licence has expired",
        cause=(
            "gridd could not renew its lease in time: the server was away longer than the lease, or the"
            " clock jumped"
        ),
        check=("nvidia-smi -q in the guest: License Status and its expiry; timedatectl status: the clock",),
        remedy="see that the server is reached and the clock is right, then systemctl restart nvidia-gridd",
        source=f"{_LICENSING}; the wording is recalled",
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "licence-certificate",
        (
            r"certificate is not yet valid",
            r"certificate (has )?expired[^\n]*(gridd|licen[sc]e)",
            r"gridd[^\n]*(SSL|TLS|certificate)",
        ),
        sample="nvidia-gridd: SSL certificate problem: certificate is not yet valid",
        symptom="gridd refuses the licence server's certificate",
        cause=(
            "the guest's clock is wrong (a new VM without NTP), or the server's certificate is not the one"
            " that the token names"
        ),
        check=(
            "timedatectl status in the guest: synchronised, and the right day",
            "curl -v https://SERVER/ in the guest: the certificate's dates",
        ),
        remedy=(
            "set the clock (NTP, or VMware Tools), or fetch a new token after the server's certificate was"
            " changed"
        ),
        source=(
            "libcurl's words for a certificate; NVIDIA virtual GPU client licensing user guide; recalled in"
            " this place"
        ),
        confidence=Confidence.INFERRED,
    ),
    FaultRow(
        "host-licence",
        (
            r"licen[sc]e (is )?not available to perform the operation",
            r"not enough licen[sc]es",
            r"\bNotEnoughLicenses\b",
        ),
        sample="License not available to perform the operation.",
        symptom="vCenter lacks a licence for the operation",
        cause=(
            "the host's or vCenter's licence has no such feature (vGPU needs vSphere Enterprise Plus, or a"
            " subscription that includes it)"
        ),
        check=("Administration > Licensing > Licenses > Assets: the host's licence and its features",),
        remedy="assign a licence that has the feature to the host",
        source=(
            "vSphere API reference: LicenseRestricted, NotEnoughLicenses; which edition has vGPU is recalled"
        ),
        confidence=Confidence.INFERRED,
        faults=frozenset({"LicenseRestricted", "NotEnoughLicenses"}),
    ),
)
