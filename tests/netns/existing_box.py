"""A target that a lab did not create: a tgt and an NBD server in a namespace, with a session that must stay up."""

import hashlib
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.netns.runs import until

NETNS, ADDRESS, HOST = "box-of-user", "198.51.100.2", "198.51.100.1"
IQN, SERIAL, SECRET = "iqn.2006-09.jp.example:lun0", "BOX00042", "hunter2hunter2"
LUN_BYTES = 32 << 20


def shell(*argv: str, env: dict[str, str] | None = None, input: str | None = None) -> str:
    """Run a program to its end; return its output."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env=env, input=input)
    assert done.returncode == 0, (argv, done.stdout + done.stderr)
    return str(done.stdout)


@dataclass
class Box:
    """A target in a namespace."""

    folder: Path
    other: int = 0
    """PID of the different initiator."""

    @property
    def disks(self) -> dict[str, Path]:
        """Return the content of the LUN and of the NBD export."""
        return {"iscsi": self.folder / "lun", "nbd": self.folder / "nbd"}

    @property
    def environment(self) -> dict[str, str]:
        """Return the environment of the target's programs, which does not name the agents' state folder."""
        own = {name: value for name, value in os.environ.items() if name != "IOLAB_STATE_DIR"}
        return {**own, "TGT_IPC_SOCKET": str(self.folder / "tgt.sock")}

    def told(self, *words: str) -> str:
        """Return the answer of tgt."""
        return shell("tgtadm", *words, env=self.environment)

    def sessions(self) -> tuple[str, str]:
        """Return the configuration and the sessions of the target."""
        return (
            self.told("--op", "show", "--mode", "target"),
            self.told("--op", "show", "--mode", "conn", "--tid", "1"),
        )

    def state(self) -> tuple[str, ...]:
        """Return the configuration, the sessions and the content of the target."""
        digests = (hashlib.sha256(disk.read_bytes()).hexdigest() for disk in self.disks.values())
        return (*self.sessions(), *digests)

    def rename(self, serial: str) -> None:
        """Let the LUN report a different serial number."""
        unit = ("--mode", "logicalunit", "--tid", "1", "--lun", "1")
        self.told("--op", "update", *unit, "--params", f"scsi_sn={serial}")


@contextmanager
def box_in(
    folder: Path, inside: tuple[str, ...], address: str, *, size_bytes: int = LUN_BYTES, chap: bool = True
) -> Iterator[Box]:
    """Start a target with random content: a LUN, and an NBD export.

    Args:
        folder: new folder of the target
        inside: command prefix that enters a network namespace
        address: to which the target is bound
        size_bytes: size of both disks [bytes]
        chap: whether the LUN is behind CHAP
    """
    folder.mkdir()
    box = Box(folder)
    for disk in box.disks.values():
        disk.write_bytes(os.urandom(size_bytes))
    with ExitStack() as undo:
        environment = box.environment
        tgtd = subprocess.Popen(
            [*inside, "tgtd", "-f", "--iscsi", f"portal={address}:3260"],
            env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        undo.callback(tgtd.kill)
        until(lambda: subprocess.run(["tgtadm", "--op", "show", "--mode", "sys"], env=environment,
                                     capture_output=True).returncode == 0)  # fmt: skip
        target, unit = (
            ("--mode", "target", "--tid", "1"),
            ("--mode", "logicalunit", "--tid", "1", "--lun", "1"),
        )
        box.told("--op", "new", *target, "--targetname", IQN)
        box.told("--op", "new", *unit, "--bstype", "rdwr", "--backing-store", str(box.disks["iscsi"]))
        box.rename(SERIAL)
        box.told("--op", "new", "--mode", "account", "--user", "box", "--password", SECRET)
        if chap:
            box.told("--op", "bind", "--mode", "account", "--user", "box", "--tid", "1")
        box.told("--op", "bind", *target, "--initiator-address", "ALL")
        pid = folder / "qemu-nbd.pid"
        shell(*inside, "qemu-nbd", "--fork", "--persistent", "--shared", "4", "--format", "raw", "--bind", address,
              "--export-name", "store", "--pid-file", str(pid), str(box.disks["nbd"]), env=environment)  # fmt: skip
        undo.callback(lambda: os.kill(int(pid.read_text()), signal.SIGKILL))
        yield box


@contextmanager
def existing_box(folder: Path) -> Iterator[Box]:
    """Start a target in a separate namespace that this host reaches, and a session of a different initiator."""
    with ExitStack() as undo:
        shell("ip", "netns", "add", NETNS)
        undo.callback(shell, "ip", "netns", "del", NETNS)
        shell("ip", "link", "add", "boxu0", "type", "veth", "peer", "name", "eth0", "netns", NETNS)
        undo.callback(shell, "ip", "link", "del", "boxu0")
        shell("ip", "addr", "add", f"{HOST}/30", "dev", "boxu0")
        shell("ip", "link", "set", "boxu0", "up")
        for words in (("addr", "add", f"{ADDRESS}/30", "dev", "eth0"), ("link", "set", "eth0", "up")):
            shell("ip", "-n", NETNS, *words)
        box = undo.enter_context(box_in(folder, ("ip", "netns", "exec", NETNS), ADDRESS))
        other = folder / "other.pid"
        lun = f"driver=iscsi,transport=tcp,portal={ADDRESS}:3260,target={IQN},lun=1,node-name=disk"
        login = f"{lun},user=box,password-secret=chap,initiator-name=iqn.2001-04.com.example:other"
        shell("qemu-storage-daemon", "--daemonize", "--pidfile", str(other), "--object",
              "secret,id=chap,file=/dev/stdin", "--blockdev", f"{login},read-only=on",
              env=box.environment, input=SECRET)  # fmt: skip
        undo.callback(lambda: os.kill(int(other.read_text()), signal.SIGKILL))
        box.other = int(other.read_text())
        yield box
        assert Path(f"/proc/{box.other}").exists(), "the other session was ended"
