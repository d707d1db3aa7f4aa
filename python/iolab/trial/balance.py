"""The balance sheet of a load trial: offered = forwarded + named drops per hop + unexplained. Pure.

Counters are differences between two readings, one before the first frame and one behind the drained barrier. A drop is
named once, where the frame was lost: what a port refuses because the far end's ring is full is told of the far end.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from iolab.agent.messages import Reading
from iolab.agent.traffic import DeviceCounts, ReceiverReport, SenderReport, TrafficRan
from iolab.lab.kernels import HERE
from iolab.lab.placement import Way

RING_FULL, NO_BUFFER, RULE, QDISC, BACKLOG = "ring full", "no buffer", "rule", "qdisc", "backlog"
OVERRUNS = frozenset({RING_FULL, NO_BUFFER, BACKLOG, "rx_dropped", "rx_errors"})
"""Reasons of a place that had no time left for what came; others are decisions, however busy it was."""
UNREAD, BETWEEN = "never read from the queue of", "lost between"
"""Beginnings of reasons: frames that a hypervisor left in the tap of its guest, or took and did not hand on."""
RECEIVER, KERNEL = "receiver", "kernel"
XDP_LOSSES = ("xdp_xmit_errors", "xdp_tx_errors")
"""Ends of the names of veth's own counters (ethtool -S) for frames that an XDP program sent and no ring took."""


@dataclass(frozen=True, slots=True)
class Port:
    """Where an end of a link is found in readings."""

    ref: str
    """As machine.port."""
    netns: str | None
    """Network namespace."""
    interface: str
    """Interface."""
    kernel: str = HERE
    """The machine whose kernel it is on."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that is counted, at one time."""

    reading: Reading
    """The kernel's counters."""
    devices: Mapping[str, DeviceCounts]
    """Of reference devices, by the port where frames come in."""
    elsewhere: Mapping[str, Reading] = field(default_factory=dict)
    """The counters of other kernels on the way, by kernel."""

    def of(self, port: Port) -> Reading:
        """Return the counters of the kernel that a port is on."""
        return self.elsewhere.get(port.kernel, self.reading)


@dataclass(frozen=True, slots=True)
class Drop:
    """Frames lost at one place for one reason."""

    place: str
    """machine.port, cpuN, device machine.port, kernel (somewhere in it), or receiver."""
    reason: str
    """Why, in one or two words."""
    frames: int
    """How many."""


@dataclass(frozen=True, slots=True)
class Balance:
    """One direction's balance."""

    direction: str
    """From->to."""
    offered_frames: int
    """Frames that left the sender."""
    forwarded_frames: int
    """First copies that arrived whole."""
    drops: tuple[Drop, ...]
    """Named losses, in the order of the way."""
    unexplained_frames: int
    """What no counter tells of; below zero: counters tell of more than is missing."""


def offered_frames(sender: SenderReport) -> int:
    """Return the frames that left the sender: accepted by its interface, or refused because the far ring was full.

    The ends of a veth pair are a sender and somebody else's receive ring. A frame that does not fit there was sent, and
    lost at the far end, as on a cable.
    """
    return sender.offered_frames + sender.refused_frames


def balances(
    directions: Sequence[Way],
    ports: Mapping[str, Port],
    ran: TrafficRan,
    before: Snapshot,
    after: Snapshot,
) -> tuple[Balance, ...]:
    """Return the balance of each direction; senders are in the order of the directions."""
    missing: list[int] = []
    named: list[list[Drop]] = []
    for index, way in enumerate(directions):
        receiver = next(one for one in ran.receivers if one.of == index)
        drops = [*_on_the_way(way, ports, receiver, before, after), *_in_the_receiver(receiver)]
        lost = offered_frames(ran.senders[index]) - receiver.received_frames
        missing.append(lost - sum(drop.frames for drop in drops))
        named.append(drops)
    spare = _beyond(_kernels(before, after, named, missing), named)
    for index, way in enumerate(directions):
        receiver = next(one for one in ran.receivers if one.of == index)
        for drop in _between_kernels(way, ports, (ran.senders[index], receiver), before, after):
            _take(named[index], missing, index, drop)
        for into, out, vanished in _vanished(way, ports, before, after):
            reasons = spare.setdefault(ports[into].kernel, {})
            found = _reasoned(into, out, min(vanished, missing[index]), reasons)
            named[index] += found
            missing[index] -= sum(drop.frames for drop in found)
    for kernel, reasons in spare.items():
        _share(named, missing, {(f"{kernel} {KERNEL}".strip(), reason): n for reason, n in reasons.items()})
    return tuple(
        Balance(
            direction=way.name,
            offered_frames=offered_frames(ran.senders[index]),
            forwarded_frames=next(one for one in ran.receivers if one.of == index).received_frames,
            drops=tuple(named[index]),
            unexplained_frames=missing[index],
        )
        for index, way in enumerate(directions)
    )


def _on_the_way(
    way: Way, ports: Mapping[str, Port], receiver: ReceiverReport, before: Snapshot, after: Snapshot
) -> list[Drop]:
    found: list[Drop] = []
    own = receiver.socket.dropped_frames  # the kernel counts these at the interface as well
    for out, into in way.hops:
        leaving, arriving = ports[out], ports[into]
        redirected = _xdp_losses(leaving, before, after)  # veth counts these at both ends of the link
        full = max(redirected, _interface(leaving, before, after, "tx_dropped"))  # and here among the others
        found.append(Drop(into, RING_FULL, full))
        found.append(Drop(out, QDISC, _qdisc(leaving, before, after)))
        found.append(Drop(out, "tx_errors", _interface(leaving, before, after, "tx_errors")))
        twice = redirected + (own if into == way.target.ref else 0)
        dropped = max(0, _interface(arriving, before, after, "rx_dropped") - twice)
        full = min(dropped, sum(_backlogs(before.of(arriving), after.of(arriving)).values()))
        found.append(Drop(into, BACKLOG, full))  # the kernel counts these at the interface as well
        found.append(Drop(into, "rx_dropped", dropped - full))
        found.append(Drop(into, "rx_errors", _interface(arriving, before, after, "rx_errors")))
        if into in after.devices and into in before.devices:
            ruled = after.devices[into].dropped_frames - before.devices[into].dropped_frames
            found.append(Drop(f"device {into}", RULE, ruled))
    return [drop for drop in found if drop.frames > 0]


def _between_kernels(
    way: Way,
    ports: Mapping[str, Port],
    ends: tuple[SenderReport, ReceiverReport],
    before: Snapshot,
    after: Snapshot,
) -> Iterator[Drop]:
    """Yield what was lost between two kernels: left in a guest's tap, or in the hands of its hypervisor, or a cable's.

    A tap counts a frame as sent when the hypervisor reads it; until then it waits in the tap's queue.
    """
    sender, receiver = ends
    for number, (out, into) in enumerate(way.hops):
        if ports[out].kernel == ports[into].kernel:
            continue
        left = _interface(ports[out], before, after, "tx_packets")
        if number == 0:
            refused = _interface(ports[out], before, after, "tx_dropped") + _qdisc(ports[out], before, after)
            waiting = offered_frames(sender) - max(refused, sender.refused_frames) - left
            yield Drop(into, f"{UNREAD} {out}", waiting)
        if into == way.target.ref:
            arrived = receiver.received_frames + sum(drop.frames for drop in _in_the_receiver(receiver))
        else:
            arrived = _interface(ports[into], before, after, "rx_packets")
        dropped = sum(_interface(ports[into], before, after, name) for name in ("rx_dropped", "rx_errors"))
        at = out if into == way.target.ref else into
        yield Drop(at, f"{BETWEEN} {out} and {into}", left - arrived - dropped)


def _take(named: list[Drop], missing: list[int], index: int, drop: Drop) -> None:
    """Give a drop to a direction, as far as it misses frames."""
    taken = min(drop.frames, missing[index])
    if taken > 0:
        named.append(Drop(drop.place, drop.reason, taken))
        missing[index] -= taken


def _vanished(
    way: Way, ports: Mapping[str, Port], before: Snapshot, after: Snapshot
) -> Iterator[tuple[str, str, int]]:
    """Yield the ports by which frames enter and should leave each machine on the way, and how many did not leave.

    What the port they should leave by refused is told of it, and is not meant here.
    """
    for (_, into), (out, _) in pairwise(way.hops):
        if into in after.devices:
            continue  # an XDP program passes frames on before they are counted here
        entered = _interface(ports[into], before, after, "rx_packets")
        left = sum(
            _interface(ports[out], before, after, counter)
            for counter in ("tx_packets", "tx_dropped", "tx_errors")
        )
        yield into, out, entered - left - _qdisc(ports[out], before, after)


def _reasoned(into: str, out: str, frames: int, spare: dict[str, int]) -> list[Drop]:
    """Return frames that a machine did not pass on, by the kernel's reasons as far as these reach; takes them."""
    found: list[Drop] = []
    for reason, known in sorted(spare.items(), key=lambda item: -item[1]):
        taken = min(known, frames)
        if taken > 0:
            found.append(Drop(into, f"{reason}, not passed on to {out}", taken))
            spare[reason] -= taken
            frames -= taken
    return [*found, Drop(into, f"not passed on to {out}", frames)] if frames > 0 else found


def _in_the_receiver(receiver: ReceiverReport) -> list[Drop]:
    socket = receiver.socket
    pairs = ((RING_FULL, socket.ring_full_frames), (NO_BUFFER, socket.no_buffer_frames))
    found = [Drop(RECEIVER, reason, frames) for reason, frames in pairs if frames > 0]
    if receiver.late_frames or receiver.corrupted_frames:
        found.append(Drop(RECEIVER, "late or damaged", receiver.late_frames + receiver.corrupted_frames))
    return found


def drop_reasons(before: Reading, after: Reading) -> dict[str, int]:
    """Return the packets that the whole kernel dropped between two readings, by its name of the reason."""

    def counted(reading: Reading) -> dict[str, int]:
        rows = (row for seen in reading.observations if seen.sampler == "drops" for row in seen.drops)
        return dict(next((row.counters for row in rows if row.place == "reason"), {}))

    earlier = counted(before)
    changes = {reason: count - earlier.get(reason, 0) for reason, count in counted(after).items()}
    return {reason: frames for reason, frames in changes.items() if frames > 0}


def _kernels(
    before: Snapshot, after: Snapshot, named: list[list[Drop]], missing: list[int]
) -> dict[str, dict[str, int]]:
    """Name the drops of each kernel's backlogs, and return its drops by reason; "" is the kernel frames are sent on."""
    pairs = {"": (before.reading, after.reading)}
    pairs |= {
        kernel: (before.elsewhere.get(kernel, later), later) for kernel, later in after.elsewhere.items()
    }
    for kernel, (earlier, later) in pairs.items():
        counted = {f"{kernel} cpu{cpu}".strip(): n for cpu, n in _backlogs(earlier, later).items()}
        _share(named, missing, {(place, BACKLOG): frames for place, frames in counted.items()})
    return {kernel: drop_reasons(*readings) for kernel, readings in pairs.items()}


def _beyond(
    reasons: Mapping[str, Mapping[str, int]], named: Sequence[Sequence[Drop]]
) -> dict[str, dict[str, int]]:
    """Return what the reasons tell beyond drops that have a place: those are taken for the most frequent reasons."""
    known = sum(drop.frames for drops in named for drop in drops if drop.reason != RULE)
    left: dict[str, dict[str, int]] = {kernel: {} for kernel in reasons}
    every = [
        (frames, kernel, reason) for kernel, found in reasons.items() for reason, frames in found.items()
    ]
    for frames, kernel, reason in sorted(every, reverse=True):
        taken = min(known, frames)
        known -= taken
        left[kernel][reason] = frames - taken
    return left


def _share(named: list[list[Drop]], missing: list[int], counted: Mapping[tuple[str, str], int]) -> None:
    """Give drops to the directions that miss frames: these counters do not say whose they were."""
    for (place, reason), frames in counted.items():
        left = frames
        for index, drops in enumerate(named):
            taken = min(left, max(0, missing[index]))
            if taken > 0:
                drops.append(Drop(place, reason, taken))
                missing[index] -= taken
                left -= taken


def _backlogs(before: Reading, after: Reading) -> dict[int, int]:
    def counted(reading: Reading) -> dict[int, int]:
        rows = (row for seen in reading.observations if seen.sampler == "softnet" for row in seen.cpus)
        return {row["cpu"]: row["dropped"] for row in rows}

    earlier = counted(before)
    return {cpu: count - earlier.get(cpu, count) for cpu, count in counted(after).items()}


def _interface(port: Port, before: Snapshot, after: Snapshot, counter: str) -> int:
    earlier = before.of(port).interface(port.netns, port.interface)
    later = after.of(port).interface(port.netns, port.interface)
    if earlier is None or later is None:
        return 0
    return int(getattr(later, counter) - getattr(earlier, counter))


def _qdisc(port: Port, before: Snapshot, after: Snapshot) -> int:
    def counted(reading: Reading) -> int:
        return sum(
            row.drops
            for seen in reading.observations
            if seen.sampler == "qdiscs" and seen.netns == port.netns
            for row in seen.qdiscs
            if row.interface == port.interface and row.parent == "root"
        )

    return counted(after.of(port)) - counted(before.of(port))


def _xdp_losses(port: Port, before: Snapshot, after: Snapshot) -> int:
    def counted(reading: Reading) -> int:
        return sum(
            value
            for seen in reading.observations
            if seen.sampler == "drops" and seen.netns == port.netns
            for row in seen.drops
            if row.place == "driver" and row.name == port.interface
            for name, value in row.counters.items()
            if name.endswith(XDP_LOSSES)
        )

    return counted(after.of(port)) - counted(before.of(port))
