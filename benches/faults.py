"""Does the verdict name the right place? Faults are injected behind iolab's back, one by one, into a lab of two hops.

Usage: python benches/faults.py [NAME ...]. Needs root; a few seconds for each fault. Prints what was injected, what was
concluded from the counters of one load trial, and whether that is right, silent (unexplained, or only the host was
blamed) or wrong; then whether reading back would have told of it as well. Trials that the host disturbed are repeated.
Faults named "guest: ..." have a virtual machine as device instead: they need QEMU, the image linux, and 20 s each.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from iolab.agent.client import Agent, AgentLost
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.measures import Packets
from iolab.lab.compose import compose
from iolab.lab.kernels import HERE
from iolab.lab.placement import placement_of
from iolab.lab.topology import make_topology
from iolab.run.agents import Agents
from iolab.run.prepare import open_agent, read_facts
from iolab.run.running import process_id
from iolab.run.standing import StandingLab
from iolab.trial.latency import USUAL_LOSS_RATIO
from iolab.trial.limits import Limit
from iolab.trial.load import LoadBench, LoadRecord
from iolab.trial.measured import TrialFailed
from iolab.trial.search.types import LoadTrial
from iolab.trial.site import GuestPlace, Site

LAB = """
title: Faults
lab:
  machines:
    tester: {{kind: netns}}
    a: {{kind: netns, forward: {a}}}
    b: {{kind: netns, forward: {b}{device}}}
  links:
    west: {{ends: [tester.p0, a.eth0], mtu: 1500}}
    mid: {{ends: [a.eth1, b.eth0], mtu: 1500}}
    east: {{ends: [b.eth1, tester.p1], mtu: 1500}}
measure:
  load: {{kind: latency, from: tester.p0, to: tester.p1, frame_size: 512, rate: 20kpps, duration: 1s{more}}}
"""
GUEST_LAB = """
title: Faults of a guest
lab:
  machines:
    tester: {{kind: netns}}
    dut: {{kind: vm, memory: 256M, nic: {nic}, pin: {pin}, forward: bridge}}
  links:
    west: {{ends: [tester.p0, dut.eth0], mtu: 1500}}
    east: {{ends: [dut.eth1, tester.p1], mtu: 1500}}
measure:
  load: {{kind: latency, from: tester.p0, to: tester.p1, frame_size: 512, rate: 5kpps, duration: 1s}}
"""
HOG = (
    "import os,time\nos.sched_setaffinity(0,{{{cpu}}})\n"
    "os.sched_setscheduler(0,os.SCHED_FIFO,os.sched_param({priority}))\nprint(flush=True)\n"
    "end=time.monotonic()+{seconds}\nwhile time.monotonic()<end:\n b=time.monotonic()+{on}\n"
    " while time.monotonic()<b: pass\n time.sleep({off})\n"
)
"""Takes a CPU from everything of lower priority, again and again: `on` seconds, then `off` without it."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is made wrong."""

    name: str
    """In words."""
    expected: tuple[str, ...]
    """Texts of which the verdict must hold one; the first is the place."""
    commands: tuple[tuple[str, str], ...] = ()
    """Machine (empty: the computer itself) and command, run after the lab stands."""
    lab: dict[str, str] = field(default_factory=dict)
    """What the lab is made with instead."""
    fps: float = 20_000.0
    """Load [frames/s]."""
    hog: tuple[str, float, float] | None = None
    """Part of the trial (send, device, receive) whose CPU is taken, and for how long of a turn it is and is not [s]."""
    nic: str = ""
    """Card of the guest that is the device; empty: the devices are two namespaces."""
    stopped_s: tuple[float, float] | None = None
    """When the guest's hypervisor is stopped, from the beginning, and for how long [s]."""


FAULTS = (
    Fault("a slow hop: tbf at a.eth1", ("a.eth1",), (
        ("a", "tc qdisc add dev eth1 root tbf rate 30mbit burst 4k limit 8k"),)),
    Fault("a slow hop: htb at b.eth1", ("b.eth1",), (
        ("b", "tc qdisc add dev eth1 root handle 1: htb default 1"),
        ("b", "tc class add dev eth1 parent 1: classid 1:1 htb rate 20mbit burst 4k quantum 1514"),
        ("b", "tc qdisc add dev eth1 parent 1:1 pfifo limit 20"))),
    Fault("a qdisc that drops everything at b.eth1", ("b.eth1",), (
        ("b", "tc qdisc add dev eth1 root bfifo limit 100"),)),
    Fault("a short queue: tbf with room for two frames at a.eth1", ("a.eth1",), (
        ("a", "tc qdisc add dev eth1 root tbf rate 70mbit burst 1600 limit 1600"),)),
    Fault("a wrong MTU at b.eth1", ("b.eth1",), (("b", "ip link set eth1 mtu 300"),)),
    Fault("a wrong MTU at a.eth1", ("a.eth1",), (("a", "ip link set eth1 mtu 400"),)),
    Fault("a port that is down: a.eth1", ("a.eth1",), (("a", "ip link set eth1 down"),)),
    Fault("a port outside the bridge: b.eth0", ("b.eth0",), (("b", "ip link set eth0 nomaster"),)),
    Fault("forwarding switched off in router a", ("a.eth0",), (
        ("a", "sysctl -q -w net.ipv4.ip_forward=0"),), {"a": "route"}),
    Fault("no route in router a", ("a.eth0",), (("a", "ip route flush table main"),), {"a": "route"}),
    Fault("a device that forwards 5 000 frames/s", ("b.eth0",),
          lab={"b": "xdp", "device": ", device: {rate: 5000, burst: 32}"}),
    Fault("a device that loses 1 frame in 100", ("b.eth0",),
          lab={"b": "xdp", "device": ", device: {lose_every: 100}"}),
    Fault("more than the generator can send", ("generator",), fps=30_000_000.0),
    Fault("a busy CPU under the device", ("a.eth0", "b.eth0"), hog=("device", 0.5, 0.02), fps=100_000.0),
    Fault("a slow receiver", ("receiver", "tester.p1"), lab={"more": ", path: af_packet, scheduling: normal"},
          hog=("receive", 0.08, 0.02), fps=100_000.0),
    Fault("a busy CPU under the sender", ("sender", "generator"), hog=("send", 0.02, 0.1), fps=50_000.0),
)  # fmt: skip
GUEST_FPS = 4_000.0
"""What an emulated guest forwards without loss on a busy host [frames/s]."""
GUEST_FAULTS = tuple(
    replace(fault, name=f"guest: {fault.name}, {fault.nic}", fps=fault.fps if fault.fps != 20_000.0 else GUEST_FPS)
    for fault in (
        Fault("a short ring in the guest", ("dut.eth0",), (
            ("dut", "ethtool -G eth0 rx 80"),), fps=80_000.0, nic="e1000"),
        Fault("a short queue before the guest", ("dut.eth0",), (
            ("tester", "ip link set p0 txqueuelen 1"),), fps=30_000.0, nic="virtio-net"),
        Fault("a hog on the CPU of its threads", ("dut",), hog=("guest", 0.5, 0.01), nic="virtio-net",
              fps=20_001.0, lab={"pin": "[1]"}),
        Fault("a hog on the CPU of its threads", ("dut",), hog=("guest", 0.5, 0.01), nic="e1000",
              fps=20_001.0, lab={"pin": "[1]"}),
        Fault("its threads on the sender's CPU", ("of the time, beside generator",), (
            ("", "taskset -a -p -c @sender @hypervisor"),), fps=400_000.0, nic="virtio-net"),
        Fault("stopped for a second", ("dut",), stopped_s=(0.5, 1.0), fps=10_000.0, nic="virtio-net"),
        Fault("stopped for good", ("dut",), stopped_s=(0.3, 30.0), nic="virtio-net"),
        Fault("a backlog of one packet in the guest", ("dut cpu", "dut.eth0"), (
            ("dut", "sysctl -q -w net.core.netdev_max_backlog=1"),
            ("dut", "sh -c 'echo 1 > /sys/class/net/eth0/queues/rx-0/rps_cpus'")), nic="virtio-net"),
        Fault("a wrong MTU at eth1", ("dut.eth1",), (("dut", "ip link set eth1 mtu 300"),), nic="virtio-net"),
        Fault("a wrong MTU at eth1", ("dut.eth1",), (("dut", "ip link set eth1 mtu 300"),), nic="e1000"),
        Fault("eth1 is down", ("dut.eth1",), (("dut", "ip link set eth1 down"),), nic="virtio-net"),
        Fault("eth0 is down", ("dut.eth0",), (("dut", "ip link set eth0 down"),), nic="virtio-net"),
        Fault("eth0 is down", ("dut.eth0",), (("dut", "ip link set eth0 down"),), nic="e1000"),
        Fault("a slow qdisc at eth1", ("dut.eth1",), (
            ("dut", "tc qdisc add dev eth1 root tbf rate 4mbit burst 4k limit 8k"),), nic="virtio-net"),
        Fault("a qdisc that drops everything at eth1", ("dut.eth1",), (
            ("dut", "tc qdisc add dev eth1 root bfifo limit 100"),), nic="e1000"),
        Fault("eth0 outside the bridge", ("dut.eth0",), (("dut", "ip link set eth0 nomaster"),), nic="virtio-net"),
        Fault("the bridge does not forward to eth1", ("dut.eth1",), (
            ("dut", "bridge link set dev eth1 state 0"),), nic="virtio-net"),
        Fault("more than it can forward", ("dut",), fps=200_000.0, nic="e1000"),
    )
)  # fmt: skip


TRIES = 4
"""Trials of which the first that the host did not disturb counts."""


@dataclass(frozen=True, slots=True)
class Concluded:
    """What was said of a fault."""

    text: str
    """The verdict, or what reading back told."""
    certain: bool
    """False: it was said that nothing explains it."""
    read_back: str
    """What is not as applied, as read back after the trial; empty: everything is."""
    sheet: str = ""
    """The balance sheets, for whoever mends the verdict."""


def main() -> None:
    """Inject every fault, or those named."""
    wanted = [
        fault
        for fault in (*FAULTS, *GUEST_FAULTS)
        if not sys.argv[1:] or any(word in fault.name for word in sys.argv[1:])
    ]
    right = wrong = 0
    with open_agent() as agent:
        facts, _ = read_facts(agent)
        for fault in wanted:
            said = conclude(agent, fault, facts.cpus)
            good = any(word in said.text for word in fault.expected)
            right += good
            wrong += not good and said.certain
            mark = "right " if good else "WRONG " if said.certain else "silent"
            print(f"{mark} {fault.name}: {said.text}", flush=True)
            if said.sheet and not good:
                print(f"       {said.sheet}", flush=True)
            if said.read_back:
                print(f"       read back: {said.read_back}", flush=True)
    print(f"{right} of {len(wanted)} named, {wrong} wrong")


def conclude(agent: Agent, fault: Fault, cpus: int) -> Concluded:
    """Build the lab, inject the fault, do what a run does, and return what it would say."""
    parts = {
        "a": "bridge",
        "b": "bridge",
        "device": "",
        "more": "",
        "pin": "none",
        "nic": fault.nic,
    } | fault.lab
    experiment = parse((GUEST_LAB if fault.nic else LAB).format(**parts), "faults.yaml")
    setup = Resolver(experiment).setup(next(iter(cells(experiment))))
    placement = placement_of(setup, "load", range(cpus))
    assert placement is not None
    agents = Agents(agent)
    measure = setup.measures["load"]
    assert isinstance(measure, Packets)
    lab = StandingLab(agents, lambda _: None)
    lab.change_to(compose(setup.lab, placement=placement, cpus=cpus))
    try:
        running = lab.guests.started("dut")
        pid = running.pid if running is not None else 0
        sender = next(iter(placement.senders.values()))
        for machine, command in fault.commands:
            inject(agents, machine, command.replace("@sender", str(sender)).replace("@hypervisor", str(pid)))
        topology = make_topology(setup.lab)
        ports = {port.ref: lab.arrivals.at(port.netns, port.name, port.kernel) for port in topology.ports()}
        site = Site(
            agent=agent,
            lab=setup.lab,
            topology=topology,
            placement=placement,
            threads={ref: thread for ref, thread in ports.items() if thread is not None},
            agents={kernel: agents.of(kernel) for kernel in agents},
            guests={} if running is None else {"dut": GuestPlace(HERE, process_id("dut"))},
        )
        used = {"send": placement.senders, "receive": placement.receivers, "device": placement.arrivals}
        used["guest"] = {"dut": 1}
        with LoadBench(site, measure, USUAL_LOSS_RATIO) as bench:
            for _ in range(TRIES):
                with hogged(fault, lambda part: next(iter(used[part].values()))), stopped(fault, pid):
                    record = bench.run(LoadTrial(intended_fps=fault.fps, duration_ns=1_000_000_000), "fault")
                verdict = record.verdict
                if verdict.limit is not Limit.HOST or fault.hog is not None:
                    break
        silent = verdict.limit in (Limit.UNEXPLAINED, Limit.HOST)
        text = f"{verdict.limit} {verdict.place}: {verdict.text}"
        return Concluded(text, not silent, "; ".join(lab.mismatches()), sheet(record))
    except (TrialFailed, AgentLost) as error:
        mismatches = "" if agents.lost() or fault.stopped_s else "; ".join(lab.mismatches())
        return Concluded(str(error), certain=True, read_back=mismatches)
    finally:
        lab.take_down()


def inject(agents: Agents, machine: str, command: str) -> None:
    """Run a command on this computer, in a namespace of it, or in a guest."""
    if machine in agents:
        result = agents.of(machine).run(("sh", "-c", command), netns=None)
        if not result.succeeded:
            raise SystemExit(f"{command}: {result.stderr}")
        return
    prefix = ["ip", "netns", "exec", f"iolab-{machine}"] if machine else []
    subprocess.run([*prefix, *command.split()], check=True, stdout=subprocess.DEVNULL)


def sheet(record: LoadRecord) -> str:
    """Return the balance sheets of a trial in words."""
    texts = []
    for one in record.balances:
        drops = ", ".join(f"{drop.place} {drop.reason} {drop.frames}" for drop in one.drops) or "-"
        texts.append(
            f"offered {one.offered_frames} = {one.forwarded_frames} + ({drops}) + {one.unexplained_frames}"
        )
    return "; ".join(texts)


@contextmanager
def stopped(fault: Fault, pid: int) -> Iterator[None]:
    """Stop the hypervisor for a while meanwhile, where the fault is that."""
    if fault.stopped_s is None:
        yield
        return
    begin_s, for_s = fault.stopped_s
    timers = [
        threading.Timer(begin_s, os.kill, (pid, signal.SIGSTOP)),
        threading.Timer(begin_s + for_s, os.kill, (pid, signal.SIGCONT)),
    ]
    for timer in timers:
        timer.start()
    try:
        yield
    finally:
        for timer in timers:
            timer.cancel()
        os.kill(pid, signal.SIGCONT)


@contextmanager
def hogged(fault: Fault, cpu_of: Callable[[str], int]) -> Iterator[None]:
    """Take a CPU away meanwhile, where the fault is that."""
    if fault.hog is None:
        yield
        return
    part, on_s, off_s = fault.hog
    # A guest's threads have no priority of their own, those of the instrument one above 1.
    priority = 1 if part == "guest" else 90
    script = HOG.format(cpu=cpu_of(part), seconds=4, on=on_s, off=off_s, priority=priority)
    child = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()  # from here on it has the CPU
    try:
        yield
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()


if __name__ == "__main__":
    main()
