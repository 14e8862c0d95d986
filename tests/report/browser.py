"""A headless Chromium, driven over its debugging pipe, so that no driver has to be installed and no port is opened."""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Self

FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--remote-debugging-pipe",
]  # fmt: skip


def installed() -> str | None:
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def _start(command: list[str]) -> tuple[subprocess.Popen, int, int]:
    """The process, the descriptor to read its answers from and the one to write commands to."""
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()

    def connect() -> None:
        # Chromium reads commands from descriptor 3 and answers on 4; the copies keep one from overwriting the other.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]
        for end, number in zip(ends, (3, 4), strict=True):
            os.dup2(end, number)

    process = subprocess.Popen(command, pass_fds=(3, 4), preexec_fn=connect, stderr=subprocess.DEVNULL)
    os.close(commands)
    os.close(answers)
    return process, from_browser, to_browser


class Browser:
    """One tab. ``errors``: console errors, uncaught exceptions and refused requests; ``requests``: what it asked for."""

    def __init__(self, profile: Path) -> None:
        self.errors: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._buffer = b""
        self._session = None
        self._process, self._in, self._out = _start([installed(), *FLAGS, f"--user-data-dir={profile}", "about:blank"])
        try:
            target = self.send("Target.createTarget", url="about:blank")["targetId"]
            self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
            for domain in ("Page", "Runtime", "Network", "Log"):
                self.send(f"{domain}.enable")
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_) -> None:
        self.close()

    def close(self) -> None:
        self._process.terminate()
        self._process.wait(timeout=10)
        os.close(self._out)
        os.close(self._in)

    def send(self, method: str, **params) -> dict:
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def screen(self, width: int, height: int, dark: bool = False) -> None:
        """What the tab shows the next pages on."""
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", **size)
        self.send("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path, width: int, height: int, dark: bool = False) -> None:
        self.screen(width, height, dark)
        self.send("Page.navigate", url=page.resolve().as_uri())
        loaded = "document.readyState === 'complete' ? done() : addEventListener('load', done)"
        self.evaluate(f"new Promise(done => {loaded})")

    def evaluate(self, expression: str):
        answer = self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(f"{expression}: {answer['exceptionDetails']}")
        return answer["result"].get("value")

    def screenshot(self, path: Path, full: bool = True) -> None:
        data = self.send("Page.captureScreenshot", captureBeyondViewport=full)["data"]
        path.write_bytes(base64.b64decode(data))

    def _receive(self) -> dict:
        while b"\0" not in self._buffer:
            chunk = os.read(self._in, 1 << 20)
            if not chunk:
                raise RuntimeError("the browser ended")
            self._buffer += chunk
        line, self._buffer = self._buffer.split(b"\0", 1)
        message = json.loads(line)
        self._note(message.get("method"), message.get("params", {}))
        return message

    def _note(self, method: str | None, params: dict) -> None:
        if method == "Runtime.exceptionThrown":
            self.errors.append(str(params["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.errors.append(str(params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.errors.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])


class Tab(Browser):
    """A tab that goes to addresses, and types. What it evaluates is the test's; the page's own script is off unless asked for."""

    def goto(self, url: str, width: int = 1280, height: int = 900, dark: bool = False, scripts: bool = False) -> None:
        self.screen(width, height, dark)
        self.send("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.evaluate("window.old = true")
        self.send("Page.navigate", url=url)
        self.arrive()

    def type(self, text: str, enter: bool = True) -> None:
        self.send("Input.insertText", text=text)
        if enter:
            self.press("Enter", 13)

    def press(self, key: str, code: int) -> None:
        told = {"key": key, "code": key, "windowsVirtualKeyCode": code, "text": {"Enter": "\r"}.get(key, "")}
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, **told)

    def act(self, script: str) -> None:
        """What leads to another document, which has not got the mark of this one."""
        self.evaluate(f"window.old = true; {script}")

    def arrive(self) -> None:
        """Wait for the next document."""
        self.until("!window.old && document.readyState === 'complete'")

    def until(self, condition: str) -> None:
        deadline = time.monotonic() + 15
        while not self.evaluate(condition):
            assert time.monotonic() < deadline, condition
            time.sleep(0.02)

    def loaded(self, count: int) -> None:
        """Wait for so many pictures."""
        self.until(f"document.images.length === {count} && [...document.images].every(one => one.naturalWidth > 0)")

    def text(self, selector: str) -> str:
        return self.evaluate(f"document.querySelector('{selector}').textContent")
