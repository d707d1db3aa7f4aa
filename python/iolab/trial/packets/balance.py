"""Compute the frame accounting of a load trial: offered = forwarded + attributed drops per hop + unexplained. Pure.

Each drop counts once, at the place of the loss: a frame that a port refuses because the ring at the far end is full
counts at the far end.
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
    """Return the number of frames sent: those that the sender's interface accepted or refused because the far ring was
    full.

    The peer of a sending veth interface acts as its receive ring. A frame that does not fit in the ring was sent and
    is lost at the far end, as on a cable.
    """
    return sender.offered_frames + sender.refused_frames


def foreign_frames(directions: Sequence[Way], ran: TrafficRan, counted: Counted) -> int:
    """Return the minimum number of frames of other traffic on the paths: the maximum over all ports of the received
    frames that are not iolab's."""
    ours: dict[str, int] = {}
    for index, way in enumerate(directions):
        sender = ran.senders[index]
        gap_frames = sender.gap_frames
        for _, into in way.hops:
            ours[into] = ours.get(into, 0) + offered_frames(sender) + gap_frames
            gap_frames = 0  # gap frames reach only the next port: no port forwards PAUSE frames
    return max((counted.frames(into, "rx_packets") - most for into, most in ours.items()), default=0)


@dataclass(slots=True)
class _Sheet:
    """Balance of one direction while drops are attributed."""

    way: Way
    """The direction."""
    sender: SenderReport
    """Counters of the sender."""
    receiver: ReceiverReport
    """Counters of the receiver."""
    drops: list[Drop]
    """Attributed drops."""
    missing: int
    """Lost frames to which no drop is attributed."""

    def take(self, drop: Drop) -> int:
        """Attribute a drop to the missing frames, up to their number; return the number of frames that it explains."""
        taken = max(0, min(drop.frames, self.missing))
        if taken:
            self.drops.append(replace(drop, frames=taken))
            self.missing -= taken
        return taken


def balances(
    directions: Sequence[Way], ran: TrafficRan, counted: Counted, copied: Collection[str] = ()
) -> tuple[Balance, ...]:
    """Return the balance of each direction; senders are in the order of the directions.

    On the ports in `copied` the kernel's network stack also receives a copy of each frame, and drops it.
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
    """Return the hops of a path, and the gaps between them: an emulated link may join two bridges in a gap."""
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
    """Return the number of frames that all sources queued for transmission on a port."""
    full = max(counted.xdp_losses(out), counted.frames(out, "tx_dropped"))
    return counted.frames(out, "tx_packets", "tx_errors") + full + counted.qdisc_drops(out)


def _without_others(
    drops: Sequence[tuple[str, Drop]], others: Mapping[str, int], lost_frames: int
) -> list[Drop]:
    """Return drops without other traffic's frames, if their number is known exactly.

    A counter counts iolab's frames and other traffic together. Drops in excess of the missing frames belong to other
    traffic if the sending port there carried other traffic (`others`), and no other port with drops carried any.
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
    """Return the drops on the path, each with the sending port of its hop."""
    found: list[tuple[str, Drop]] = []
    own = receiver.socket.dropped_frames  # the interface counters include these drops too
    for out, into in way.hops:
        here: list[Drop] = []
        sending, receiving = AtPort(port=out), AtPort(port=into)
        redirected = counted.xdp_losses(out)  # veth counts these drops at both ends of the link
        full = max(redirected, counted.frames(out, "tx_dropped"))  # tx_dropped includes these drops
        if counted.on_wire(out, into) is None:  # the emulated link reads a tap's queue
            here.append(Drop(receiving, RING_FULL, full))
        here.append(Drop(sending, QDISC, counted.qdisc_drops(out)))
        here.append(Drop(sending, TX_ERRORS, counted.frames(out, "tx_errors")))
        twice = redirected + (own if into == way.target.ref else 0)
        dropped = max(0, counted.frames(into, "rx_dropped") - twice)
        # The interface counters include these drops too.
        full = min(dropped, sum(counted.backlogs(counted.ports[into].kernel).values()))
        here.append(Drop(receiving, BACKLOG, full))
        here.append(Drop(receiving, RX_DROPPED, dropped - full))
        here.append(Drop(receiving, RX_ERRORS, counted.frames(into, "rx_errors")))
        here.append(Drop(AtDevice(port=into), RULE, counted.ruled_out(into)))
        found += [(out, drop) for drop in here if drop.frames > 0]
    return found


def _between_kernels(sheet: _Sheet, counted: Counted) -> Iterator[Drop]:
    """Yield losses between two kernels: frames that stayed in a guest's tap queue, or were lost in the hypervisor or
    on a cable.

    A tap counts a frame as sent when the hypervisor reads it; until then the frame is in the tap's queue.
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
    """Frames of one direction that a machine received and did not forward."""

    sheet: _Sheet
    """Balance of the direction."""
    kernel: str
    """Kernel of the machine."""
    into: str
    """Port that received the frames."""
    out: str
    """Port that should have sent the frames."""
    frames: int
    """Number of frames."""


def _holes(sheets: Sequence[_Sheet], counted: Counted) -> Iterator[_Hole]:
    """Yield the frames that machines received and did not forward, at most as many as are missing.

    Frames that the sending port refused count at that port and are not included. Other traffic on the sending port
    hides such losses; its frames are subtracted if the far port's counters show them.
    """
    for sheet in sheets:
        missing = sheet.missing
        for (_, into), (out, far) in pairwise(sheet.way.hops):
            if counted.has_device(into):
                continue  # an XDP program forwards frames before these counters
            left = counted.frames(out, "tx_packets", "tx_dropped", "tx_errors") + counted.qdisc_drops(out)
            left -= _others(sheet, far, counted) if far == sheet.way.target.ref else 0
            frames = max(0, min(counted.frames(into, "rx_packets") - left, missing))
            missing -= frames
            if frames:
                yield _Hole(sheet, counted.ports[into].kernel, into, out, frames)


def _others(sheet: _Sheet, target: str, counted: Counted) -> int:
    """Return the number of frames that the far port received in addition to the trial's frames: other traffic or
    duplicates.

    The port's counters cover more time than the receiver, and the same time as the counters of the previous ports.
    """
    receiver = sheet.receiver
    ours = receiver.received_frames + receiver.late_frames + receiver.corrupted_frames
    came = counted.frames(target, "rx_packets") - ours - receiver.socket.dropped_frames
    return max(receiver.foreign_frames, came)


def _name_vanished(holes: Sequence[_Hole], spare: dict[str, int]) -> None:
    """Attribute frames that disappeared in machines of one kernel to the kernel's drop reasons, and subtract them from
    `spare`."""
    for hole, named in zip(holes, share_out([hole.frames for hole in holes], spare), strict=True):
        unnamed = hole.frames
        for one in named:
            spare[one.reason] -= min(one.frames, spare[one.reason])
            unnamed -= hole.sheet.take(_vanished(hole, one))
        hole.sheet.take(Drop(AtPort(port=hole.into), NotPassedOn(out=hole.out), unnamed))


def _vanished(hole: _Hole, named: Named) -> Drop:
    """Return the drop of attributed frames in a machine; frames that a queue dropped count at the queue, even if the
    queue's counter shows fewer."""
    if named.reason in GIVEN[QDISC] and named.reason not in DECISIONS:
        doubt = named.doubt or QueueShowsFewer(place=hole.out, frames=named.frames)
        return Drop(AtPort(port=hole.out), QDISC, named.frames, named.reason, doubt)
    reason = NotPassedOnFor(reason=named.reason, out=hole.out)
    return Drop(AtPort(port=hole.into), reason, named.frames, named.reason, named.doubt)


def _copies(ran: TrafficRan, counted: Counted, copied: Collection[str], kernel: str) -> int:
    """Return the number of frames that a kernel's network stack received as copies of the receivers' frames."""
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
    """Return the attributed drops for which the kernel may also report a drop reason."""
    unseen = (RULE, DAMAGED, LATE)
    return [
        drop
        for sheet in sheets
        for drop in sheet.drops
        if drop.reason not in unseen and not isinstance(drop.reason, ByImpairment)
    ]


def _share(sheets: Sequence[_Sheet], drops: Iterable[Drop]) -> None:
    """Distribute drops among the directions with missing frames, because these counters do not separate directions."""
    for drop in drops:
        left = drop.frames
        for sheet in sheets:
            left -= sheet.take(replace(drop, frames=left))
