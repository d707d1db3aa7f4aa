"""Check that verdicts name the right place: inject faults one by one into a lab of two hops.

Usage: python -m benches.faults.faults [NAME ...]. Needs root; takes a few seconds for each fault. Prints the injected
fault, the conclusion from the counters of one load trial or of a search, and its grade: right, silent (unexplained,
doubtful, or only the host was blamed) or wrong; then whether reading back the lab would also have detected the fault.
Trials that the host disturbed are repeated. Faults named "stream: ..." concern an iperf3 stream. Faults named "guest:
..." have a virtual machine as device: they need QEMU, the image linux, and 20 s each.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from benches.faults.fault_cases import FAULTS, GUEST_FAULTS, GUEST_LAB, LAB, LATENCY, Fault
from benches.faults.stream_cases import STREAM_FAULTS
from benches.faults.stream_faults import conclude_stream
from benches.harness import others
from benches.harness.arguments import Argument, arguments
from benches.harness.lab import built, setup_of
from benches.harness.programs import output, within
from benches.harness.truth_words import named

from iolab.agent.client import Agent, AgentLost
from iolab.analysis.forwarding import verdict as verdict_of
from iolab.experiment.model.packets import Forwarding, Packets
from iolab.lab.guests.start import process_id
from iolab.lab.kernels import HERE
from iolab.report.locale import EN
from iolab.results.packets import LoadRecord
from iolab.results.verdict import Limit
from iolab.run.agents import Agents
from iolab.run.hosts.host_agent import open_agent
from iolab.run.lab.standing_lab import StandingLab
from iolab.trial.lab_access import GuestPlace, Site
from iolab.trial.measurement import TrialFailed
from iolab.trial.packets.figures import packet_trial
from iolab.trial.packets.forwarding import make_strategy, search
from iolab.trial.packets.load import LoadBench
from iolab.trial.packets.load_curve import USUAL_LOSS_RATIO
from iolab.trial.search.types import LoadTrial

ARGUMENTS = (Argument("name", (), "parts of the names of faults; absent: all", several=True),)
FOREIGN_BYTES = 508
TRIES = 4
"""Maximum number of trials; the first one that the host does not disturb counts."""


@dataclass(frozen=True, slots=True)
class Concluded:
    """The conclusion on a fault."""

    text: str
    """The verdict, or the read-back message."""
    certain: bool
    """Whether a cause was given as certain."""
    read_back: str
    """Settings that differ from the applied ones in the read-back after the trial; empty: none."""
    sheet: str = ""
    """The balance sheets, for debugging the verdict."""


def main() -> None:
    """Inject every fault, or the named ones."""
    words = arguments(__doc__, *ARGUMENTS).name
    wanted = [fault for fault in (*FAULTS, *GUEST_FAULTS) if _wanted(fault.name, words)]
    right = wrong = 0
    with open_agent() as agent:
        streams = [fault for fault in STREAM_FAULTS if _wanted(f"stream: {fault.name}", words)]
        for one in streams:
            told = conclude_stream(agent, one)
            right += told.right
            wrong += told.wrong
            mark = "right " if told.right else "WRONG " if told.wrong else "silent"
            print(f"{mark} stream: {one.name}: {told.text}", flush=True)
        for fault in wanted:
            said = conclude(agent, fault)
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


def _wanted(name: str, words: Sequence[str]) -> bool:
    return not words or any(word in name for word in words)


def conclude(agent: Agent, fault: Fault) -> Concluded:
    """Build the lab, inject the fault, measure like a run, and return its conclusion."""
    usual = {
        "a": "bridge",
        "b": "bridge",
        "device": "",
        "shape": "",
        "measure": LATENCY,
        "more": "",
        "pin": "none",
    }
    parts = usual | {"nic": fault.nic} | fault.lab
    setup, agents = setup_of((GUEST_LAB if fault.nic else LAB).format(**parts)), Agents(agent)
    measure = setup.measures["load"]
    assert isinstance(measure, Packets)
    with built(agents, setup) as (site, lab):
        try:
            return concluded(fault, measure, site, lab, agents)
        except (TrialFailed, AgentLost) as error:
            mismatches = "" if agents.lost() or fault.stopped_s else EN.said.say_all(lab.mismatches())
            return Concluded(str(error), certain=True, read_back=mismatches)


def concluded(fault: Fault, measure: Packets, site: Site, lab: StandingLab, agents: Agents) -> Concluded:
    """Inject the fault and measure; return the conclusion of a run."""
    placement, running = site.placement, lab.guests.started("dut")
    assert placement is not None
    pid = running.pid if running is not None else 0
    sender = next(iter(placement.senders.values()))
    for machine, command in fault.commands:
        inject(agents, machine, command.replace("@sender", str(sender)).replace("@hypervisor", str(pid)))
    if running is not None:
        site = replace(site, guests={"dut": GuestPlace(HERE, process_id("dut"))})
    used = {"send": placement.senders, "receive": placement.receivers, "device": placement.napi}
    used["guest"] = {"dut": 1}
    with LoadBench(site, measure, USUAL_LOSS_RATIO) as bench:
        if isinstance(measure, Forwarding):
            return of_search(bench, measure)
        record = of_trials(bench, fault, used, pid)
    verdict = record.verdict
    silent = verdict.limit in (Limit.UNEXPLAINED, Limit.HOST) or bool(verdict.doubt)
    doubt = f" ({EN.said.say(verdict.doubt)})" if verdict.doubt else ""
    text = f"{named(verdict.limit, verdict.place)}: {EN.said.say_all(verdict.seen)}{doubt}"
    return Concluded(text, not silent, EN.said.say_all(lab.mismatches()), sheet(record))


def of_trials(bench: LoadBench, fault: Fault, used: Mapping[str, Mapping[str, int]], pid: int) -> LoadRecord:
    """Run load trials until the host does not disturb one; `pid` is a guest's hypervisor, or 0."""
    for _ in range(TRIES):
        with (
            hogged(fault, lambda part: next(iter(used[part].values()))),
            stopped(fault, pid),
            foreign(fault.foreign_fps) if fault.foreign_fps else nullcontext(),
        ):
            record = bench.run(LoadTrial(intended_fps=fault.fps, duration_ns=fault.duration_ns), "fault")
        if record.verdict.limit is not Limit.HOST or fault.hog is not None:
            break
    return record


def of_search(bench: LoadBench, measure: Forwarding) -> Concluded:
    """Search for a rate, and return the limit that a report would state."""
    records, found = search(bench, make_strategy(measure, bench.site))
    sample = packet_trial(bench, records, rate_fps=found.robust_fps)
    said = verdict_of(sample.load_trials, sample.rate_fps)
    rate = f"{found.robust_fps or 0:.0f} frames/s"
    text = f"{named(said.limit, said.place)}: {EN.said.say_all(said.seen)} ({said.count} of {said.total}; {rate})"
    return Concluded(text, not said.doubtful and said.limit not in ("unexplained", "host"), "")


def inject(agents: Agents, machine: str, command: str) -> None:
    """Run a command on the local host, in a namespace, or in a guest."""
    if machine in agents:
        result = agents.of(machine).run(("sh", "-c", command), netns=None)
        if not result.succeeded:
            raise SystemExit(f"{command}: {result.stderr}")
        return
    output(*within(machine and f"iolab-{machine}", *command.split()))


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


def foreign(fps: float) -> AbstractContextManager[object]:
    """Send foreign frames from the tester's first port during the trial."""
    return others.foreign("iolab-tester", "p0", FOREIGN_BYTES, fps, to=others.NOBODY)


@contextmanager
def stopped(fault: Fault, pid: int) -> Iterator[None]:
    """Stop the hypervisor for a while during the trial, if the fault requires it."""
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


def hogged(fault: Fault, cpu_of: Callable[[str], int]) -> AbstractContextManager[object]:
    """Occupy a CPU during the trial, if the fault requires it."""
    if fault.hog is None:
        return nullcontext()
    part, on_s, off_s = fault.hog
    # A guest's threads have no real-time priority; those of the instrument have one above 1.
    return others.hog(cpu_of(part), on_s, off_s, priority=1 if part == "guest" else 90)


if __name__ == "__main__":
    main()
