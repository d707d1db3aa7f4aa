"""What limited a stream, by the figures that show it; where none does, "unexplained" and never a guess. Pure.

A stream has always a limit: a program, a window, a shaper, the path, or what was asked for. It is looked for from what
shows itself by its own counters to what only follows from the absence of everything else.
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
"""From which share of the intended rate on a stream reached it: what was in flight at the end is no more."""
SMALL_BUFFER_BYTES = 131_072
"""A receive buffer that is no larger than what Linux begins with (net.ipv4.tcp_rmem) was not allowed to grow."""
SMALL_HELD_RATIO = 0.3
"""The same with a buffer so small: its receiver reads each time that a little came."""
HELD_RATIO = 0.5
"""From which part of the busy time on a window, or a buffer, is the limit."""
SLOW_RATIO = 0.7
"""A reader that ran or waited for a CPU so much of the time, while its window was closed, does not read in time."""
SEGMENT_BYTES = 1448
"""A window for less lets nothing through: the reader has a full buffer before it."""
READY_RATIO = 0.9
"""A thread that ran or waited for a CPU so much of the time had none left."""
WAITING_RATIO = 0.1
"""A thread that waited for its CPU so much of the time did not get what it needed."""
STARVED_RATIO = 0.5
"""A thread that waited for its CPU for so much of the time was short of it, whatever it slept for in the rest."""
STOPPED_RATIO = 0.03
"""From which part of the time on that a program was stopped its rate is that of the stop."""
STOOD_NS = 250_000_000
"""A stream that stood still for longer is not one that paces itself [ns]: a retransmission timeout is 200 ms."""

Question = Callable[[FlowSeen, StreamSeen], Verdict | None]


def judge(seen: StreamSeen) -> Verdict:
    """Return what limited a stream trial: of several flows the commonest limit, with what the others say.

    A flow that had what was asked for was not held back: it says nothing against the limit of the others.
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
    """Return what limited one flow."""
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
    """A program that was stopped, or a link that was down, for a part of the time."""
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
    """The intended rate, where it was reached and arrived."""
    if flow.intended_bps is None or flow.loss_ratio > LOST_RATIO:
        return None
    arrived_bps = flow.received_bps if flow.protocol == "tcp" else flow.sent_bps
    if arrived_bps < REACHED_RATIO * flow.intended_bps:
        return None
    said = RateReached(received_bps=flow.received_bps, intended_bps=flow.intended_bps)
    return Verdict(Limit.RATE, (said,), AtMachine(machine=flow.source))


def _waiting_guest(flow: FlowSeen, seen: StreamSeen) -> Verdict | None:
    """A guest at one end whose virtual CPU was ready and had no CPU: inside it, its programs seem busy."""
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
    """The thread of one end that had no time left, or did not get a CPU."""
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
    """Tell whether a window, or a buffer, was kept so small that it is the limit whatever the programs did."""
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
    """Return how often two programs had run on the same CPU last, of the readings of both."""
    pairs = list(zip(one.cpus, other.cpus, strict=False))
    return sum(first == second for first, second in pairs) / len(pairs) if pairs else 0.0


def _worker(_: FlowSeen, seen: StreamSeen) -> Verdict | None:
    """A thread of the kernel or of a guest's hypervisor that had no time left."""
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
    """A receiver that does not read in time, so that its window closes though its buffer is large."""
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
    """The receiver's window, or the sender's own buffer."""
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
    """The congestion window of a path that loses nothing: it is as long as the window is small."""
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
    """Every CPU of a kernel at an end without time left."""
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
