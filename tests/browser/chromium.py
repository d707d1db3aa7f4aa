"""Start a headless Chromium and control it over the DevTools protocol. It opens files and has no network."""

import itertools
import json
import shutil
import subprocess
import time
from base64 import b64decode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.netns.runs import LOOK_AGAIN_S, until
from websockets.sync.client import ClientConnection, connect

START_S = 120.0
"""Start limit for a hanging browser; a cold start on a busy machine took 6 s."""
ANSWER_S = 120.0
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-default-apps",
    "--hide-scrollbars",
    "--disable-features=OptimizationHints,MediaRouter,DialMediaRouteProvider,Translate", "--no-default-browser-check",
    "--remote-debugging-port=0", "--remote-allow-origins=*", "--host-resolver-rules=MAP * ~NOTFOUND",
)  # fmt: skip


def executable() -> str | None:
    """Return the path of Chromium."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Page:
    """One tab: sends commands and keeps events."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self.events: list[Mapping[str, Any]] = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **params: Any) -> Mapping[str, Any]:
        """Send a command and return its answer; keep events that arrive in between."""
        number = next(self._ids)
        self._socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while True:
            message = json.loads(self._socket.recv(timeout=ANSWER_S))
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return dict(message["result"])
            self.events.append(message)

    def evaluate(self, script: str) -> Any:
        """Evaluate JavaScript (a promise is awaited) and return its value."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def resize(self, width: int, height: int = 900) -> None:
        """Set the width of the viewport, which may be below the minimum of a window."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )

    def prefer(self, scheme: str, media: str = "") -> None:
        """Select light or dark, and screen or print."""
        wanted = [{"name": "prefers-color-scheme", "value": scheme}]
        self.call("Emulation.setEmulatedMedia", media=media, features=wanted)

    def open(self, path: Path) -> None:
        """Open a file and wait until its charts are drawn, or have failed."""
        self.call("Page.navigate", url=path.as_uri())
        self.wait_for("document.readyState === 'complete' && document.documentElement.dataset.charts")

    def unfold(self, selector: str) -> None:
        """Open the folds of a kind, and wait until every chart in them is drawn."""
        self.evaluate(f"document.querySelectorAll('{selector}').forEach(each => {{ each.open = true; }})")
        self.wait_for(
            "[...document.querySelectorAll('details[open] .chart')].every(e => e.querySelector('svg'))"
        )

    def wait_for(self, script: str) -> None:
        """Poll until JavaScript has a true value; the page sends no event."""
        until(lambda: self.evaluate(script), ANSWER_S, f"this did not come true in {ANSWER_S} s: {script}")

    def screenshot(self, path: Path) -> None:
        """Write the whole page as PNG."""
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        image = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(b64decode(image["data"]))

    def requested(self) -> list[str]:
        """Return every URL that the page requested, including its own."""
        self.evaluate("new Promise(done => setTimeout(done, 200))")
        sent = [each["params"] for each in self.events if each["method"] == "Network.requestWillBeSent"]
        return [each["request"]["url"] for each in sent]

    def complaints(self) -> list[str]:
        """Return console errors and warnings, uncaught exceptions, and violations of the security policy."""
        found = []
        for each in self.events:
            params = each.get("params", {})
            if each["method"] == "Runtime.exceptionThrown":
                found.append(str(params["exceptionDetails"]))
            elif each["method"] == "Runtime.consoleAPICalled" and params["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(str(params["args"]))
            elif each["method"] == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(str(params["entry"]))
        return found


@contextmanager
def browser(profile: Path) -> Iterator[Page]:
    """Start Chromium with an empty profile; stop it on exit."""
    command = [str(executable()), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
    process = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        port, _ = _port(profile, process)
        address = f"ws://127.0.0.1:{port}{_tab(port)}"
        # Without pings: a browser that is slow on a busy machine is not gone.
        with connect(address, max_size=None, proxy=None, open_timeout=START_S, ping_interval=None) as socket:
            yield Page(socket)
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


def _port(profile: Path, process: subprocess.Popen[bytes]) -> tuple[int, str]:
    """Read Chromium's port from the file that it writes."""
    told = profile / "DevToolsActivePort"
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline and process.poll() is None:
        lines = told.read_text().split("\n") if told.exists() else []
        if len(lines) >= 2:
            return int(lines[0]), lines[1]
        time.sleep(LOOK_AGAIN_S)
    raise TimeoutError(f"Chromium (exit status {process.poll()}) told no DevTools port within {START_S} s")


def _tab(port: int) -> str:
    """Return the tab's address from the browser's server, which is ready before the tab."""
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        for target in _targets(port):
            if target["type"] == "page":
                return "/" + str(target["webSocketDebuggerUrl"]).split("/", 3)[3]
        time.sleep(LOOK_AGAIN_S)
    raise TimeoutError(f"Chromium opened no tab within {START_S} s")


def _targets(port: int) -> list[dict[str, Any]]:
    from http.client import HTTPConnection

    connection = HTTPConnection("127.0.0.1", port, timeout=START_S)
    try:
        connection.request("GET", "/json/list")
        return list(json.loads(connection.getresponse().read()))
    finally:
        connection.close()
