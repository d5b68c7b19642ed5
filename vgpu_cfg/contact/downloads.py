"""Read what guests would download: files, image digests, and the newest toolkit, to pin them.

Mirrors are asked as guests ask them, with the site's CA. The proxy is that of this machine's environment
(`https_proxy`, `no_proxy`). No login is sent: an image that requires one is reported.

Sources: OCI Distribution Specification 1.1, "Pulling manifests"; docs.docker.com, "Registry authentication"
(Bearer). The index of NVIDIA's apt repository is stable/deb/amd64/Packages, in the format of deb-control(5).
"""

from __future__ import annotations

import hashlib
import json
import re
import ssl
import urllib.request
from collections.abc import Iterator, Sequence
from urllib.parse import urlencode, urlsplit

import urllib3
from urllib3.exceptions import HTTPError

from vgpu_cfg.documents import Limit
from vgpu_cfg.errors import Unreachable
from vgpu_cfg.model.guests.downloads import TOOLKIT, Download
from vgpu_cfg.model.plan_file import DEFAULT_REGISTRY, registry_of, split_image

_MANIFESTS = (
    "application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json, "
    "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
)
_HUB = "registry-1.docker.io"
_VERSION = re.compile(rf"^Package: {TOOLKIT}\n(?:.+\n)*?Version: ([0-9.]+-[0-9]+)\n", re.MULTILINE)
_CHALLENGE = re.compile(r'(realm|service|scope)="([^"]*)"')
_MOST_FILE = Limit("", 64 * 2**30)
_MOST_ANSWER = Limit("", 16 * 2**20)
_CHUNK = 2**20
_TIMES = urllib3.Timeout(connect=20, read=60)


class Reader:
    """Reads addresses; `certificates` are PEM texts of authorities to trust next to this machine's."""

    def __init__(self, certificates: Sequence[str] = ()) -> None:
        self._context = ssl.create_default_context()
        for text in certificates:
            self._context.load_verify_locations(cadata=text)
        self._direct = urllib3.PoolManager(ssl_context=self._context, timeout=_TIMES, retries=3)

    def pin_of(self, download: Download) -> str:
        """Return the SHA-256 of a file, the digest of an image, or the version of the toolkit.

        Returns "" for other packages: their signature is checked. Raises Unreachable with the reason.
        """
        if download.package:
            return self._newest(download.address) if download.package == TOOLKIT else ""
        if "://" in download.address:
            return self._sha256(download.address)
        return self._image(download)

    def _sha256(self, url: str) -> str:
        found = hashlib.sha256()
        for chunk in self._read(url, {}, _MOST_FILE):
            found.update(chunk)
        return found.hexdigest()

    def _newest(self, repository: str) -> str:
        url = f"{repository.rstrip('/')}/stable/deb/amd64/Packages"
        text = b"".join(self._read(url, {}, _MOST_ANSWER)).decode("utf-8", "replace")
        versions = _VERSION.findall(text)
        if not versions:
            raise _unusable(url, f"the index contains no release of {TOOLKIT}")
        return str(max(versions, key=lambda one: [int(part) for part in re.split("[.-]", one)]))

    def _image(self, download: Download) -> str:
        registry, name, tag = _parts(download.address)
        base = download.via or f"https://{_HUB if registry == DEFAULT_REGISTRY else registry}"
        url = f"{base.rstrip('/')}/v2/{name}/manifests/{tag}"
        headers = {"Accept": _MANIFESTS}
        try:
            body = b"".join(self._read(url, headers, _MOST_ANSWER))
        except _ChallengedError as asked:
            headers["Authorization"] = f"Bearer {self._token(url, asked.challenge)}"
            body = b"".join(self._read(url, headers, _MOST_ANSWER))
        return f"sha256:{hashlib.sha256(body).hexdigest()}"

    def _token(self, url: str, challenge: str) -> str:
        """Return a token that lets anybody read. Raises Unreachable if the registry requires a login."""
        words = dict(_CHALLENGE.findall(challenge))
        realm = words.pop("realm", "")
        if not challenge.lower().startswith("bearer ") or not realm.startswith("https://"):
            raise _unusable(url, "the registry requires a login")
        body = b"".join(self._read(f"{realm}?{urlencode(words)}", {}, _MOST_ANSWER))
        try:
            found = json.loads(body)
            token = found.get("token") or found.get("access_token")
        except (ValueError, AttributeError):
            token = None
        if not isinstance(token, str) or not token:
            raise _unusable(url, "the registry requires a login")
        return token

    def _read(self, url: str, headers: dict[str, str], most: Limit) -> Iterator[bytes]:
        """Yield the content of an address. Raises Unreachable, and _ChallengedError for a 401."""
        read = 0
        try:
            answer = self._pool(url).request("GET", url, headers=headers, preload_content=False)
            with answer:
                if answer.status == 401 and "Authorization" not in headers:
                    raise _ChallengedError(url, answer.headers.get("WWW-Authenticate", ""))
                if answer.status != 200:
                    raise _unusable(url, f"HTTP status {answer.status}")
                for chunk in answer.stream(_CHUNK, decode_content=False):
                    read += len(chunk)
                    if read > most.value:
                        raise _unusable(url, f"more than {most.value:,} bytes")
                    yield chunk
        except HTTPError as error:
            raise _unusable(url, re.sub(r"<[^>]*>: |\(Caused by .*", "", str(error)).strip()) from error

    def _pool(self, url: str) -> urllib3.PoolManager:
        parts = urlsplit(url)
        proxy = urllib.request.getproxies().get(parts.scheme)
        if not proxy or urllib.request.proxy_bypass(parts.hostname or ""):
            return self._direct
        return urllib3.ProxyManager(proxy, ssl_context=self._context, timeout=_TIMES, retries=3)


class _ChallengedError(Unreachable):
    """A registry wants a token first."""

    def __init__(self, url: str, challenge: str) -> None:
        super().__init__("the registry requires a login", subject=url)
        self.challenge = challenge


def _unusable(url: str, why: str) -> Unreachable:
    return Unreachable(why, subject=url, remedy="check the address, or write the pin into the plan file")


def _parts(image: str) -> tuple[str, str, str]:
    """Split an image's name into registry, repository and tag, as docker completes them."""
    registry = registry_of(image)
    name, _, tag = split_image(image)[1].partition(":")
    if registry == DEFAULT_REGISTRY and "/" not in name:
        name = f"library/{name}"
    return registry, name, tag or "latest"
