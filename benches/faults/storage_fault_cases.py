"""The cases of storage_faults.py, each with a lab, an action during fio's run, and the expected report."""

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benches.faults.storage_fault_labs import (
    BREAKS,
    BROKEN,
    DISABLES,
    FIO,
    GUEST,
    READS,
    SHORT_READS,
    SLOW,
    VERIFIES,
    VOLUME,
    by_hypervisor,
    by_kernel,
    by_loop,
    by_user,
    in_guest,
    service,
)
from benches.harness.programs import output, shown

MOVED_BYTES = 20 << 20
"""Traffic on the links of a lab that exceeds the traffic of login and filling the disk."""
FILE, DOOR = Path(f"/var/tmp/iolab-{VOLUME}"), Path(f"/run/iolab-{VOLUME}.door")
"""Paths of the volume, and of its FUSE export in these namespaces."""
STORE_BYTES = 96 << 20
Inject = Callable[[], None]


def processes(name: str, word: bytes = b"") -> list[int]:
    """Return the processes with a name and with a word in their command line or environment."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # processes end during the loop
            if (process / "comm").read_text().strip() != name:
                continue
            if word in (process / "cmdline").read_bytes() + (process / "environ").read_bytes():
                found.append(int(process.name))
    return found


def fio_runs() -> bool:
    """Whether fio measures: filling the disk prints no JSON."""
    return bool(processes("fio", b"json+"))


@dataclass(frozen=True, slots=True)
class Case:
    """One fault in one lab."""

    name: str
    lab: str
    inject: Inject
    codes: tuple[str, ...]
    """Accepted failure codes; empty: the trial must not fail."""
    culprit: str = ""
    """Server that must be named, as CODE of MACHINE; empty: none."""
    is_under_way: Callable[[], bool] = fio_runs
    """Whether the trial's program uses the disk."""
    limit_s: float = 30.0
    on_ssh: bool = False
    delay_s: float = 1.0
    """Time from the program's start to the fault [s]."""
    has_store: bool = False
    """Whether /var/tmp is a small separate file system, new for each trial."""
    programs: Mapping[str, str] = field(default_factory=dict)
    """Scripts that replace programs of these names."""


# Observations and actions from outside --------------------------------------------------------------------------


def links_carry(more_than_bytes: int = MOVED_BYTES) -> bool:
    """Whether that many bytes passed a link of the lab; programs of guests are not visible."""
    named: dict[int, str] = {}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(FileNotFoundError):  # the process ended during the check
            named |= {one.stat().st_ino: str(one) for one in (process / "root/run/netns").glob("iolab*")}
    script = 'for one; do nsenter --net="$one" cat /proc/net/dev; done'
    lines = [
        line.split(":", 1)
        for line in shown("sh", "-c", script, "sh", *named.values()).splitlines()
        if ":" in line and line.split(":")[0].strip() != "lo"
    ]
    counts = [words.split() for _, words in lines]
    return max((int(words[0]) + int(words[8]) for words in counts), default=0) > more_than_bytes


def guest_writes() -> bool:
    """Whether a guest's hypervisor has written more than filling the disk takes."""
    total = 0
    for pid in processes("qemu-system-x86", b"/pc2/"):
        with contextlib.suppress(OSError):
            lines = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
            total = max(total, int(lines["write_bytes"]))
    return total > MOVED_BYTES


def send(number: signal.Signals, name: str, word: bytes = f"iolab-{VOLUME}".encode()) -> Inject:
    """Return a function that sends a signal to the lab's processes of a name."""

    def inject() -> None:
        found = processes(name, word)
        assert found, f"no {name} runs"
        for pid in found:
            os.kill(pid, number)

    return inject


def pause(name: str) -> Inject:
    """Return a function that stops and continues a server twice, each time for less than the silence limit."""

    def inject() -> None:
        for _ in range(2):
            send(signal.SIGSTOP, name)()
            time.sleep(15)
            send(signal.SIGCONT, name)()
            time.sleep(3)

    return inject


def cut_short() -> None:
    """Truncate the volume's file to one MiB."""
    os.truncate(FILE, 1 << 20)


def detach() -> None:
    """Detach the loop device; the kernel detaches it when its last user has closed it."""
    loops = output("losetup", "-n", "-O", "NAME,BACK-FILE").splitlines()
    (line,) = (line for line in loops if f"iolab-{VOLUME}" in line)
    output("losetup", "-d", line.split()[0])


def change_data() -> None:
    """Overwrite the first MiB, and drop its pages from the caches above."""
    with FILE.open("r+b") as file:
        file.write(bytes(range(256)) * 4096)
        os.fsync(file.fileno())
    if DOOR.exists():
        with DOOR.open("rb") as door:
            os.fsync(door.fileno())
            os.posix_fadvise(door.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def take_space() -> None:
    """Punch out the volume's blocks and fill its file system, while fio is stopped."""
    send(signal.SIGSTOP, "fio", b"json+")()
    output("fallocate", "--punch-hole", "--offset", "0", "--length", str(32 << 20), str(FILE))
    with FILE.with_name("others").open("wb") as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    send(signal.SIGCONT, "fio", b"json+")()


def nothing() -> None:
    """Do nothing: the fault occurs by itself."""


SILENT, FAILED = "disk-server-silent", "disk-server-failed"
HOW = {"is stopped": signal.SIGSTOP, "is killed": signal.SIGKILL}
TARGETS = {"iscsi": ("tgtd", "iscsi-target of pc3"), "nbd": ("qemu-nbd", "nbd-server of pc3")}
DAEMON = ("qemu-storage-da", "storage-daemon of pc2")
PLACES = {"here": False, "on an ssh host": True}
LOST_GUEST = (SILENT, FAILED, "agent-was-lost", "several-failures")


def _servers() -> Iterator[Case]:
    """Yield cases that stop and kill each server of each protocol."""
    for place, ssh in PLACES.items():
        for how, number in HOW.items():
            for protocol in ("iscsi", "nbd", "fuse"):
                servers = {"storage daemon": DAEMON}
                servers |= {"target": TARGETS[protocol]} if protocol in TARGETS else {}
                for server, (program, culprit) in servers.items():
                    yield Case(
                        f"{protocol}, via user, {place}: {server} {how}", by_user(protocol, ssh=ssh),
                        send(number, program), (SILENT, FAILED), culprit, on_ssh=ssh,
                    )  # fmt: skip
            for protocol, (program, culprit) in TARGETS.items():
                yield Case(
                    f"{protocol}, via hypervisor, {place}: target {how}", by_hypervisor(protocol, ssh=ssh),
                    send(number, program), (SILENT, FAILED), culprit, links_carry, on_ssh=ssh,
                )  # fmt: skip
                yield Case(
                    f"{protocol}, via kernel, {place}: target in a namespace {how}",
                    by_kernel(protocol, "kind: netns", ssh=ssh),
                    send(number, program), (SILENT, FAILED), culprit, links_carry, on_ssh=ssh,
                )  # fmt: skip
            for protocol in ("iscsi", "nvme-tcp", "nbd"):
                yield Case(
                    f"{protocol}, via kernel, {place}: target's guest {how}", by_kernel(protocol, GUEST, ssh=ssh),
                    send(number, "qemu-system-x86", b"/pc3/"), LOST_GUEST, "guest-kernel of pc3", links_carry,
                    on_ssh=ssh,
                )  # fmt: skip
            yield Case(
                f"file, via hypervisor, {place}: the guest itself {how}", in_guest(ssh=ssh),
                send(number, "qemu-system-x86", b"/pc2/"), LOST_GUEST, "guest-kernel of pc2", guest_writes,
                on_ssh=ssh,
            )  # fmt: skip


def _errors() -> Iterator[Case]:
    """Yield cases with disks that return errors, wrong data, or nothing."""
    failed = ("disk-io-failed",)
    yield Case("loop: file cut short", by_loop(READS), cut_short, failed)
    yield Case("iscsi, via user: file cut short", by_user("iscsi", fio=READS), cut_short, failed)
    for protocol in ("fuse", "nbd"):
        text = by_user(protocol, fio=READS)
        yield Case(f"{protocol}, via user: blkdebug", text, nothing, failed, delay_s=0, programs=BROKEN)
    for via, text in (
        ("hypervisor", by_hypervisor("nbd", fio=READS)),
        ("kernel", by_kernel("nbd", "kind: netns", fio=READS)),
    ):
        yield Case(
            f"nbd, via {via}: blkdebug",
            text,
            nothing,
            failed,
            is_under_way=links_carry,
            delay_s=0,
            programs=BROKEN,
        )
    broken = in_guest(more=f", install: [dmsetup]{service(BREAKS)}")
    yield Case(
        "file, via hypervisor: dm-error in the guest", broken, nothing, failed, "", guest_writes, delay_s=0
    )
    disabled = by_kernel("nvme-tcp", GUEST + service(DISABLES))
    yield Case(
        "nvme-tcp, via kernel: namespace disabled", disabled, nothing, failed, "", links_carry, delay_s=0
    )
    gone = ("disk-detached", "disk-reattached")  # another lab may get the same loop device immediately
    yield Case("loop: detached", by_loop(SHORT_READS), detach, gone)
    for protocol in ("iscsi", "nbd", "fuse"):
        text = by_user(protocol, fio=SHORT_READS)
        yield Case(f"{protocol}, via user: loop device detached", text, detach, gone)
    full = ("disk-store-full",)
    yield Case("loop: no space below", by_loop(FIO), take_space, full, has_store=True)
    for protocol in ("iscsi", "nbd", "fuse"):
        yield Case(
            f"{protocol}, via user: no space below", by_user(protocol), take_space, full, has_store=True
        )
    yield from _other_data()


def _other_data() -> Iterator[Case]:
    wrong = ("disk-data-wrong",)
    labs = {
        "loop": by_loop(VERIFIES),
        **{f"{one}, via user": by_user(one, fio=VERIFIES) for one in ("iscsi", "nbd", "fuse")},
    }
    for name, text in labs.items():
        yield Case(f"{name}: other data", text, change_data, wrong, delay_s=3)
    for protocol in TARGETS:
        via = {
            "hypervisor": by_hypervisor(protocol, fio=VERIFIES),
            "kernel": by_kernel(protocol, "kind: netns", fio=VERIFIES),
        }
        for name, text in via.items():
            yield Case(
                f"{protocol}, via {name}: other data",
                text,
                change_data,
                wrong,
                "",
                links_carry_some,
                delay_s=0,
            )


def links_carry_some() -> bool:
    """Whether some MiB of the volume, but not the whole volume, passed a link."""
    return links_carry(4 << 20)


def _slow() -> Iterator[Case]:
    """Yield cases with disks that are slow but complete all requests; none of these cases may fail."""
    servers = {"iscsi": "tgtd", "nbd": "qemu-nbd", "fuse": DAEMON[0]}
    for protocol, program in servers.items():
        yield Case(
            f"{protocol}, via user: paused twice for 15 s", by_user(protocol, fio=SLOW), pause(program), (),
            limit_s=120,
        )  # fmt: skip
    for protocol, (program, _) in TARGETS.items():
        yield Case(
            f"{protocol}, via kernel: target paused twice for 15 s", by_kernel(protocol, "kind: netns", fio=SLOW),
            pause(program), (), "", links_carry, limit_s=120,
        )  # fmt: skip
        yield Case(
            f"{protocol}, via hypervisor: target paused twice for 15 s", by_hypervisor(protocol, fio=SLOW),
            pause(program), (), "", links_carry, limit_s=120,
        )  # fmt: skip


CASES: tuple[Case, ...] = (*_servers(), *_errors(), *_slow())
IMPOSSIBLE: Mapping[str, str] = {
    "nvme-tcp, via user": "QEMU's storage daemon has no NVMe/TCP initiator",
    "nvme-tcp, via hypervisor": "QEMU has no NVMe/TCP initiator",
    "nvme-tcp, via kernel, target in a namespace": "nvmet needs its module, which guests have",
    "fuse, via kernel or hypervisor": "a FUSE export is how user space passes a disk to its own kernel",
}
"""Combinations that iolab refuses, each with the reason."""
