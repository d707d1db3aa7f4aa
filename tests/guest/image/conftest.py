"""Start a guest from the image with a plain QEMU command, without iolab's code between QEMU and the agent."""

import json
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.netns.runs import until

from iolab.image import Image

BOOT_LIMIT_S = 240
KERNEL_ARGUMENTS = (
    "console=ttyS0 quiet panic=-1 nokaslr mitigations=off cryptomgr.notests no_timer_check net.ifnames=0"
)


class Guest:
    """An emulated guest, and its agent over a socket."""

    def __init__(self, image: Image, folder: Path) -> None:
        self.console = folder / "console"
        path = folder / "agent"
        drive = "if=virtio,format=raw,readonly=on,file="
        self.process = subprocess.Popen(
            [
                *("qemu-system-x86_64", "-accel", "tcg", "-machine", "q35,sata=off,smbus=off", "-cpu", "max"),
                *(
                    "-m",
                    "512",
                    "-smp",
                    "1",
                    "-nodefaults",
                    "-no-user-config",
                    "-display",
                    "none",
                    "-no-reboot",
                ),
                *("-serial", f"file:{self.console}", "-kernel", image.vmlinux, "-initrd", image.initrd),
                *(
                    "-append",
                    f"{KERNEL_ARGUMENTS} iolab.root=/dev/vda iolab.modules=/dev/vdb iolab.name=guest",
                ),
                *("-drive", f"{drive}{image.root}", "-drive", f"{drive}{image.modules}"),
                *(
                    "-chardev",
                    f"socket,id=agent,path={path},server=on,wait=off",
                    "-device",
                    "virtio-serial-pci",
                ),
                *("-device", "virtserialport,chardev=agent,name=org.iolab.agent"),
            ]
        )
        self._socket = socket.socket(socket.AF_UNIX)
        self._number = 0
        self._socket.settimeout(BOOT_LIMIT_S)
        self._connect(path)
        self._stream = self._socket.makefile("rwb", 0)
        self.hello = self._read()

    def _connect(self, path: Path) -> None:
        """Connect as soon as QEMU listens; its socket has a name before that."""

        def connected() -> bool:
            with suppress(OSError):
                self._socket.connect(str(path))
                return True
            return self.process.poll() is not None

        until(connected)

    def _read(self) -> dict[str, Any]:
        try:
            line = self._stream.readline()
        except TimeoutError:
            line = b""
        assert line, (
            f"the guest said nothing; its console: {self.console.read_text(errors='replace')[-2000:]}"
        )
        message: dict[str, Any] = json.loads(line)
        return message

    def call(self, method: str, **params: object) -> Any:
        """Send a request to the agent and return its result."""
        self._number += 1
        request = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self._stream.write(json.dumps(request).encode() + b"\n")
        while (answer := self._read()).get("id") != self._number:
            pass
        assert "result" in answer, answer
        return answer["result"]

    def shell(self, script: str) -> str:
        """Run a script in the guest; it must succeed."""
        done = self.call("command.run", argv=["sh", "-ec", script], timeout_ms=200_000, capture_bytes=1 << 20)
        assert done["exit_status"] == 0, done
        return str(done["stdout"])

    def close(self) -> None:
        """End the guest at once."""
        self.process.kill()
        self.process.wait()
        self._socket.close()


@pytest.fixture(scope="session")
def guest(image: Image, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guest]:
    """Provide a guest for all tests of the image; each test leaves it unchanged for the others."""
    started = Guest(image, tmp_path_factory.mktemp("guest"))
    yield started
    started.close()
