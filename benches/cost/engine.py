"""Compare the packets per second of iolab's ports and of other generators on one core, alternating within one run.

Usage: python -m benches.cost.engine [ROUNDS] [none|foreign|gro|threaded|drop|receive ...]. Needs root, two CPUs, cargo,
and the packages netsniff-ng, dpdk-dev, librte-net-af-xdp23, librte-net-af-packet23, librte-mempool-ring23; a generator
whose package is missing is skipped with a message. Each generator runs in a separate namespace on CPU 0, with priority
over all threads that are not real-time, and never stops by itself. The bench counts the frames of the *interface* per
second of wall time and per second of CPU time of the generator's busiest thread: if the two rates differ, another
program ran on that CPU. Frames of 64 B on a line have 60 B in memory. Every iolab frame has a distinct number, CRC and
checksum; 64 frames share one reading of the clock, as in the engine, except in rows with `each timed`. `paced` is the
sender of a trial: the same path as in the rows above, but with a schedule (at a rate that it cannot reach) and with
statistics. Live frames need NAPI at the far end, so they are skipped for `none` and `foreign`.

The words select the kind of far end. The far end's processing runs on the sender's CPU, except with `threaded`, where
its NAPI has a thread on CPU 1. The far end has the least work with `foreign`: frames to an address of another machine.
`receive` sends stamped frames at 1.0 Mpps, checks each frame, and reports the frames that arrived and the frames that
the receiving port lost.
"""

import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.pairs import alternated
from benches.harness.programs import REALTIME, TRAFGEN_FRAME, End, examples, joined, output, running, within
from benches.harness.table import Table

KINDS = ("none", "foreign", "gro", "threaded", "drop", "receive")
ARGUMENTS = (
    Argument("rounds", 5, "how often each generator is measured"),
    Argument("far_end", KINDS, "what the far end does with frames", allowed=KINDS, several=True),
)
NEAR, FAR = "iolab-b-near", "iolab-b-far"
WARM_S, WINDOW_S = 0.4, 0.6
TESTPMD_WARM_S = 2.5
TESTPMD = "dpdk-testpmd --lcores 0@1,1@0 --no-huge -m 512 --no-pci --no-telemetry"
SENDING = (
    "--forward-mode=txonly --txpkts=60 --tx-ip=198.18.0.1,198.18.0.2 --eth-peer=0,02:00:00:00:00:02 "
    "--auto-start --total-num-mbufs=8192 --nb-cores=1 --stats-period 1"
)
RECEIVED_PPS, RECEIVE_S = 1_000_000, 0.6  # real-time throttling allows 0.95 s of each second


@dataclass(frozen=True, slots=True)
class Generator:
    """A frame generator."""

    name: str
    """printed name"""
    family: str
    """af_xdp or af_packet: the group in which it is compared"""
    command: tuple[str, ...]
    """endless command in the near namespace"""
    ours: bool = False
    """whether it is a path of iolab"""
    warm_s: float = WARM_S
    """time until it sends [s]"""
    needs_napi: bool = False
    """whether its frames are lost if the far end has no NAPI"""


Rates = tuple[float, float]
"""Frames that the interface counted, per second of wall time and of CPU time of the busiest thread [frames/s]."""


def testpmd(vdev: str, driver: str) -> tuple[str, ...]:
    """Return the command of a sending testpmd with its worker on CPU 0."""
    found = sorted(Path("/usr/lib/x86_64-linux-gnu").glob("dpdk/pmds-*"))
    folder = found[-1] if found else Path("/nonexistent")
    return (
        *f"{TESTPMD} -d {folder}/librte_mempool_ring.so.23 -d {folder}/{driver} --vdev={vdev} --".split(),
        *SENDING.split(),
    )


def generators(programs: Path, config: Path) -> list[Generator]:
    """Return every generator whose program is installed; print the names of the others."""
    blast, paced = str(programs / "blast"), str(programs / "paced")
    ours = (
        ("AF_XDP", "af_xdp", (blast, "ibt0", "xdp", "cpu=0", "seconds=60", "burst=64")),
        ("AF_XDP, each timed", "af_xdp", (blast, "ibt0", "xdp", "cpu=0", "seconds=60", "burst=1")),
        ("AF_PACKET sendmmsg", "af_packet", (blast, "ibt0", "messages", "cpu=0", "seconds=60", "burst=64")),
        ("BPF live", "af_xdp", (blast, "ibt0", "live", "cpu=0", "seconds=60", "burst=64")),
        ("AF_XDP, paced", "af_xdp", (paced, "ibt0", "af_xdp", "cpu=0")),
        ("BPF live, paced", "af_xdp", (paced, "ibt0", "bpf_live", "cpu=0")),
        ("AF_PACKET, paced", "af_packet", (paced, "ibt0", "af_packet", "cpu=0")),
    )
    mausezahn = (
        "mausezahn ibt0 -c 0 -d 0 -a 02:00:00:00:00:01 -b 02:00:00:00:00:02 -A 198.18.0.1 -B 198.18.0.2"
    )
    pmds = (
        ("af_xdp", "net_af_xdp0,iface=ibt0,start_queue=0,queue_count=1"),
        ("af_packet", "net_af_packet0,iface=ibt0,qdisc_bypass=1"),
    )
    listed = [
        *(
            Generator(f"iolab {name}", family, command, ours=True, needs_napi=name.startswith("BPF live"))
            for name, family, command in ours
        ),
        Generator("bare AF_XDP loop", "bare", (blast, "ibt0", "bare", "cpu=0", "seconds=60")),
        Generator("trafgen", "af_packet", ("trafgen", "-o", "ibt0", "-c", str(config), "-P", "1", "-n", "0")),
        Generator(
            "mausezahn", "af_packet", (*mausezahn.split(), "-t", "udp", "sp=4096,dp=9", "-p", "18", "-q")
        ),
        *(
            Generator(
                f"testpmd net_{family}",
                family,
                testpmd(vdev, f"librte_net_{family}.so.23"),
                warm_s=TESTPMD_WARM_S,
            )
            for family, vdev in pmds
        ),
    ]
    missing = {one.command[0] for one in listed if shutil.which(one.command[0]) is None}
    if missing:
        print(f"left out, not installed: {', '.join(sorted(missing))}")
    return [one for one in listed if one.command[0] not in missing]


def namespaces() -> AbstractContextManager[None]:
    """Connect two new namespaces by a veth pair, ibt0 to ibr0; remove them at the end."""
    return joined(
        End(NEAR, "ibt0", mac="02:00:00:00:00:01"),
        End(FAR, "ibr0", mac="02:00:00:00:00:02"),
    )


@contextmanager
def receiver(kind: str, programs: Path) -> Iterator[None]:
    """Set up the far end: nothing, GRO (which enables NAPI), or an XDP program that drops."""
    if kind == "drop":
        with running(*within(FAR, str(programs / "device"), "ibr0", "drop"), killed=False):
            yield
        return
    state = "on" if kind in ("gro", "threaded") else "off"
    address = "02:00:00:00:00:99" if kind == "foreign" else "02:00:00:00:00:02"
    output("ip", "-n", FAR, "link", "set", "ibr0", "address", address)
    output(*within(FAR, "ethtool", "-K", "ibr0", "gro", state))
    output(*within(NEAR, "ethtool", "-K", "ibt0", "tso", "off", "gso", "off"))
    if kind == "threaded":
        set_threaded("1")
    yield
    if kind == "threaded":
        set_threaded("0")


def set_threaded(state: str) -> None:
    """Enable or disable threaded NAPI at the far end, on CPU 1."""
    output(*within(FAR, "sh", "-c", f"echo {state} > /sys/class/net/ibr0/threaded"))
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "comm").read_text().startswith("napi/ibr0-"):
                output("taskset", "-pc", "1", process.name)
                output("chrt", "--fifo", "-p", "10", process.name)


def sent_frames(pid: int) -> int:
    """Return the number of frames that interface ibt0 of the process's namespace has sent."""
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
        if line.strip().startswith("ibt0:"):
            return int(line.split(":")[1].split()[9])
    raise SystemExit("interface ibt0 is gone")


def on_cpu_ns(pid: int) -> dict[str, int]:
    """Return the run time of each thread of the process and its children [ns]."""
    times = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            times[task.name] = int((task / "schedstat").read_text().split()[0])
            for child in (task / "children").read_text().split():
                times.update(on_cpu_ns(int(child)))
    return times


def measure(generator: Generator) -> Rates | None:
    """Run a generator for a window; return frames/s of wall and of CPU time, or None if it ended early."""
    pinned = () if "dpdk-testpmd" in generator.command else ("taskset", "-c", "0")
    command = [*REALTIME, *within(NEAR, *pinned, *generator.command)]
    with (
        tempfile.TemporaryFile() as log,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=log, stderr=log) as running,
    ):
        try:
            time.sleep(generator.warm_s)
            began, frames, cpu = time.perf_counter(), sent_frames(running.pid), on_cpu_ns(running.pid)
            time.sleep(WINDOW_S)
            seconds = time.perf_counter() - began
            frames = sent_frames(running.pid) - frames
            spent = [ns - cpu.get(task, 0) for task, ns in on_cpu_ns(running.pid).items()]
        except (OSError, ValueError):
            log.seek(0)
            print(f"{generator.name} ended early: {log.read()[-300:].decode(errors='replace').strip()}")
            return None
        finally:
            stop(running)
    return (frames / seconds, frames / max(spent) * 1e9) if spent and max(spent) > 0 else None


def stop(running: "subprocess.Popen[bytes]") -> None:
    """Stop a generator and its child processes."""
    children = []
    with suppress(OSError):
        children = [
            int(pid) for pid in Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
        ]
    for pid in (*children, running.pid):
        with suppress(OSError):
            os.kill(pid, 15)
    try:
        running.wait(timeout=3)
    except subprocess.TimeoutExpired:
        running.kill()


def print_table(kind: str, table: Mapping[Generator, Sequence[Rates]]) -> None:
    """Print medians, and per round the ratio of iolab to the best peer of the same family."""
    print(f"\nfar end: {kind}")
    shown = Table("<generator                 ", "Mpps wall", "max", "Mpps/CPU s", "rounds")
    for generator, rates in table.items():
        if rates:
            wall, cpu = (list(column) for column in zip(*rates, strict=True))
            most, middle = max(wall) / 1e6, statistics.median(wall) / 1e6
            shown.row(
                generator.name,
                f"{middle:.3f}",
                f"{most:.3f}",
                f"{statistics.median(cpu) / 1e6:.3f}",
                len(wall),
            )
    for ours in (one for one in table if one.ours):
        for against in ("bare", ours.family):
            peers = [one for one in table if not one.ours and one.family == against and table[one]]
            peers = [one for one in peers if min(wall for wall, _ in table[one]) > 0]
            if not peers or not table[ours] or (against == "bare" and ours.family != "af_xdp"):
                continue
            best = max(peers, key=lambda one: statistics.median(cpu for _, cpu in table[one]))
            rounds = list(zip(table[ours], table[best], strict=False))
            by_wall, by_cpu = (
                statistics.median(mine[at] / theirs[at] for mine, theirs in rounds) for at in (0, 1)
            )
            print(f"{ours.name} / {best.name}: {by_wall:.2f} by wall, {by_cpu:.2f} by CPU time")


def print_received(path: str, programs: Path, rounds: int) -> None:
    """Print how one receive path handles a million stamped frames per second."""
    field = re.compile(r"(mpps=|received_frames: |dropped_frames: |interface_frames=)([\d.]+)")
    far = [*REALTIME, *within(FAR, str(programs / "sink"), "ibr0", path, "cpu=1", "seconds=5")]
    near = [*REALTIME, *within(NEAR, str(programs / "blast"), "ibt0", "xdp", "cpu=0")]
    near += [f"seconds={RECEIVE_S}", f"rate={RECEIVED_PPS}", "batch=32"]
    rates, lost, unexplained = [], [], []
    for _ in range(rounds):
        with running(*far, killed=False) as sink:
            sent = dict(field.findall(output(*near)))
            seen = dict(field.findall(sink.rest()))
        rates.append(float(seen["mpps="]))
        lost.append(int(seen["dropped_frames: "]))
        unexplained.append(int(sent["interface_frames="]) - int(seen["received_frames: "]) - lost[-1])
    rate = f"{path:10} {statistics.median(rates):6.3f} Mpps received with every check"
    print(f"{rate}; lost by itself, by round: {lost}; unexplained: {unexplained} frames")


def main() -> None:
    """Build, set up, measure in alternating order and print."""
    asked = arguments(__doc__, *ARGUMENTS)
    programs = examples("iolab-port", "iolab-traffic")
    with tempfile.TemporaryDirectory() as folder, namespaces():
        config = Path(folder) / "udp64.cfg"
        config.write_text(TRAFGEN_FRAME)
        listed = generators(programs, config)
        if "receive" in asked.far_end:
            for path in ("native", "generic", "packet"):
                print_received(path, programs, asked.rounds)
        for kind in (one for one in asked.far_end if one != "receive"):
            sending = [one for one in listed if kind not in ("none", "foreign") or not one.needs_napi]
            with receiver(kind, programs):
                found = alternated({one: partial(measure, one) for one in sending}, asked.rounds)
            print_table(kind, {one: [each for each in own if each] for one, own in found.items()})


if __name__ == "__main__":
    main()
