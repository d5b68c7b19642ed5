"""Known failures of licences: nvidia-gridd in guests, and what vCenter says of the host's own."""

from __future__ import annotations

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow

_LICENSING = "NVIDIA virtual GPU client licensing user guide"

LICENCE_ROWS = (
    FaultRow(
        "licence-not-acquired",
        (
            r"failed to acquire(?:/renew)? (NVIDIA [\w ]+ )?licen[sc]e",
            r"unable to connect to (the )?licen[sc]e server",
            r"gridd[^\n]*failed to (register client|renew|borrow|check ?out)",
        ),
        sample="nvidia-gridd: Failed to acquire license from nls.example.com",
        symptom="the guest cannot get a vGPU license from its server",
        cause=(
            "in this order: no network access to the license server (ports 443 and 80), a token that was"
            " revoked or belongs to another server, a wrong clock, no licenses available"
        ),
        check=(
            "journalctl -u nvidia-gridd in the guest: the preceding lines give the reason",
            "ls -l /etc/nvidia/ClientConfigToken in the guest: one token, readable by all users",
            "timedatectl status in the guest and date on the license server: the same time",
            (
                "docker logs or the events page of the license server (DLS) or the portal (CLS): whether the"
                " request arrived"
            ),
        ),
        remedy=(
            "allow access to the server, correct the clock, or install a new token; then run systemctl"
            " restart nvidia-gridd"
        ),
        source="github.com/NVIDIA/nvidia-docker/issues/1787; NVIDIA virtual GPU client licensing user guide",
        words="license server unreachable token checkout",
    ),
    FaultRow(
        "licence-not-configured",
        (
            r"configuration parameter \([^)]*\) not set",
            r"unable to open directory /etc/nvidia/license",
            r"valid GRID licen[sc]e not found",
        ),
        sample="nvidia-gridd: Configuration parameter ( ServerAddress FeatureType) not set",
        symptom="gridd has no license server configured",
        cause="neither a client configuration token nor gridd.conf specifies one",
        check=("ls /etc/nvidia/ClientConfigToken /etc/nvidia/gridd.conf in the guest: which of them exist",),
        remedy=(
            "copy the token to /etc/nvidia/ClientConfigToken (guest.licence does this), then run systemctl"
            " restart nvidia-gridd"
        ),
        source="github.com/MicrosoftDocs/azure-docs/issues/32746",
    ),
    FaultRow(
        "licence-feature-type",
        (r"invalid feature type requested", r"FeatureType[^\n]*(invalid|wrong|not supported)"),
        sample="nvidia-gridd: Invalid feature type requested",
        symptom="gridd requests a license type that the vGPU cannot use",
        cause="FeatureType in gridd.conf does not match the vGPU's series",
        check=(
            (
                "grep FeatureType /etc/nvidia/gridd.conf in the guest: 1 for a vGPU, 2 for a workstation, 4"
                " for compute on passthrough"
            ),
        ),
        remedy=(
            "set FeatureType to match the license and the device (1 for every vGPU), then run systemctl"
            " restart nvidia-gridd"
        ),
        source=(
            "github.com/MicrosoftDocs/azure-docs/issues/32746; NVIDIA virtual GPU client licensing user guide"
        ),
    ),
    FaultRow(
        "licence-unlicensed",
        (r"licen[sc]e status\s*:\s*unlicensed", r"vGPU[^\n]*\bunlicensed\b"),
        sample="License Status : Unlicensed (Unrestricted)",
        symptom="nvidia-smi reports that the vGPU is unlicensed",
        cause=(
            "no license has been acquired yet: the vGPU runs at full speed for 20 minutes, then becomes"
            " slower and slower"
        ),
        check=(
            "nvidia-smi -q in the guest: License Status under vGPU Software Licensed Product",
            "journalctl -u nvidia-gridd in the guest: the reason",
        ),
        remedy=(
            "run `vgpu-cfg explain` on the last line logged by gridd; check that the service is running:"
            " systemctl status nvidia-gridd"
        ),
        source="github.com/NVIDIA/gpu-operator/issues/220; NVIDIA virtual GPU client licensing user guide",
        words="restricted slow throttled after twenty minutes",
    ),
    FaultRow(
        "licence-expired",
        (
            r"licen[sc]e status\s*:\s*(expired|licensed \(expiry[^)]*\bpast)",
            r"(gridd|vGPU|NVIDIA|GRID)[^\n]*(lease|licen[sc]e) (has )?expired",
            r"licen[sc]e lease (has )?expired",
        ),
        sample="License Status : Expired",
        symptom="the vGPU's license has expired",
        cause=(
            "gridd could not renew its lease in time: the server was unavailable for longer than the lease,"
            " or the clock jumped"
        ),
        check=("nvidia-smi -q in the guest: License Status and its expiry; timedatectl status: the clock",),
        remedy=(
            "check that the server is reachable and the clock is correct, then run systemctl restart"
            " nvidia-gridd"
        ),
        source=f"{_LICENSING}; wording from memory, not verified",
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
        symptom="gridd rejects the license server's certificate",
        cause=(
            "the guest's clock is wrong (a new VM without NTP), or the server's certificate does not match"
            " the token"
        ),
        check=(
            "timedatectl status in the guest: synchronized, with the correct date",
            "curl -v https://SERVER/ in the guest: the certificate's dates",
        ),
        remedy=(
            "correct the clock (NTP or VMware Tools), or download a new token if the server's certificate was"
            " changed"
        ),
        source=(
            "libcurl's certificate error message; NVIDIA virtual GPU client licensing user guide; the link"
            " to gridd is from memory"
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
        symptom="vCenter has no license for the operation",
        cause=(
            "the host's or vCenter's license does not include this feature (vGPU requires vSphere Enterprise"
            " Plus, or a subscription that includes it)"
        ),
        check=("Administration > Licensing > Licenses > Assets: the host's license and its features",),
        remedy="assign the host a license that includes the feature",
        source=(
            "vSphere API reference: LicenseRestricted, NotEnoughLicenses; the edition required for vGPU is"
            " from memory"
        ),
        confidence=Confidence.INFERRED,
        faults=frozenset({"LicenseRestricted", "NotEnoughLicenses"}),
    ),
)
