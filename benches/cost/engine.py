"""Packets per second of iolab's ports and of other generators, from one core, alternating within one run.

Usage: python -m benches.cost.engine [ROUNDS] [none|foreign|gro|threaded|drop|receive ...]. Needs root, two CPUs, cargo,
and the packages netsniff-ng, dpdk-dev, librte-net-af-xdp23, librte-net-af-packet23, librte-mempool-ring23; what is
missing is left out and said. A generator runs in a namespace of its own on CPU 0, before everything that is not
real-time, and never stops by itself; frames are counted by the *interface* over a window, and by the time its busiest
thread was on the CPU: where both rates differ, something else ran there. 64 B on a line are 60 B in memory. Every frame
of ours has its own number, CRC and checksum; 64 share one reading of the clock, as in the engine, but where `each
timed` is said. `paced` is the sender of a trial: as the ones above, but by a schedule (for more than can leave), its
statistics kept. Live frames need NAPI at the far end, so they are left out for `none` and `foreign`.

The words name the far end. Its work is done on the sender's CPU but for `threaded`: there its NAPI has a thread on CPU
1. It is least for `foreign`: frames to an address that is not its own. `receive` sends stamped frames at 1.0 Mpps and
checks each: what arrived, and what the receiving port itself lost.
"""

import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

NEAR, FAR = "iolab-b-near", "iolab-b-far"
WARM_S, WINDOW_S = 0.4, 0.6
TESTPMD_WARM_S = 2.5
REALTIME = ("chrt", "--fifo", "10")
RECEIVED_PPS, RECEIVE_S = 1_000_000, 0.6  # real-time threads are stopped after 0.95 s of each second
TRAFGEN_FRAME = """{
  0x02, 0x00, 0x00, 0x00, 0x00, 0x02, 0x02, 0x00, 0x00, 0x00, 0x00, 0x01, 0x08, 0x00,
  0x45, 0x00, c16(46), c16(0), c16(0), 64, 17, csumip(14, 33), 198, 18, 0, 1, 198, 18, 0, 2,
  c16(4096), c16(9), c16(26), c16(0), fill(0x00, 18)
}
"""


@dataclass(frozen=True, slots=True)
class Generator:
    """One way to send."""

    name: str
    """how it is printed"""
    family: str
    """af_xdp or af_packet: whom it is compared with"""
    command: tuple[str, ...]
    """what is run in the near namespace, for ever"""
    ours: bool = False
    """whether this is a path of iolab"""
    warm_s: float = WARM_S
    """how long it needs before it sends [s]"""
    needs_napi: bool = False
    """whether its frames vanish where the far end has no NAPI"""


@dataclass(slots=True)
class Rates:
    """What was measured of one generator, by round."""

    wall_pps: list[float] = field(default_factory=list)
    """frames the interface counted, by time passed [frames/s]"""
    cpu_pps: list[float] = field(default_factory=list)
    """the same, by time its busiest thread was on the CPU [frames/s]"""


def testpmd(vdev: str, driver: str) -> tuple[str, ...]:
    """Return the command of a sending testpmd with its worker on CPU 0."""
    found = sorted(Path("/usr/lib/x86_64-linux-gnu").glob("dpdk/pmds-*"))
    folder = found[-1] if found else Path("/nonexistent")
    before = "dpdk-testpmd --lcores 0@1,1@0 --no-huge -m 512 --no-pci --no-telemetry"
    mempool = ("-d", f"{folder}/librte_mempool_ring.so.23")
    after = "--forward-mode=txonly --txpkts=60 --tx-ip=198.18.0.1,198.18.0.2 --eth-peer=0,02:00:00:00:00:02"
    more = "--auto-start --total-num-mbufs=8192 --nb-cores=1 --stats-period 1"
    return (
        *before.split(),
        *mempool,
        "-d",
        f"{folder}/{driver}",
        f"--vdev={vdev}",
        "--",
        *after.split(),
        *more.split(),
    )


def generators(programs: Path, config: Path) -> list[Generator]:
    """Return every generator whose program is installed; name those that are not."""
    blast = str(programs / "blast")
    ours = [("iolab AF_XDP", "af_xdp", "xdp", 64), ("iolab AF_XDP, each timed", "af_xdp", "xdp", 1)]
    ours += [("iolab AF_PACKET sendmmsg", "af_packet", "messages", 64)]
    ours += [("iolab BPF live", "af_xdp", "live", 64)]
    paced = [
        ("AF_XDP", "af_xdp", "af_xdp"),
        ("BPF live", "af_xdp", "bpf_live"),
        ("AF_PACKET", "af_packet", "af_packet"),
    ]
    pmd = "librte_net_af_xdp.so.23", "librte_net_af_packet.so.23"
    mausezahn = (
        "mausezahn ibt0 -c 0 -d 0 -a 02:00:00:00:00:01 -b 02:00:00:00:00:02 -A 198.18.0.1 -B 198.18.0.2"
    )
    listed = [
        *(
            Generator(
                name,
                family,
                (blast, "ibt0", path, "cpu=0", "seconds=60", f"burst={burst}"),
                ours=True,
                needs_napi=path == "live",
            )
            for name, family, path, burst in ours
        ),
        *(
            Generator(
                f"iolab {name}, paced",
                family,
                (str(programs / "paced"), "ibt0", path, "cpu=0"),
                ours=True,
                needs_napi=path == "bpf_live",
            )
            for name, family, path in paced
        ),
        Generator("bare AF_XDP loop", "bare", (blast, "ibt0", "bare", "cpu=0", "seconds=60")),
        Generator("trafgen", "af_packet", ("trafgen", "-o", "ibt0", "-c", str(config), "-P", "1", "-n", "0")),
        Generator(
            "mausezahn", "af_packet", (*mausezahn.split(), "-t", "udp", "sp=4096,dp=9", "-p", "18", "-q")
        ),
        Generator(
            "testpmd net_af_xdp",
            "af_xdp",
            testpmd("net_af_xdp0,iface=ibt0,start_queue=0,queue_count=1", pmd[0]),
            warm_s=TESTPMD_WARM_S,
        ),
        Generator(
            "testpmd net_af_packet",
            "af_packet",
            testpmd("net_af_packet0,iface=ibt0,qdisc_bypass=1", pmd[1]),
            warm_s=TESTPMD_WARM_S,
        ),
    ]
    missing = {one.command[0] for one in listed if shutil.which(one.command[0]) is None}
    if missing:
        print(f"left out, not installed: {', '.join(sorted(missing))}")
    return [one for one in listed if one.command[0] not in missing]


@contextmanager
def namespaces() -> Iterator[None]:
    """Join two new namespaces by a veth pair, ibt0 to ibr0, and remove them at the end."""
    quiet = "sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"
    try:
        for name in (NEAR, FAR):
            subprocess.run(["ip", "netns", "add", name], check=True)
            subprocess.run(["ip", "netns", "exec", name, *quiet.split()], check=True)
        pair = f"ip -n {NEAR} link add ibt0 address 02:00:00:00:00:01 type veth peer name ibr0"
        subprocess.run([*pair.split(), "address", "02:00:00:00:00:02", "netns", FAR], check=True)
        subprocess.run(f"ip -n {FAR} link set ibr0 up".split(), check=True)
        subprocess.run(f"ip -n {NEAR} link set ibt0 up".split(), check=True)
        yield
    finally:
        for name in (NEAR, FAR):
            subprocess.run(["ip", "netns", "del", name], check=False)


@contextmanager
def receiver(kind: str, programs: Path) -> Iterator[None]:
    """Arrange the far end: nothing, GRO (its NAPI is on), or an XDP program that drops."""
    exec_far = ["ip", "netns", "exec", FAR]
    if kind == "drop":
        command = [*exec_far, str(programs / "device"), "ibr0", "drop"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as device:
            assert device.stdin is not None
            assert device.stdout is not None
            device.stdout.readline()
            yield
            device.stdin.close()
        return
    state = "on" if kind in ("gro", "threaded") else "off"
    address = "02:00:00:00:00:99" if kind == "foreign" else "02:00:00:00:00:02"
    subprocess.run(["ip", "-n", FAR, "link", "set", "ibr0", "address", address], check=True)
    subprocess.run([*exec_far, "ethtool", "-K", "ibr0", "gro", state], check=True)
    near = ["ip", "netns", "exec", NEAR, "ethtool", "-K", "ibt0", "tso", "off", "gso", "off"]
    subprocess.run(near, check=True, capture_output=True)
    if kind == "threaded":
        set_threaded("1")
    yield
    if kind == "threaded":
        set_threaded("0")


def set_threaded(state: str) -> None:
    """Give the far end's NAPI a thread of its own on CPU 1, or take it away."""
    command = f"echo {state} > /sys/class/net/ibr0/threaded"
    subprocess.run(["ip", "netns", "exec", FAR, "sh", "-c", command], check=True)
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "comm").read_text().startswith("napi/ibr0-"):
                subprocess.run(["taskset", "-pc", "1", process.name], check=True, capture_output=True)
                subprocess.run(["chrt", "--fifo", "-p", "10", process.name], check=True)


def sent_frames(pid: int) -> int:
    """Return what interface ibt0 of the process's namespace has sent [frames]."""
    for line in Path(f"/proc/{pid}/net/dev").read_text().splitlines():
        if line.strip().startswith("ibt0:"):
            return int(line.split(":")[1].split()[9])
    raise SystemExit("interface ibt0 is gone")


def on_cpu_ns(pid: int) -> dict[str, int]:
    """Return how long each thread of the process and its children has run [ns]."""
    times = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(OSError):
            times[task.name] = int((task / "schedstat").read_text().split()[0])
            for child in (task / "children").read_text().split():
                times.update(on_cpu_ns(int(child)))
    return times


def measure(generator: Generator) -> tuple[float, float] | None:
    """Run a generator for a window; return frames/s by wall and by CPU time, or nothing if it ended early."""
    pinned = () if "dpdk-testpmd" in generator.command else ("taskset", "-c", "0")
    command = [*REALTIME, "ip", "netns", "exec", NEAR, *pinned, *generator.command]
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
    """End a generator and what it started."""
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


def print_table(kind: str, table: dict[Generator, Rates]) -> None:
    """Print medians, and ours over the best peer of the same family round by round."""
    print(f"\nfar end: {kind}")
    print(f"{'generator':26} {'Mpps wall':>10} {'max':>6} {'Mpps/CPU s':>11}   rounds")
    for generator, rates in table.items():
        if rates.wall_pps:
            wall, cpu = statistics.median(rates.wall_pps) / 1e6, statistics.median(rates.cpu_pps) / 1e6
            most, rounds = max(rates.wall_pps) / 1e6, len(rates.wall_pps)
            print(f"{generator.name:26} {wall:10.3f} {most:6.3f} {cpu:11.3f}   {rounds}")
    for ours in (one for one in table if one.ours):
        for against in ("bare", ours.family):
            peers = [one for one in table if not one.ours and one.family == against and table[one].wall_pps]
            peers = [one for one in peers if min(table[one].wall_pps) > 0]
            if not peers or not table[ours].wall_pps or (against == "bare" and ours.family != "af_xdp"):
                continue
            best = max(peers, key=lambda one: statistics.median(table[one].cpu_pps))
            ratios = [
                statistics.median(a / b for a, b in zip(mine, theirs, strict=False))
                for mine, theirs in (
                    (table[ours].wall_pps, table[best].wall_pps),
                    (table[ours].cpu_pps, table[best].cpu_pps),
                )
            ]
            print(f"{ours.name} / {best.name}: {ratios[0]:.2f} by wall, {ratios[1]:.2f} by CPU time")


def print_received(path: str, programs: Path, rounds: int) -> None:
    """Print what one receiving path made of a million stamped frames per second."""
    field = re.compile(r"(mpps=|received_frames: |dropped_frames: |interface_frames=)([\d.]+)")
    far = [*REALTIME, "ip", "netns", "exec", FAR, str(programs / "sink"), "ibr0", path, "cpu=1", "seconds=5"]
    near = [*REALTIME, "ip", "netns", "exec", NEAR, str(programs / "blast"), "ibt0", "xdp", "cpu=0"]
    near += [f"seconds={RECEIVE_S}", f"rate={RECEIVED_PPS}", "batch=32"]
    rates, lost, unexplained = [], [], []
    for _ in range(rounds):
        with subprocess.Popen(far, stdout=subprocess.PIPE, text=True) as sink:
            assert sink.stdout is not None
            sink.stdout.readline()
            done = subprocess.run(near, capture_output=True, check=True, text=True)
            seen = dict(field.findall(sink.stdout.read()))
        sent = dict(field.findall(done.stdout))
        rates.append(float(seen["mpps="]))
        lost.append(int(seen["dropped_frames: "]))
        unexplained.append(int(sent["interface_frames="]) - int(seen["received_frames: "]) - lost[-1])
    rate = f"{path:10} {statistics.median(rates):6.3f} Mpps received with every check"
    print(f"{rate}; lost by itself, by round: {lost}; unexplained: {unexplained} frames")


def main() -> None:
    """Build, arrange, measure in alternating order, print."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    kinds = sys.argv[2:] or ["none", "foreign", "gro", "threaded", "drop", "receive"]
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "-p", "iolab-port", "-p", "iolab-traffic", "--examples"],
        check=True,
    )
    programs = Path(os.environ.get("CARGO_TARGET_DIR", "target")).resolve() / "release" / "examples"
    with tempfile.TemporaryDirectory() as folder, namespaces():
        config = Path(folder) / "udp64.cfg"
        config.write_text(TRAFGEN_FRAME)
        listed = generators(programs, config)
        if "receive" in kinds:
            for path in ("native", "generic", "packet"):
                print_received(path, programs, rounds)
        for kind in (one for one in kinds if one != "receive"):
            sending = [one for one in listed if kind not in ("none", "foreign") or not one.needs_napi]
            table = {one: Rates() for one in sending}
            with receiver(kind, programs):
                for number in range(rounds):
                    for one in sending if number % 2 else reversed(sending):
                        found = measure(one)
                        if found is not None:
                            table[one].wall_pps.append(found[0])
                            table[one].cpu_pps.append(found[1])
            print_table(kind, table)


if __name__ == "__main__":
    main()
