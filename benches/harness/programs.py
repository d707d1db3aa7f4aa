"""Start programs for benches, in network namespaces or not, and read counters of interfaces."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from ctypes import CDLL, get_errno
from pathlib import Path
from typing import NamedTuple

from iolab.experiment.experiment import TAG_LETTERS

ROOT = Path(__file__).parents[2]
END_S = 10
REALTIME = ("chrt", "--fifo", "10")
BUSY = "while True: pass"
"""A Python program that uses a CPU all the time."""
TRAFGEN_FRAME = """{
  0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00,
  0x45, 0x00, c16(46), c16(0), c16(0), 64, 17, csumip(14, 33), 198, 18, 0, 1, 198, 18, 0, 2,
  c16(4096), c16(9), c16(26), c16(0), fill(0x00, 18)
}
"""
"""A frame of 64 B with its FCS, in trafgen's syntax."""


def within(netns: str, *argv: str) -> list[str]:
    """Return the command that runs a program in a network namespace; empty: in the current one."""
    return ["ip", "netns", "exec", netns, *argv] if netns else [*argv]


def lab_netns(machine: str) -> str:
    """Return the namespace of a machine of the lab that a run has built; empty if the namespace does not exist yet."""
    found = Path("/run/netns").glob(f"{'[a-z]' * TAG_LETTERS}-{machine}")
    return next((path.name for path in found if os.path.ismount(path)), "")  # Path.is_mount wants a folder


@contextmanager
def entered(netns: str) -> Iterator[None]:
    """Enter a network namespace with the current thread."""
    libc, own = CDLL(None, use_errno=True), os.open("/proc/self/ns/net", os.O_RDONLY)
    other = os.open(f"/run/netns/{netns}", os.O_RDONLY)
    try:
        if libc.setns(other, 0):
            raise OSError(get_errno(), f"entering {netns}")
        yield
    finally:
        libc.setns(own, 0)
        os.close(other)
        os.close(own)


def output(*argv: str, text: str | None = None) -> str:
    """Run a program to its end, with `text` as its input; return its output.

    Raises:
        RuntimeError: the program failed.
    """
    done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(argv)}: {done.stderr.strip()}")
    return done.stdout


def shown(*argv: str) -> str:
    """Run a program to its end; return its output, whether it failed or not."""
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout


class Running:
    """A running program."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self.pid, self.process = process.pid, process
        self._input, self._output = process.stdin, process.stdout

    def line(self) -> str:
        """Wait for the program's next line."""
        return self._output.readline()

    def wait_for(self, word: str) -> None:
        """Wait for a line of the program that contains a word."""
        while word not in (line := self.line()):
            assert line, f"{self.process.args!r} ended before {word!r}"

    def go(self) -> None:
        """Send the line for which the program waits."""
        self._input.write("\n")
        self._input.flush()

    def rest(self) -> str:
        """Wait for the end of the program; return its remaining output."""
        return self._output.read()


@contextmanager
def running(*argv: str, until: str | None = None, killed: bool = True) -> Iterator[Running]:
    """Run a program in the background; continue after its first line, or after a line that contains `until`.

    On exit, the program is killed, or its input is closed and its end awaited.
    """
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        program = Running(process)
        program.wait_for(until or "")
        try:
            yield program
        finally:
            if killed:
                process.kill()
            else:
                process.communicate(timeout=END_S)


def serving(netns: str, port: int = 5201, *before: str) -> AbstractContextManager[Running]:
    """Start an iperf3 server for one client in a namespace; wait for its end on exit.

    `before` is the prefix of the command.
    """
    argv = ("iperf3", "--server", "--one-off", "--port", str(port), "--forceflush")
    return running(*within(netns, *before, *argv), until="listening", killed=False)


def examples(*crates: str) -> Path:
    """Build the examples of crates; return their folder."""
    packages = [word for crate in crates for word in ("-p", crate)]
    subprocess.run(["cargo", "build", "--release", "--quiet", *packages, "--examples"], cwd=ROOT, check=True)
    return target_examples()


def target_examples() -> Path:
    """Return the folder of built examples."""
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")).resolve() / "release" / "examples"


def interface_count(netns: str, interface: str, counter: str) -> int:
    """Return an interface counter such as tx_packets."""
    return int(output(*within(netns, "cat", f"/sys/class/net/{interface}/statistics/{counter}")))


def address_of(netns: str, interface: str) -> str:
    """Return the IPv4 address of an interface."""
    shown = output("ip", "-n", netns, "-j", "-4", "addr", "show", "dev", interface)
    return str(json.loads(shown)[0]["addr_info"][0]["local"])


class End(NamedTuple):
    """One end of a veth pair, in a separate namespace."""

    netns: str
    interface: str
    address: str = ""
    """IP address with prefix length; empty: no address."""
    mac: str = ""
    """MAC address; empty: the kernel chooses it."""


@contextmanager
def joined(near: End, far: End) -> Iterator[None]:
    """Create two namespaces connected by a veth pair, without IPv6; remove them on exit."""
    quiet = ("net.ipv6.conf.all.disable_ipv6=1", "net.ipv6.conf.default.disable_ipv6=1")
    try:
        for end in (near, far):
            output("ip", "netns", "add", end.netns)
            output(*within(end.netns, "sysctl", "-qw", *quiet))
        macs = [f"address {end.mac}" if end.mac else "" for end in (near, far)]
        pair = f"link add {near.interface} {macs[0]} type veth peer name {far.interface} {macs[1]} netns {far.netns}"
        output("ip", "-n", near.netns, *pair.split())
        for end in (far, near):
            if end.address:
                output("ip", "-n", end.netns, "address", "add", end.address, "dev", end.interface)
            output("ip", "-n", end.netns, "link", "set", end.interface, "up")
        yield
    finally:
        for end in (near, far):
            subprocess.run(["ip", "netns", "del", end.netns], check=False, capture_output=True)
