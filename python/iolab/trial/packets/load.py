"""Run one load trial: open the ports, read the counters, send the frames, drain the queues, and read the counters
again.

The module chooses no load: searches, load curves and latency measures request a load and receive a complete record.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Self

from iolab.agent.client import Refused
from iolab.agent.messages import Json, PortOpened, ReceiverReport
from iolab.agent.traffic import TrafficRan, give_recording, open_ports, run_traffic
from iolab.errors import AgentError
from iolab.experiment.model.packets import Packets
from iolab.lab.packets.frames import mean_bytes, sent_of, sizes_of, vlans_of
from iolab.lab.packets.placement import Way, next_hop, ways
from iolab.lab.readback.values import Interface, value_shown
from iolab.messages.evidence import CpusTaken
from iolab.messages.failures import (
    AddressNotShown,
    AddressUnknown,
    CountersWentBack,
    FramesStillCame,
    PlainFailure,
    SendingFailed,
    TwoClocks,
)
from iolab.messages.places import PortOn, computer
from iolab.results.packets import LoadRecord
from iolab.results.search import LoadResult
from iolab.results.verdict import SENDERS, Thread
from iolab.trial.counters.cpu_use import cpu_uses, steal_ns, thread_uses, threads_read
from iolab.trial.counters.differences import Snapshot, drop_reasons
from iolab.trial.counters.drops import dead_flows
from iolab.trial.counters.shapers import credit_bytes, shapers
from iolab.trial.histograms import merged, summary
from iolab.trial.interference.disturbed import interference
from iolab.trial.interference.work import Work, work_done
from iolab.trial.lab_access import STACKED, Ceilings, Site, path_of
from iolab.trial.measurement import Failed, TrialFailed
from iolab.trial.packets.balance import balances, foreign_frames, offered_frames
from iolab.trial.packets.requests import SET, open_params, run_params
from iolab.trial.packets.snapshots import Counters, other_cpus, span_ns
from iolab.trial.packets.stalls import calm_frames, excused_frames, held_up_ns, logged_ns, perturbations
from iolab.trial.packets.verdict import LoadReadings, judge
from iolab.trial.search.steady import Parts, find_steady
from iolab.trial.search.types import LoadTrial


class LoadBench:
    """A lab's ports, opened for load trials; use the bench as a context manager, which closes the ports on exit."""

    def __init__(self, site: Site, measure: Packets, loss_ratio: float) -> None:
        if site.placement is None:
            raise Failed(PlainFailure(code="unarranged"))
        self.site = site
        self.measure = measure
        self.directions = ways(site.lab, site.topology, measure)
        _refuse_two_kernels(self.directions)
        self.ports: tuple[PortOpened, ...] = ()
        self.answers: list[Json] = []
        """Complete agent answers of the load trials, in execution order."""
        self._loss_ratio = loss_ratio
        self._counters = Counters(site, self.directions)
        self._macs: Mapping[str, str] = {}
        self._number = 0
        self._work: Mapping[str, Work] = {}

    def __enter__(self) -> Self:
        """Open the ports.

        Raises:
            TrialFailed: an interface is missing, down, has a program attached, or its MTU is too small for the frames.
            AgentLost: a kernel on the path is lost; no port stays open.
        """
        assert self.site.placement is not None
        try:
            movable = not self.site.agent.hello.rootless
            params = open_params(self.measure, self.directions, self.site.placement, movable=movable)
            self.ports = open_ports(self.site.agent, params)
            self._give_recording()
            self._macs = {way.name: self._mac(next_hop(self.site.lab, way)) for way in self.directions}
            self._work = work_done(self.site)
        except (AgentError, TrialFailed) as error:
            self.__exit__(None, None, None)
            if isinstance(error, Refused):
                raise TrialFailed(str(error)) from error
            raise
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        """Close the ports if they are open."""
        try:
            self.site.agent.call("traffic.close", {"id": SET})
        except Refused:
            self.ports = ()  # no port set exists, because opening the ports failed

    def over_all(self, of_each: float) -> float:
        """Return the sum over all directions of a rate or a count per direction."""
        return of_each * len(self.directions)

    def taken(self, records: Sequence[LoadRecord]) -> tuple[CpusTaken, ...]:
        """Return a warning for each host on which processes outside the trial used CPUs that the trial needed."""
        here, after = self.directions[0].source.kernel, work_done(self.site)
        return interference(_of_senders(self._work, here), _of_senders(after, here), records)

    def run(self, trial: LoadTrial, purpose: str, share_ratio: float | None = None) -> LoadRecord:
        """Run one load trial.

        Raises:
            TrialFailed: the agent could not run the trial.
        """
        self._number += 1
        params = run_params(
            self.measure,
            self.site.lab,
            self.directions,
            self._macs,
            fps=trial.intended_fps,
            duration_ns=trial.duration_ns,
            number=self._number,
            guests=bool(self.site.guests),
        )
        try:
            before = self._counters.read()
            ran = run_traffic(self.site.agent, params)
            after = self._counters.read()
        except Refused as error:
            raise Failed(SendingFailed(load_fps=trial.intended_fps, said=str(error))) from error
        if any(not receiver.drained for receiver in ran.receivers):
            raise Failed(FramesStillCame(load_fps=trial.intended_fps))
        if reset := self._counters.between(before, after).reset():
            raise Failed(CountersWentBack(load_fps=trial.intended_fps, ports=reset))
        uses = thread_uses(
            self.site, self.directions, ran, threads_read(before.reading), threads_read(after.reading)
        )
        uses += self._counters.other_threads(ran, before, after)
        self.answers.append(ran.raw)
        return self._record(trial, purpose, share_ratio, ran, before, after, uses)

    def _record(
        self,
        trial: LoadTrial,
        purpose: str,
        share_ratio: float | None,
        ran: TrafficRan,
        before: Snapshot,
        after: Snapshot,
        threads: tuple[Thread, ...],
    ) -> LoadRecord:
        counted = self._counters.between(before, after)
        stolen_ns = steal_ns(before.reading, after.reading)
        result = _result(trial, ran, before, after, stolen_ns)
        wires, cpus = self._counters.wires, cpu_uses(before.reading, after.reading)
        seen = LoadReadings(
            balances=balances(wires, ran, counted, self._copied()),
            cpus=(*cpus, *other_cpus(before, after)),
            threads=threads,
            ceilings=self.ceilings(),
            held_ns=held_up_ns(ran.senders, ran.receivers, stolen_ns),
            shapers=shapers(self.site.lab, wires, counted),
            directions=wires,
            late_frames=_late(ran),
            credit_bytes=credit_bytes(self.site.lab),
            dead=dead_flows(ran.receivers),
            begun_again=counted.begun_again(),
        )
        return LoadRecord(
            purpose=purpose,
            share_ratio=share_ratio,
            begin_ns=min(sender.begin_ns for sender in ran.senders),
            result=result,
            directions=len(self.directions),
            balances=tuple(seen.balances),
            verdict=judge(result, self._loss_ratio, seen),
            latency=summary(merged([receiver.latency_ns for receiver in ran.receivers])),
            disorder=_disorder(ran.receivers),
            density=_density(ran.receivers),
            cpus=cpus,
            threads=threads,
            drop_reasons=drop_reasons(before.reading, after.reading),
            shapers=tuple(seen.shapers),
            foreign_frames=foreign_frames(wires, ran, counted),
            unstamped_frames=sum(sender.unstamped_frames for sender in ran.senders),
        )

    def _give_recording(self) -> None:
        """Send the recording for replay to the agent: once per direction, with the VLAN tag of the direction's link."""
        for way in self.directions if self.measure.replay is not None else ():
            tags = vlans_of(self.measure, self.site.lab, way)
            sent = sent_of(self.measure, tags[0] if tags else None)
            give_recording(self.site.agent, SET, way.name, sent.entries)

    def _copied(self) -> frozenset[str]:
        """Return the ports on which the kernel's network stack also receives each frame."""
        return frozenset(
            port.name
            for port in self.ports
            if port.receive is not None and path_of(port.receive.name) == STACKED
        )

    def ceilings(self) -> Ceilings:
        """Return the instrument's calibrated ceilings in one direction, for the paths in use."""
        used = {port.name: port for port in self.ports}
        way = self.directions[0]
        send, receive = used[way.source.ref].send, used[way.target.ref].receive
        if self.site.calibration is None or send is None or receive is None:
            return Ceilings()
        size = int(mean_bytes(sizes_of(self.measure)))
        return self.site.calibration.ceilings(send.name, receive.name, size, self.site.senders)

    def _mac(self, ref: str) -> str:
        """Return the MAC address of a port in the lab."""
        opened = next((port for port in self.ports if port.name == ref), None)
        if opened is not None:
            return opened.mac
        port = self._counters.places[ref]
        shown = self.site.agent_of(port.kernel).run(
            ("ip", "-j", "-d", "addr", "show", "dev", port.interface), netns=port.netns
        )
        mac = value_shown(Interface(port.interface, "mac"), shown.stdout)
        if mac is None:
            said = shown.stderr.strip()
            raise Failed(AddressUnknown(port=ref, said=said) if said else AddressNotShown(port=ref))
        return mac


def _result(
    trial: LoadTrial, ran: TrafficRan, before: Snapshot, after: Snapshot, stolen_ns: int
) -> LoadResult:
    """Return the part of a trial's result that the search needs."""
    steady = find_steady(directions_in_parts(ran))
    at_limit_ratio = steady.share_ratio if steady is not None else 0.0
    calm, calm_lost = calm_frames(ran, trial.duration_ns, 1.0 - (at_limit_ratio or 1.0))
    return LoadResult(
        intended_fps=trial.intended_fps,
        duration_ns=trial.duration_ns,
        intended_frames=sum(sender.intended_frames for sender in ran.senders),
        offered_frames=sum(offered_frames(sender) for sender in ran.senders),
        forwarded_frames=sum(receiver.received_frames for receiver in ran.receivers),
        perturbations=perturbations(ran.senders, ran.receivers, stolen_ns),
        overhead_ns=span_ns(before.reading, after.reading) - trial.duration_ns,
        held_ns=logged_ns(ran, stolen_ns),
        calm_frames=calm,
        calm_lost_frames=calm_lost,
        excused_frames=sum(excused_frames(sender) for sender in ran.senders),
        steady=steady,
        late_frames=sum(receiver.after_end_frames for receiver in ran.receivers),
    )


def directions_in_parts(ran: TrafficRan) -> list[Parts]:
    """Return the frames sent and received in each part of a trial, by direction.

    The list is empty if the frames had no stamp, because it is then unknown when received frames were sent.
    """
    if any(sender.unstamped_frames for sender in ran.senders):
        return []
    return [
        Parts(
            ran.senders[receiver.of].slices_frames,
            receiver.slices_frames,
            receiver.arrived_slices_frames,
            receiver.least_latency_slices_ns,
        )
        for receiver in ran.receivers
    ]


def _disorder(receivers: Sequence[ReceiverReport]) -> tuple[int, int]:
    """Return the numbers of reordered and duplicate frames."""
    late = sum(receiver.reordered_frames for receiver in receivers)
    return late, sum(receiver.duplicate_frames for receiver in receivers)


def _late(ran: TrafficRan) -> tuple[int, ...]:
    """Return the frames that arrived after the end of the trial, per sender."""
    late = [0] * len(ran.senders)
    for receiver in ran.receivers:
        late[receiver.of] += receiver.after_end_frames
    return tuple(late)


def _density(receivers: Sequence[ReceiverReport]) -> tuple[tuple[int, int], ...]:
    """Return the number of frames by reorder displacement, over all receivers."""
    sums: Counter[int] = Counter()
    for receiver in receivers:
        sums.update(dict(receiver.reorder_density))
    return tuple(sorted(sums.items()))


def _of_senders(work: Mapping[str, Work], kernel: str) -> dict[str, Work]:
    """Return CPU work by kernel, with the names that load records use; the senders' kernel has a special name."""
    return {SENDERS if name == kernel else name: one for name, one in work.items()}


def _refuse_two_kernels(directions: Sequence[Way]) -> None:
    """Raise TrialFailed if frames are sent on one kernel and received on a different one, because iolab never compares
    clocks."""
    for way in directions:
        if way.source.kernel != way.target.kernel:
            ends = (way.source, way.target)
            ports = tuple(PortOn(code="port-on", port=end.ref, host=computer(end.kernel)) for end in ends)
            raise Failed(TwoClocks(ports=ports))
