"""The balance sheet of a load trial: offered = forwarded + named drops per hop + unexplained. Pure.

A drop is named once, where the frame was lost: what a port refuses because the far end's ring is full counts at the
far end.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from iolab.agent.messages import ReceiverReport, SenderReport
from iolab.agent.traffic import TrafficRan
from iolab.lab.packets.placement import Way
from iolab.messages.caveats import QueueShowsFewer
from iolab.messages.drop_reasons import (
    ByImpairment,
    DropReason,
    KernelDropped,
    LostBetween,
    NeverRead,
    NotPassedOn,
    NotPassedOnFor,
)
from iolab.messages.places import AtCpu, AtDevice, AtMachineCpu, AtPort, InMachineKernel, Place, PlainPlace
from iolab.results.packets import Balance, Drop
from iolab.trial.counters.differences import Counted
from iolab.trial.counters.drops import (
    BACKLOG,
    DAMAGED,
    DECISIONS,
    FILTER,
    GIVEN,
    LATE,
    NO_BUFFER,
    ON_THE_WAY,
    QDISC,
    RECEIVER,
    RING_FULL,
    RULE,
    RX_DROPPED,
    RX_ERRORS,
    TX_ERRORS,
    Named,
    beyond,
    explain,
    share_out,
    wire_drops,
    without_copies,
)


def offered_frames(sender: SenderReport) -> int:
    """Return the frames that left the sender: accepted by its interface, or refused because the far ring was full.

    The ends of a veth pair are a sender and somebody else's receive ring. A frame that does not fit there was sent, and
    lost at the far end, as on a cable.
    """
    return sender.offered_frames + sender.refused_frames


def foreign_frames(directions: Sequence[Way], ran: TrafficRan, counted: Counted) -> int:
    """Return how many frames of other traffic came along the ways, at least: where most came in beside our own."""
    ours: dict[str, int] = {}
    for index, way in enumerate(directions):
        sender = ran.senders[index]
        gap_frames = sender.gap_frames
        for _, into in way.hops:
            ours[into] = ours.get(into, 0) + offered_frames(sender) + gap_frames
            gap_frames = 0  # the next port is the last that they reach: nothing passes PAUSE frames on
    return max((counted.frames(into, "rx_packets") - most for into, most in ours.items()), default=0)


@dataclass(slots=True)
class _Sheet:
    """One direction's balance, while drops are being named."""

    way: Way
    """The direction."""
    sender: SenderReport
    """What was sent."""
    receiver: ReceiverReport
    """What arrived."""
    drops: list[Drop]
    """Those that are named."""
    missing: int
    """Frames that are not."""

    def take(self, drop: Drop) -> int:
        """Name a drop, as far as frames are missing; return how many it explains."""
        taken = max(0, min(drop.frames, self.missing))
        if taken:
            self.drops.append(replace(drop, frames=taken))
            self.missing -= taken
        return taken


def balances(
    directions: Sequence[Way], ran: TrafficRan, counted: Counted, copied: Collection[str] = ()
) -> tuple[Balance, ...]:
    """Return the balance of each direction; senders are in the order of the directions.

    What arrives at the ports `copied` the stack of their namespace gets as well, and drops.
    """
    receivers = {one.of: one for one in ran.receivers}
    sheets = [
        _sheet(way, ran.senders[index], receivers[index], counted) for index, way in enumerate(directions)
    ]
    for hop in dict.fromkeys(hop for way in directions for hop in _with_gaps(way)):
        passing = [sheet for sheet in sheets if hop in _with_gaps(sheet.way)]
        damaged = sum(sheet.receiver.corrupted_frames for sheet in passing)
        _share(
            passing, wire_drops(counted, *hop, damaged, direct=any(hop in one.way.hops for one in passing))
        )
    for kernel in counted.kernels():
        backlogs = counted.backlogs(kernel)
        _share(sheets, (Drop(_at_cpu(kernel, cpu), BACKLOG, n) for cpu, n in backlogs.items()))
    for port in dict.fromkeys(ref for way in directions for hop in way.hops for ref in hop):
        passing = [sheet for sheet in sheets if any(port in hop for hop in sheet.way.hops)]
        _share(passing, [Drop(AtPort(port=port), FILTER, counted.filtered(port))])
    reasons = {
        kernel: without_copies(counted.reasons(kernel), _copies(ran, counted, copied, kernel))
        for kernel in counted.kernels()
    }
    spare = beyond(reasons, _known(sheets))
    for sheet in sheets:
        for drop in _between_kernels(sheet, counted):
            sheet.take(drop)
    holes = tuple(_holes(sheets, counted))
    for kernel in dict.fromkeys(hole.kernel for hole in holes):
        own = [hole for hole in holes if hole.kernel == kernel]
        _name_vanished(own, spare.setdefault(kernel, {}))
    for kernel, left in spare.items():
        place = InMachineKernel(machine=kernel) if kernel else PlainPlace(code="in-kernel")
        named = explain(sum(sheet.missing for sheet in sheets), left)
        _share(
            sheets,
            (
                Drop(place, KernelDropped(reason=one.reason), one.frames, one.reason, one.doubt)
                for one in named
            ),
        )
    return tuple(
        Balance(
            direction=sheet.way.name,
            offered_frames=offered_frames(sheet.sender),
            forwarded_frames=sheet.receiver.received_frames,
            drops=tuple(sheet.drops),
            unexplained_frames=sheet.missing,
        )
        for sheet in sheets
    )


def _with_gaps(way: Way) -> tuple[tuple[str, str], ...]:
    """Return the hops of a way, and what lies between two of them: a wire may be there, between two bridges."""
    return (*way.hops, *((into, out) for (_, into), (out, _) in pairwise(way.hops)))


def _at_cpu(kernel: str, cpu: int) -> Place:
    return AtMachineCpu(machine=kernel, cpu=cpu) if kernel else AtCpu(cpu=cpu)


def _sheet(way: Way, sender: SenderReport, receiver: ReceiverReport, counted: Counted) -> _Sheet:
    offered, inside = offered_frames(sender), _in_the_receiver(receiver)
    lost = offered - receiver.received_frames
    lost_before = lost - sum(drop.frames for drop in inside)
    passing = {out: _came_to(out, counted) - offered for out, _ in way.hops}
    on_the_way = _without_others(_on_the_way(way, receiver, counted), passing, lost_before)
    drops = [*on_the_way, *inside]
    return _Sheet(way, sender, receiver, drops, lost - sum(drop.frames for drop in drops))


def _came_to(out: str, counted: Counted) -> int:
    """Return how many frames were to leave by a port, whoever sent them."""
    full = max(counted.xdp_losses(out), counted.frames(out, "tx_dropped"))
    return counted.frames(out, "tx_packets", "tx_errors") + full + counted.qdisc_drops(out)


def _without_others(
    drops: Sequence[tuple[str, Drop]], others: Mapping[str, int], lost_frames: int
) -> list[Drop]:
    """Return drops without those of frames that somebody else sent, where these are known exactly.

    A counter does not say whose frames it counts. What it counts beyond those that are missing is of others where as
    many of them came to the port that frames leave by there, `others`, and to no other port at which frames were lost.
    """
    beyond = sum(drop.frames for _, drop in drops) - lost_frames
    shared = [(out, drop) for out, drop in drops if others[out] > 0]
    if beyond <= 0 or len(shared) != 1:
        return [drop for _, drop in drops]
    ((port, one),) = shared
    ours = replace(one, frames=one.frames - min(beyond, others[port], one.frames))
    found = (ours if drop is one else drop for _, drop in drops)
    return [drop for drop in found if drop.frames > 0]


def _on_the_way(way: Way, receiver: ReceiverReport, counted: Counted) -> list[tuple[str, Drop]]:
    """Return what was dropped on the way, each with the port that frames leave by there."""
    found: list[tuple[str, Drop]] = []
    own = receiver.socket.dropped_frames  # the kernel counts these at the interface as well
    for out, into in way.hops:
        here: list[Drop] = []
        sending, receiving = AtPort(port=out), AtPort(port=into)
        redirected = counted.xdp_losses(out)  # veth counts these at both ends of the link
        full = max(redirected, counted.frames(out, "tx_dropped"))  # and here among the others
        if counted.on_wire(out, into) is None:  # a tap's queue is read by the wire, and belongs to it
            here.append(Drop(receiving, RING_FULL, full))
        here.append(Drop(sending, QDISC, counted.qdisc_drops(out)))
        here.append(Drop(sending, TX_ERRORS, counted.frames(out, "tx_errors")))
        twice = redirected + (own if into == way.target.ref else 0)
        dropped = max(0, counted.frames(into, "rx_dropped") - twice)
        # The kernel counts these at the interface as well.
        full = min(dropped, sum(counted.backlogs(counted.ports[into].kernel).values()))
        here.append(Drop(receiving, BACKLOG, full))
        here.append(Drop(receiving, RX_DROPPED, dropped - full))
        here.append(Drop(receiving, RX_ERRORS, counted.frames(into, "rx_errors")))
        here.append(Drop(AtDevice(port=into), RULE, counted.ruled_out(into)))
        found += [(out, drop) for drop in here if drop.frames > 0]
    return found


def _between_kernels(sheet: _Sheet, counted: Counted) -> Iterator[Drop]:
    """Yield what was lost between two kernels: left in a guest's tap, or in the hands of its hypervisor, or a cable's.

    A tap counts a frame as sent when the hypervisor reads it; until then it waits in the tap's queue.
    """
    sender, receiver, target = sheet.sender, sheet.receiver, sheet.way.target.ref
    for number, (out, into) in enumerate(sheet.way.hops):
        if not counted.crosses(out, into):
            continue
        left = counted.frames(out, "tx_packets")
        if number == 0:
            refused = counted.frames(out, "tx_dropped") + counted.qdisc_drops(out)
            waiting = offered_frames(sender) - max(refused, sender.refused_frames) - left
            yield Drop(AtPort(port=into), NeverRead(sender=out), waiting)
        if into == target:
            arrived = receiver.received_frames + sum(drop.frames for drop in _in_the_receiver(receiver))
        else:
            arrived = counted.frames(into, "rx_packets")
        dropped = counted.frames(into, "rx_dropped", "rx_errors")
        at = out if into == target else into
        yield Drop(AtPort(port=at), LostBetween(sender=out, receiver=into), left - arrived - dropped)


@dataclass(frozen=True, slots=True)
class _Hole:
    """Frames of one direction that a machine took in and did not pass on."""

    sheet: _Sheet
    """Where they are missing."""
    kernel: str
    """The kernel that it is on."""
    into: str
    """The port where they entered."""
    out: str
    """The port by which they should have left."""
    frames: int
    """How many."""


def _holes(sheets: Sequence[_Sheet], counted: Counted) -> Iterator[_Hole]:
    """Yield what did not leave a machine that it entered, as far as frames are missing.

    What the port they should leave by refused counts there, and is not meant here. Frames of others that left by it
    fill the gap in its count; those that came to the far port are known, and are taken off.
    """
    for sheet in sheets:
        missing = sheet.missing
        for (_, into), (out, far) in pairwise(sheet.way.hops):
            if counted.has_device(into):
                continue  # an XDP program passes frames on before they are counted here
            left = counted.frames(out, "tx_packets", "tx_dropped", "tx_errors") + counted.qdisc_drops(out)
            left -= _others(sheet, far, counted) if far == sheet.way.target.ref else 0
            frames = max(0, min(counted.frames(into, "rx_packets") - left, missing))
            missing -= frames
            if frames:
                yield _Hole(sheet, counted.ports[into].kernel, into, out, frames)


def _others(sheet: _Sheet, target: str, counted: Counted) -> int:
    """Return how many frames came to the far port beside our own: of somebody else, or ours a second time.

    The port counts for longer than the receiver listens, and for as long as the ports before it.
    """
    receiver = sheet.receiver
    ours = receiver.received_frames + receiver.late_frames + receiver.corrupted_frames
    came = counted.frames(target, "rx_packets") - ours - receiver.socket.dropped_frames
    return max(receiver.foreign_frames, came)


def _name_vanished(holes: Sequence[_Hole], spare: dict[str, int]) -> None:
    """Name frames that vanished in machines of one kernel by its reasons, as far as these tell; takes them."""
    for hole, named in zip(holes, share_out([hole.frames for hole in holes], spare), strict=True):
        unnamed = hole.frames
        for one in named:
            spare[one.reason] -= min(one.frames, spare[one.reason])
            unnamed -= hole.sheet.take(_vanished(hole, one))
        hole.sheet.take(Drop(AtPort(port=hole.into), NotPassedOn(out=hole.out), unnamed))


def _vanished(hole: _Hole, named: Named) -> Drop:
    """Return the drop of named frames of a hole: those of a queue count at the queue, which shows fewer of them."""
    if named.reason in GIVEN[QDISC] and named.reason not in DECISIONS:
        doubt = named.doubt or QueueShowsFewer(place=hole.out, frames=named.frames)
        return Drop(AtPort(port=hole.out), QDISC, named.frames, named.reason, doubt)
    reason = NotPassedOnFor(reason=named.reason, out=hole.out)
    return Drop(AtPort(port=hole.into), reason, named.frames, named.reason, named.doubt)


def _copies(ran: TrafficRan, counted: Counted, copied: Collection[str], kernel: str) -> int:
    """Return how many frames the stack of a kernel got beside the receivers."""
    return sum(
        one.received_frames
        + one.duplicate_frames
        + one.late_frames
        + one.corrupted_frames
        + one.foreign_frames
        + one.socket.dropped_frames
        for one in ran.receivers
        if one.port in copied and counted.ports[one.port].kernel == kernel
    )


def _in_the_receiver(receiver: ReceiverReport) -> list[Drop]:
    socket = receiver.socket
    pairs: tuple[tuple[DropReason, int], ...] = (
        (RING_FULL, socket.ring_full_frames),
        (NO_BUFFER, socket.no_buffer_frames),
    )
    found = [Drop(RECEIVER, reason, frames) for reason, frames in pairs]
    found.append(Drop(RECEIVER, LATE, receiver.late_frames))
    found.append(Drop(ON_THE_WAY, DAMAGED, receiver.corrupted_frames))
    return [drop for drop in found if drop.frames > 0]


def _known(sheets: Sequence[_Sheet]) -> list[Drop]:
    """Return the drops that have a place and that the kernel may have given a reason for."""
    unseen = (RULE, DAMAGED, LATE)
    return [
        drop
        for sheet in sheets
        for drop in sheet.drops
        if drop.reason not in unseen and not isinstance(drop.reason, ByImpairment)
    ]


def _share(sheets: Sequence[_Sheet], drops: Iterable[Drop]) -> None:
    """Give drops to the directions that miss frames: these counters do not say whose they were."""
    for drop in drops:
        left = drop.frames
        for sheet in sheets:
            left -= sheet.take(replace(drop, frames=left))
