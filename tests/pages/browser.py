"""A headless Chromium, spoken to over two pipes by the DevTools protocol: no port, no driver, no library.

Messages are JSON, each ended by a NUL, on the file descriptors 3 and 4 of the browser
(https://chromedevtools.github.io/devtools-protocol/, and `--remote-debugging-pipe` in Chromium's
content/browser/devtools/devtools_pipe_handler.cc).
"""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium")


class Chromium:
    """One page of a browser: `errors` are what its console told, `asked` the addresses that it wanted."""

    def __init__(self, home: Path) -> None:
        assert CHROMIUM is not None
        to_browser, self._to = os.pipe()
        self._from, from_browser = os.pipe()
        self._process = subprocess.Popen(
            # A shell puts the pipes where the browser looks; dash takes no descriptor of two digits.
            [
                *("/bin/bash", "-c", f'exec "$@" 3<&{to_browser} 4>&{from_browser}', "bash", CHROMIUM),
                *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
                *("--remote-debugging-pipe", f"--user-data-dir={home}", "about:blank"),
            ],
            pass_fds=(to_browser, from_browser),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.errors: list[str] = []
        self.asked: list[str] = []
        self._read, self._number, self._session = b"", 0, ""
        self._loads = 0
        (target,) = [one for one in self._ask("Target.getTargets")["targetInfos"] if one["type"] == "page"]
        attached = self._ask("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._ask(f"{domain}.enable")
        self._ask("Performance.enable", timeDomain="threadTicks")

    def close(self) -> None:
        self._session = ""
        self._ask("Browser.close")
        self._process.wait(120)
        os.close(self._to)
        os.close(self._from)

    def look(self, width: int, *, is_dark: bool, height: int = 900) -> None:
        """Take a width in CSS pixels and a colour scheme."""
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if is_dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, path: Path) -> None:
        """Open a file, and wait until it is loaded and two frames were drawn."""
        loads = self._loads
        self._ask("Page.navigate", url=path.as_uri())
        while self._loads == loads:
            self._hear()
        self.drawn()

    def worked(self) -> float:
        """Return the CPU seconds that the main thread has worked; a busy machine changes them little."""
        told = self._ask("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in told if one["name"] == "TaskDuration"))

    def drawn(self) -> None:
        """Wait for two frames."""
        frames = "requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))"
        self.run(f"new Promise((done) => {frames})")

    def run(self, script: str) -> Any:
        """Return what a script comes to, as JSON has it; a promise is waited for."""
        found = self._ask("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: str, number: int) -> None:
        """Press a key, by its name, its code and its Windows number."""
        for kind in ("keyDown", "keyUp"):
            self._ask("Input.dispatchKeyEvent", type=kind, key=key, code=code, windowsVirtualKeyCode=number)

    def picture(self) -> bytes:
        """Return what is seen, as PNG, without scrollbars."""
        self._ask("Emulation.setScrollbarsHidden", hidden=True)
        return base64.b64decode(self._ask("Page.captureScreenshot", format="png")["data"])

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        asked = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        left = json.dumps(asked).encode() + b"\0"
        while left:
            left = left[os.write(self._to, left) :]
        while (found := self._hear()).get("id") != asked["id"]:
            pass
        assert "error" not in found, (method, found["error"])
        result: dict[str, Any] = found["result"]
        return result

    def _hear(self) -> dict[str, Any]:
        while b"\0" not in self._read:
            more = os.read(self._from, 1 << 20)
            assert more, "the browser has ended"
            self._read += more
        message, _, self._read = self._read.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        told = found.get("params", {})
        match found.get("method"):
            case "Page.loadEventFired":
                self._loads += 1
            case "Runtime.exceptionThrown":
                self.errors.append(json.dumps(told["exceptionDetails"]))
            case "Runtime.consoleAPICalled":
                self.errors.append(json.dumps(told["args"]))
            case "Log.entryAdded":
                self.errors.append(told["entry"]["text"])
            case "Network.requestWillBeSent":
                self.asked.append(told["request"]["url"])
            case _:
                pass
        return found
