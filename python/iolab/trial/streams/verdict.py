"""Determine the limit of a stream from its readings; "unexplained" if no reading shows the limit, never a guess. Pure.

A stream always has a limit: a program, a window, a shaper, the path, or the intended rate. Limits with direct evidence
in their own counters are checked first, and limits that follow only from the absence of other limits are checked last.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from iolab.messages.caveats import TooCoarse
from iolab.messages.evidence import Evidence, GuestWaited
from iolab.messages.places import AtMachine, AtPort, InThread, OnPath, Place, PlainPlace, computer
from iolab.messages.streams import (
    AllCpusBusy,
    CarrierLost,
    CongestionWindow,
    Limited,
    LimitedAt,
    NearlyBusy,
    NothingFound,
    OfFlow,
    OtherFlows,
    ProgramWasStopped,
    RateReached,
    ReceiverWindow,
    SameCpu,
    SendBuffer,
    StrangersRan,
    WorkerRan,
)
from iolab.results.verdict import BUSY_RATIO, GUEST, Limit, Verdict
from iolab.trial.streams.evidence import FlowSeen, Program, StreamSeen
from iolab.trial.streams.places import LOST_RATIO, dropped, full_line, lossy_path, ran, shaped
from iolab.units import NS_PER_S

REACHED_RATIO = 0.99
"""Minimum share of the intended rate at which the rate counts as reached: the rest is in flight at the end [ratio]."""
SMALL_BUFFER_BYTES = 131_072
"""Maximum size of a receive buffer that was not allowed to grow: Linux's initial size (net.ipv4.tcp_rmem) [bytes]."""
SMALL_HELD_RATIO = 0.3
"""If a receive buffer of at most SMALL_BUFFER_BYTES limits the sender for more than this share of the busy time, the
buffer is the limit [ratio]."""
HELD_RATIO = 0.5
"""If a window or buffer limits the sender for more than this share of the busy time, it is the limit [ratio]."""
SLOW_RATIO = 0.7
"""Share of time running or waiting for a CPU above which a reader with a closed window reads too slowly [ratio]."""
SEGMENT_BYTES = 1448
"""Segment size [bytes]; a receive window below it shows a full receive buffer, which stops the sender."""
READY_RATIO = 0.9
"""Share of time running or waiting for a CPU above which a thread is saturated [ratio]."""
WAITING_RATIO = 0.1
"""Share of time waiting for a CPU above which a thread is short of CPU time [ratio]."""
STARVED_RATIO = 0.5
"""Share of time waiting for a CPU above which a thread is short of CPU time, however long it slept otherwise
[ratio]."""
STOPPED_RATIO = 0.03
"""Share of the trial in stopped state above which the stop determines the rate [ratio]."""
STOOD_NS = 250_000_000
"""Minimum time without traffic that a stream's own pacing does not explain [ns]: a retransmission timeout is 200 ms."""

Question = Callable[[FlowSeen, StreamSeen], Verdict | None]


def judge(seen: StreamSeen) -> Verdict:
    """Return the limit of a stream trial: for several flows the most common limit, with evidence of all flows.

    A flow that reached its intended rate was not limited, and does not contradict the limit of the other flows.
    """
    found = [(flow, judge_flow(flow, seen)) for flow in seen.flows]
    if len(found) == 1:
        return found[0][1]
    alike: dict[tuple[Limit, Place | None], list[Verdict]] = {}
    for _, verdict in found:
        alike.setdefault((verdict.limit, verdict.place), []).append(verdict)
    most = max(
        alike.values(),
        key=lambda own: (not own[0].doubt, len(own), own[0].limit not in (Limit.RATE, Limit.UNEXPLAINED)),
    )
    seen_of_all = tuple(OfFlow(flow=flow.name, clauses=verdict.seen) for flow, verdict in found)
    doubt = most[0].doubt
    others = tuple(
        Limited(limit=limit) if place is None else LimitedAt(limit=limit, place=place)
        for limit, place in alike
        if alike[limit, place] is not most
    )
    held_back = sum(verdict.limit is not Limit.RATE for _, verdict in found)
    if doubt is None and len(most) < held_back and 2 * len(most) <= held_back:
        doubt = OtherFlows(limits=others)
    return replace(most[0], seen=seen_of_all, doubt=doubt)


def judge_flow(flow: FlowSeen, seen: StreamSeen) -> Verdict:
    """Return the limit of one flow."""
    questions: tuple[Question, ...] = (
        _interrupted,
        _asked,
        shaped,
        full_line,
        dropped,
        _waiting_guest,
        _program,
        _worker,
        _slow_reader,
        _window,
        lossy_path,
        _congestion,
        _all_cpus,
    )
    for question in questions:
        verdict = question(flow, seen)
        if verdict is not None:
            return verdict
    return _unexplained(flow)


def _interrupted(flow: FlowSeen, _: StreamSeen) -> Verdict | None:
    """Return a verdict if a program was stopped or a link was down for a part of the time; else None."""
    for program in (flow.sender, flow.receiver):
        if program is not None and program.stopped_ns > STOPPED_RATIO * flow.duration_ns:
            stop = ProgramWasStopped(machine=program.machine, stopped_ns=program.stopped_ns)
            return Verdict(Limit.HOST, (stop,), AtMachine(machine=program.machine))
    lost = [one for one in flow.carriers if one.changes > 1]
    if lost and flow.stood_ns > STOOD_NS:
        one = lost[0]
        said = CarrierLost(place=one.place, changes=one.changes, stood_ns=flow.stood_ns)
        return Verdict(Limit.HOP, (said,), AtPort(port=one.place))
    return None


def _asked(flow: FlowSeen, _: StreamSeen) -> Verdict | None:
    """Return a verdict if the sender reached the intended rate and the receiver received it; else None."""
    if flow.intended_bps is None or flow.loss_ratio > LOST_RATIO:
        return None
    arrived_bps = flow.received_bps if flow.protocol == "tcp" else flow.sent_bps
    if arrived_bps < REACHED_RATIO * flow.intended_bps:
        return None
    said = RateReached(received_bps=flow.received_bps, intended_bps=flow.intended_bps)
    return Verdict(Limit.RATE, (said,), AtMachine(machine=flow.source))


def _waiting_guest(flow: FlowSeen, seen: StreamSeen) -> Verdict | None:
    """Return a verdict if a virtual CPU of a guest at one end waited for a CPU of its host; else None.

    Programs inside a guest seem busy while the guest waits.
    """
    short = [
        one
        for one in seen.threads
        if one.role == GUEST
        and one.place in (flow.source, flow.target)
        and one.waited >= WAITING_RATIO
        and one.busy_ratio + one.waited >= READY_RATIO
    ]
    if not short:
        return None
    worst = max(short, key=lambda one: one.waited)
    said = GuestWaited(
        machine=worst.place, thread=worst.name, busy_ratio=worst.busy_ratio, wait_ratio=worst.waited
    )
    return Verdict(Limit.CPU, (said,), AtMachine(machine=worst.place))


def _program(flow: FlowSeen, seen: StreamSeen) -> Verdict | None:
    """Return a verdict if a thread at one end was saturated or waited for a CPU; else None."""
    ends = [program for program in (flow.sender, flow.receiver) if program is not None]
    if flow.tcp is not None and flow.tcp.receiver_limited_ratio > HELD_RATIO:
        ends.reverse()  # the sender waits for the receiver
    for program in ends:
        if program.run_ratio >= BUSY_RATIO:
            return _busy(program)
    if _small_window(flow):
        return None
    ready = [
        one
        for one in ends
        if one.run_ratio + one.wait_ratio >= READY_RATIO or one.wait_ratio >= STARVED_RATIO
    ]
    waiting = [one for one in ready if one.wait_ratio >= WAITING_RATIO]
    if waiting:
        return _starved(max(waiting, key=lambda one: one.wait_ratio), ends, seen)
    return _busy(ready[0], nearly=True) if ready else None


def _small_window(flow: FlowSeen) -> bool:
    """Whether a window or buffer is so small that it is the limit, independent of the programs."""
    tcp = flow.tcp
    if tcp is None:
        return False
    received = (
        tcp.receiver_limited_ratio >= SMALL_HELD_RATIO and 0 < tcp.receive_buffer_bytes <= SMALL_BUFFER_BYTES
    )
    return received or tcp.buffer_limited_ratio >= HELD_RATIO or tcp.buffer_below_window


def _busy(program: Program, *, nearly: bool = False) -> Verdict:
    doubt = NearlyBusy(ready_ratio=program.run_ratio + program.wait_ratio) if nearly else None
    return Verdict(Limit.THREAD, (ran(program),), AtMachine(machine=program.machine), doubt)


def _starved(program: Program, ends: Sequence[Program], seen: StreamSeen) -> Verdict:
    said: list[Evidence] = [ran(program)]
    other = next((one for one in ends if one is not program and one.kernel == program.kernel), None)
    strangers = seen.strangers.get(program.kernel, 0.0)
    if other is not None and shared_ratio(program, other) > HELD_RATIO:
        said.append(SameCpu(machine=program.machine, other=other.machine))
    elif strangers > WAITING_RATIO:
        said.append(StrangersRan(cpus=strangers))
    return Verdict(Limit.CPU, tuple(said), AtMachine(machine=program.machine))


def shared_ratio(one: Program, other: Program) -> float:
    """Return the share of readings in which two programs last ran on the same CPU [ratio]."""
    pairs = list(zip(one.cpus, other.cpus, strict=False))
    return sum(first == second for first, second in pairs) / len(pairs) if pairs else 0.0


def _worker(_: FlowSeen, seen: StreamSeen) -> Verdict | None:
    """Return a verdict if a kernel or hypervisor thread is saturated; else None."""
    busiest = max(seen.threads, key=lambda one: one.busy_ratio, default=None)
    if busiest is None or busiest.busy_ratio < BUSY_RATIO or busiest.polls:
        return None
    said = WorkerRan(thread=busiest.name, busy_ratio=busiest.busy_ratio)
    return Verdict(
        Limit.THREAD,
        (said,),
        AtMachine(machine=busiest.place) if busiest.place else InThread(thread=busiest.name),
    )


def _slow_reader(flow: FlowSeen, seen: StreamSeen) -> Verdict | None:
    """Return a verdict if the receiver reads too slowly, so its window closes despite a large buffer; else None."""
    tcp, reader = flow.tcp, flow.receiver
    if tcp is None or reader is None or _small_window(flow) or tcp.receiver_limited_ratio < HELD_RATIO:
        return None
    closed = tcp.receiver_window_bytes < SEGMENT_BYTES
    if reader.run_ratio + reader.wait_ratio < (HELD_RATIO if closed else SLOW_RATIO):
        return None
    if reader.wait_ratio >= WAITING_RATIO:
        return _starved(reader, [one for one in (flow.sender, reader) if one is not None], seen)
    return _busy(reader, nearly=True)


def _window(flow: FlowSeen, _: StreamSeen) -> Verdict | None:
    """Return a verdict if the receive window or the send buffer was the limit; else None."""
    tcp = flow.tcp
    held = tcp is not None and tcp.window_limited_ratio >= HELD_RATIO
    if tcp is None or not (held or _small_window(flow)):
        return None
    if tcp.receiver_limited_ratio > tcp.buffer_limited_ratio and not tcp.buffer_below_window:
        received = ReceiverWindow(
            window_bytes=tcp.receiver_window_bytes,
            rtt_ns=tcp.rtt_ns,
            limited_ratio=tcp.receiver_limited_ratio,
        )
        return Verdict(Limit.WINDOW, (received,), AtMachine(machine=flow.target))
    sent = SendBuffer(
        buffer_bytes=tcp.send_buffer_bytes,
        window_bytes=min(tcp.window_bytes, tcp.receiver_window_bytes),
        rtt_ns=tcp.rtt_ns,
    )
    return Verdict(Limit.WINDOW, (sent,), AtMachine(machine=flow.source))


def _congestion(flow: FlowSeen, _: StreamSeen) -> Verdict | None:
    """Return a verdict if the congestion window was the limit, on a path without loss; else None."""
    tcp = flow.tcp
    if tcp is None or not tcp.rtt_ns or not tcp.window_bytes:
        return None
    window_bytes, rtt_ns = tcp.mean_window_bytes or tcp.window_bytes, tcp.mean_rtt_ns or tcp.rtt_ns
    most_bps = window_bytes * 8 * NS_PER_S / rtt_ns
    if flow.received_bps < most_bps / 2:
        return None
    said = CongestionWindow(
        window_bytes=window_bytes, congestion=tcp.congestion, rtt_ns=rtt_ns, most_bps=most_bps
    )
    path = OnPath(source=flow.source, target=flow.target)
    return Verdict(Limit.PATH, (said,), path, TooCoarse(code="window-of-second"))


def _all_cpus(flow: FlowSeen, seen: StreamSeen) -> Verdict | None:
    """Return a verdict if all CPUs of a kernel at one end are busy; else None."""
    kernels = {program.kernel for program in (flow.sender, flow.receiver) if program is not None}
    for kernel in sorted(kernels):
        own = [cpu.busy_ratio for cpu in seen.cpus if cpu.kernel == kernel]
        if own and min(own) >= BUSY_RATIO:
            said = AllCpusBusy(host=computer(kernel), cpus=len(own), busy_ratio=min(own))
            return Verdict(
                Limit.CPU,
                (said,),
                AtMachine(machine=kernel) if kernel else PlainPlace(code="all-cpus"),
                TooCoarse(code="no-single-thread"),
            )
    return None


def _unexplained(flow: FlowSeen) -> Verdict:
    programs = (ran(program) for program in (flow.sender, flow.receiver) if program is not None)
    return Verdict(Limit.UNEXPLAINED, (NothingFound(received_bps=flow.received_bps), *programs))
