"""Does the verdict name the right place? Faults are injected behind iolab's back, one by one, into a lab of two hops.

Usage: python -m benches.faults.faults [NAME ...]. Needs root; a few seconds for each fault. Prints what was injected,
what was concluded from the counters of one load trial, or of a search, and whether that is right, silent (unexplained,
in doubt, or only the host was blamed) or wrong; then whether reading back would have told of it as well. Trials that
the host disturbed are repeated. Faults named "stream: ..." are of an iperf3 stream. Faults named "guest: ..." have a
virtual machine as device instead: they need QEMU, the image linux, and 20 s each.
"""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from benches.faults.fault_cases import FAULTS, FOREIGN, GUEST_FAULTS, GUEST_LAB, HOG, LAB, LATENCY, Fault
from benches.faults.stream_cases import STREAM_FAULTS
from benches.faults.stream_faults import conclude_stream
from benches.harness.truth_words import named

from iolab.agent.client import Agent, AgentLost
from iolab.analysis.forwarding import verdict as verdict_of
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.packets import Forwarding, Packets
from iolab.lab.compose import compose
from iolab.lab.guests.start import process_id
from iolab.lab.kernels import HERE
from iolab.lab.packets.placement import placement_of
from iolab.lab.topology import make_topology
from iolab.report.locale import EN
from iolab.results.load import LoadRecord
from iolab.results.verdict import Limit
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.hosts.host_facts import read_facts
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.lab_access import GuestPlace, Site
from iolab.trial.measurement import TrialFailed
from iolab.trial.packets.figures import packet_trial
from iolab.trial.packets.forwarding import make_strategy, search
from iolab.trial.packets.latency import USUAL_LOSS_RATIO
from iolab.trial.packets.load import LoadBench
from iolab.trial.search.types import LoadTrial

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
    wanted = [fault for fault in (*FAULTS, *GUEST_FAULTS) if _wanted(fault.name)]
    right = wrong = 0
    with open_agent() as agent:
        facts, _ = read_facts(agent)
        streams = [fault for fault in STREAM_FAULTS if _wanted(f"stream: {fault.name}")]
        for one in streams:
            told = conclude_stream(agent, one)
            right += told.right
            wrong += told.wrong
            mark = "right " if told.right else "WRONG " if told.wrong else "silent"
            print(f"{mark} stream: {one.name}: {told.text}", flush=True)
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
    print(f"{right} of {len(wanted) + len(streams)} named, {wrong} wrong")


def _wanted(name: str) -> bool:
    return not sys.argv[1:] or any(word in name for word in sys.argv[1:])


def conclude(agent: Agent, fault: Fault, cpus: int) -> Concluded:
    """Build the lab, inject the fault, do what a run does, and return what it would say."""
    parts = {
        "a": "bridge",
        "b": "bridge",
        "device": "",
        "shape": "",
        "measure": LATENCY,
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
        ports = {port.ref: lab.napi.at(port.netns, port.name, port.kernel) for port in topology.ports()}
        site = Site(
            agent=agent,
            lab=setup.lab,
            topology=topology,
            placement=placement,
            threads={ref: thread for ref, thread in ports.items() if thread is not None},
            agents={kernel: agents.of(kernel) for kernel in agents},
            guests={} if running is None else {"dut": GuestPlace(HERE, process_id("dut"))},
        )
        used = {"send": placement.senders, "receive": placement.receivers, "device": placement.napi}
        used["guest"] = {"dut": 1}
        with LoadBench(site, measure, USUAL_LOSS_RATIO) as bench:
            if isinstance(measure, Forwarding):
                return of_search(bench, measure)
            record = of_trials(bench, fault, used, pid)
        verdict = record.verdict
        silent = verdict.limit in (Limit.UNEXPLAINED, Limit.HOST) or bool(verdict.doubt)
        text = f"{named(verdict.limit, verdict.place)}: {EN.said.say_all(verdict.seen)}" + (
            f" ({EN.said.say(verdict.doubt)})" if verdict.doubt else ""
        )
        return Concluded(text, not silent, EN.said.say_all(lab.mismatches()), sheet(record))
    except (TrialFailed, AgentLost) as error:
        mismatches = "" if agents.lost() or fault.stopped_s else EN.said.say_all(lab.mismatches())
        return Concluded(str(error), certain=True, read_back=mismatches)
    finally:
        lab.take_down()


def of_trials(bench: LoadBench, fault: Fault, used: Mapping[str, Mapping[str, int]], pid: int) -> LoadRecord:
    """Run load trials until the host disturbs one no more; `pid` is a guest's hypervisor, 0: there is none."""
    for _ in range(TRIES):
        with (
            hogged(fault, lambda part: next(iter(used[part].values()))),
            stopped(fault, pid),
            foreign(fault.foreign_fps),
        ):
            record = bench.run(LoadTrial(intended_fps=fault.fps, duration_ns=fault.duration_ns), "fault")
        if record.verdict.limit is not Limit.HOST or fault.hog is not None:
            break
    return record


def of_search(bench: LoadBench, measure: Forwarding) -> Concluded:
    """Search for a rate, and return what a report would say limited it."""
    records, found = search(bench, make_strategy(measure, bench.site))
    sample = packet_trial(bench, records, rate_fps=found.robust_fps)
    said = verdict_of(sample.load_trials, sample.rate_fps)
    rate = f"{found.robust_fps or 0:.0f} frames/s"
    text = f"{named(said.limit, said.place)}: {EN.said.say_all(said.seen)} ({said.count} of {said.total}; {rate})"
    return Concluded(text, not said.doubtful and said.limit not in ("unexplained", "host"), "")


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
        drops = (
            ", ".join(f"{EN.said.say_any(drop.place)} {drop.reason} {drop.frames}" for drop in one.drops)
            or "-"
        )
        texts.append(
            f"offered {one.offered_frames} = {one.forwarded_frames} + ({drops}) + {one.unexplained_frames}"
        )
    return "; ".join(texts)


@contextmanager
def foreign(fps: float) -> Iterator[None]:
    """Send frames of others from the tester's first port meanwhile."""
    if not fps:
        yield
        return
    prefix = ["ip", "netns", "exec", "iolab-tester", sys.executable, "-c"]
    child = subprocess.Popen([*prefix, FOREIGN.format(fps=fps)], stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        yield
    finally:
        os.kill(child.pid, signal.SIGKILL)
        child.wait()


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
