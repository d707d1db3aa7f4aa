"""Does the verdict name the right place? Faults are injected behind iolab's back, one by one, into a lab of two hops.

Usage: python benches/faults.py [NAME ...]. Needs root; a few seconds for each fault. Prints what was injected, what was
concluded from the counters of one load trial, and whether that is right, silent (unexplained, or only the host was
blamed) or wrong; then whether reading back would have told of it as well. Trials that the host disturbed are repeated.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from iolab.agent.client import Agent
from iolab.experiment import Resolver, cells, parse
from iolab.lab.compose import compose
from iolab.lab.placement import placement_of
from iolab.lab.topology import make_topology
from iolab.run.prepare import open_agent, read_facts
from iolab.run.standing import StandingLab
from iolab.trial.latency import USUAL_LOSS_RATIO
from iolab.trial.load import LoadBench
from iolab.trial.measured import TrialFailed
from iolab.trial.search.types import LoadTrial
from iolab.trial.site import Site
from iolab.trial.verdict import Limit

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
HOG = (
    "import os,time\nos.sched_setaffinity(0,{{{cpu}}})\nos.sched_setscheduler(0,os.SCHED_FIFO,os.sched_param(90))\n"
    "end=time.monotonic()+{seconds}\nwhile time.monotonic()<end:\n b=time.monotonic()+{on}\n"
    " while time.monotonic()<b: pass\n time.sleep({off})\n"
)
"""Takes a CPU from everything of lower priority, for part of the time."""


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
    Fault("a busy CPU under the device", ("a.eth0", "b.eth0", "CPU"), hog=("device", 0.5, 0.02), fps=100_000.0),
    Fault("a slow receiver", ("receiver", "tester.p1"), lab={"more": ", path: af_packet, scheduling: normal"},
          hog=("receive", 0.08, 0.02), fps=100_000.0),
    Fault("a busy CPU under the sender", ("sender", "generator"), hog=("send", 0.02, 0.1), fps=50_000.0),
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


def main() -> None:
    """Inject every fault, or those named."""
    wanted = [
        fault for fault in FAULTS if not sys.argv[1:] or any(word in fault.name for word in sys.argv[1:])
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
            if said.read_back:
                print(f"       read back: {said.read_back}", flush=True)
    print(f"{right} of {len(wanted)} named, {wrong} wrong")


def conclude(agent: Agent, fault: Fault, cpus: int) -> Concluded:
    """Build the lab, inject the fault, do what a run does, and return what it would say."""
    parts = {"a": "bridge", "b": "bridge", "device": "", "more": ""} | fault.lab
    experiment = parse(LAB.format(**parts), "faults.yaml")
    setup = Resolver(experiment).setup(next(iter(cells(experiment))))
    placement = placement_of(setup, "load", cpus)
    assert placement is not None
    lab = StandingLab(agent, lambda _: None)
    lab.change_to(compose(setup.lab, placement=placement))
    try:
        for machine, command in fault.commands:
            prefix = ["ip", "netns", "exec", f"iolab-{machine}"] if machine else []
            subprocess.run([*prefix, *command.split()], check=True)
        topology = make_topology(setup.lab)
        ports = {port.ref: lab.arrivals.at(port.netns, port.name) for port in topology.ports()}
        threads = {ref: thread for ref, thread in ports.items() if thread is not None}
        site = Site(agent=agent, lab=setup.lab, topology=topology, placement=placement, threads=threads)
        used = {"send": placement.senders, "receive": placement.receivers, "device": placement.arrivals}
        for _ in range(TRIES):
            with (
                hogged(fault, lambda part: next(iter(used[part].values()))),
                LoadBench(site, setup.measures["load"], USUAL_LOSS_RATIO) as bench,
            ):
                record = bench.run(LoadTrial(intended_fps=fault.fps, duration_ns=1_000_000_000), "fault")
            verdict = record.verdict
            if verdict.limit is not Limit.HOST or fault.hog is not None:
                break
        silent = verdict.limit in (Limit.UNEXPLAINED, Limit.HOST)
        text = f"{verdict.limit} {verdict.place}: {verdict.text}"
        return Concluded(text, not silent, "; ".join(lab.mismatches()))
    except TrialFailed as error:
        return Concluded(str(error), certain=True, read_back="; ".join(lab.mismatches()))
    finally:
        lab.take_down()


@contextmanager
def hogged(fault: Fault, cpu_of: Callable[[str], int]) -> Iterator[None]:
    """Take a CPU away meanwhile, where the fault is that."""
    if fault.hog is None:
        yield
        return
    part, on_s, off_s = fault.hog
    script = HOG.format(cpu=cpu_of(part), seconds=4, on=on_s, off=off_s)
    child = subprocess.Popen([sys.executable, "-c", script])
    time.sleep(0.1)
    try:
        yield
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()


if __name__ == "__main__":
    main()
