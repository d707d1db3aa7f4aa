"""Drops: places and reasons for which frames are lost, and which reasons of the kernel tell why, and how surely. Pure.

The kernel counts its reasons for all that it drops: frames of other programs, and copies that the instrument itself
causes. So a reason is that of missing frames for certain only where its count is theirs.

Single flows that lost all of their frames, while others passed, are a case of their own: no lack of time does that.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from iolab.agent.messages import ReceiverReport
from iolab.messages.caveats import Caveat, ReasonOfOthers
from iolab.messages.drop_reasons import (
    ByChance,
    ByImpairment,
    CountedAs,
    CountedReason,
    Discarded,
    DropReason,
    LongerThanMtu,
    LostOnWire,
    NoRoom,
    QueueLimit,
    SeveralReasons,
    Unusable,
)
from iolab.messages.places import OnWire, Place, PlainPlace
from iolab.results.packets import Drop
from iolab.results.search import LoadResult
from iolab.trial.counters.differences import Counted

RING_FULL, NO_BUFFER = NoRoom(code="ring-full"), NoRoom(code="no-buffer")
BACKLOG, SOCKET = NoRoom(code="in-backlog"), NoRoom(code="socket-full")
RULE, FILTER, QDISC = Discarded(code="by-rule"), Discarded(code="by-filter"), Discarded(code="in-qdisc")
DAMAGED, LATE = Unusable(code="damaged"), Unusable(code="late")
WIRE_BEHIND, WIRE_FULL = LostOnWire(code="wire-behind"), LostOnWire(code="wire-full")
UNDER_WAY = LostOnWire(code="still-under-way")
RX_DROPPED, RX_ERRORS = CountedAs(counter="rx_dropped"), CountedAs(counter="rx_errors")
TX_ERRORS = CountedAs(counter="tx_errors")
OVERRUNS: frozenset[DropReason] = frozenset(
    {RING_FULL, NO_BUFFER, BACKLOG, RX_DROPPED, RX_ERRORS, WIRE_BEHIND, WIRE_FULL}
)
"""Reasons of a place that had no time left for what came; others are decisions, however busy it was."""
RECEIVER, ON_THE_WAY = PlainPlace(code="receiver"), PlainPlace(code="on-the-way")
DECISIONS = frozenset(
    {
        "NETFILTER_DROP", "TC_INGRESS", "TC_EGRESS", "SOCKET_FILTER", "BPF_CGROUP_EGRESS", "XDP", "IP_INNOROUTES",
        "IP_OUTNOROUTES", "IP_RPFILTER", "IP_NOPROTO", "IP_INADDRERRORS", "IPV6DISABLED", "PKT_TOO_BIG",
        "PKT_TOO_SMALL", "OTHERHOST", "UNHANDLED_PROTO", "NO_SOCKET", "BRIDGE_INGRESS_STP_STATE",
        "BRIDGE_NON_FORWARDING_STATE", "VLAN_FILTER", "DEV_READY", "TTL_EXPIRED",
    }
)  # fmt: skip
"""The kernel's reasons that are decisions (include/net/dropreason-core.h): they hold at any load."""
CHANCE = 1e-6
"""How likely it may at most be that a flow lost everything by the loss that all flows have."""


@dataclass(frozen=True, slots=True)
class DeadFlows:
    """Flows of which nothing arrived, over all directions."""

    flows: tuple[int, ...]
    """Their numbers, of those that the receivers list."""
    of: int
    """Flows that were sent."""
    frames: int
    """Frames of the dead ones: all lost."""
    fewest_frames: int
    """Of any one of them."""


def decided(drop: Drop) -> bool:
    """Return whether frames were dropped by a decision, as somebody set it up: no want of time or room does that."""
    ruled = drop.reason in (RULE, FILTER, DAMAGED) or isinstance(drop.reason, ByImpairment | LongerThanMtu)
    return ruled or drop.cause in DECISIONS


def merged(drops: Iterable[Drop]) -> tuple[Drop, ...]:
    """Return the drops of each place and reason as one, most frames first."""
    sums: dict[tuple[Place, DropReason], Drop] = {}
    for drop in drops:
        known = sums.get((drop.place, drop.reason))
        frames = drop.frames + (known.frames if known is not None else 0)
        doubt = drop.doubt or (known.doubt if known is not None else None)
        sums[drop.place, drop.reason] = replace(drop, frames=frames, doubt=doubt)
    return tuple(sorted(sums.values(), key=lambda drop: -drop.frames))


def worst_of(drops: Sequence[Drop], lost_frames: int) -> Drop | None:
    """Return the place and reason with most of merged drops.

    Where no reason has half of them, those of a place are named together.
    """
    if not drops or drops[0].frames * 2 >= lost_frames:
        return drops[0] if drops else None
    places: dict[Place, list[Drop]] = {}
    for drop in drops:
        places.setdefault(drop.place, []).append(drop)
    own = max(places.values(), key=lambda several: sum(drop.frames for drop in several))
    if len(own) == 1:
        return own[0]
    counted = tuple(CountedReason(reason=drop.reason, frames=drop.frames) for drop in own)
    doubt = next((drop.doubt for drop in own if drop.doubt is not None), None)
    return Drop(own[0].place, SeveralReasons(reasons=counted), sum(drop.frames for drop in own), doubt=doubt)


def leading(reason: DropReason) -> DropReason:
    """Return the reason that has most frames: the first of several."""
    return reason.reasons[0].reason if isinstance(reason, SeveralReasons) else reason


FIT_RATIO = 0.03
"""How far a reason's count may be from the frames that it explains: the rest is other work of the host."""
FEWEST_RATIO = 0.5
"""From which share of the missing frames on a reason that explains only some of them is named."""
GIVEN: Mapping[DropReason, tuple[str, ...]] = {
    RING_FULL: ("FULL_RING", "NOT_SPECIFIED"),
    QDISC: ("QDISC_DROP", "QDISC_OVERLIMIT", "TC_EGRESS"),
    BACKLOG: ("CPU_BACKLOG",),
    FILTER: ("TC_INGRESS", "TC_EGRESS"),
    RX_DROPPED: ("UNHANDLED_PROTO",),
    WIRE_BEHIND: ("TAP_FILTER", "FULL_RING", "NOT_SPECIFIED"),
}
"""A drop's reason, and what the kernel calls it; veth gives none for a full ring."""
OF_ARRIVALS = frozenset(
    {
        "IP_LOCAL_SOURCE", "IP_INADDRERRORS", "IP_INNOROUTES", "IP_RPFILTER", "IP_INVALID_SOURCE", "IP_INVALID_DEST",
        "IP_LOCALNET", "IP_CSUM", "IP_INHDR", "IP_NOPROTO", "UDP_CSUM", "NO_SOCKET", "OTHERHOST", "UNHANDLED_PROTO",
        "UNICAST_IN_L2_MULTICAST", "IPV6DISABLED", "PKT_TOO_SMALL", "NOT_SPECIFIED",
    }
)  # fmt: skip
"""Why a network stack throws away frames that arrive at an interface and are for no program of its own; before Linux
6.14 it gave no reason for most of them."""


@dataclass(frozen=True, slots=True)
class Named:
    """Missing frames that a reason stands for."""

    reason: str
    """The kernel's name."""
    frames: int
    """How many."""
    doubt: Caveat | None = None
    """Why it is not certain; None: it is."""


def without_copies(reasons: Mapping[str, int], frames: int) -> dict[str, int]:
    """Return a kernel's reasons without `frames` that its stack got a second time and threw away.

    What an AF_PACKET socket receives the stack of its namespace gets as well. Of the reasons that it can have had, the
    one whose count is nearest is its own.
    """
    left = dict(reasons)
    for reason in sorted(OF_ARRIVALS & left.keys(), key=lambda reason: (abs(left[reason] - frames), reason)):
        taken = min(left[reason], frames)
        left[reason] -= taken
        frames -= taken
    return left


def beyond(reasons: Mapping[str, Mapping[str, int]], known: Sequence[Drop]) -> dict[str, dict[str, int]]:
    """Return what the kernels' reasons tell beyond drops that have a place.

    A drop is taken for a reason that the kernel gives such drops, else for the most frequent one that is no decision.
    """
    left = {kernel: dict(found) for kernel, found in reasons.items()}
    for drop in known:
        frames = drop.frames
        natural = GIVEN.get(drop.reason, ())
        every = [
            (kernel, reason, count)
            for kernel, found in left.items()
            for reason, count in found.items()
            if reason in natural or reason not in DECISIONS
        ]
        every.sort(key=lambda row: (row[1] not in natural, -row[2], row[:2]))
        for kernel, reason, count in every:
            taken = min(frames, count)
            frames -= taken
            left[kernel][reason] -= taken
    return left


def share_out(holes: Sequence[int], reasons: Mapping[str, int]) -> tuple[tuple[Named, ...], ...]:
    """Return what a kernel's reasons tell of the frames that are missing at each of several places.

    One reason may be that of all places together, else each place has its own.
    """
    together = explain(sum(holes), reasons)
    if len(together) == 1 and not together[0].doubt:
        return tuple((Named(together[0].reason, frames),) if frames else () for frames in holes)
    left, found = dict(reasons), []
    for frames in holes:
        named = explain(frames, left)
        for one in named:
            left[one.reason] -= one.frames
        found.append(named)
    return tuple(found)


def explain(missing: int, reasons: Mapping[str, int]) -> tuple[Named, ...]:
    """Return what a kernel's reasons tell of missing frames, most first; nothing where several could be theirs.

    For certain: the one reason with their count, or all reasons, whose sum it is. In doubt: the one reason that has
    more, or where none has as many, the largest.
    """
    counts = sorted(
        ((n, reason) for reason, n in reasons.items() if n > 0), key=lambda row: (-row[0], row[1])
    )
    if not counts or missing <= 0:
        return ()
    fitting = [row for row in counts if _fits(row[0], missing)]
    if fitting:
        return (Named(fitting[0][1], min(fitting[0][0], missing)),) if len(fitting) == 1 else ()
    if _fits(sum(n for n, _ in counts), missing):
        return _in_turn(missing, counts)
    enough = [row for row in counts if row[0] > missing]
    if len(enough) > 1 or (not enough and counts[0][0] < FEWEST_RATIO * missing):
        return ()
    count, reason = counts[0]
    doubt = ReasonOfOthers(reason=reason, dropped_frames=count, missing_frames=missing)
    return (Named(reason, min(count, missing), doubt),)


def _fits(count: int, missing: int) -> bool:
    return abs(count - missing) <= FIT_RATIO * missing


def _in_turn(missing: int, counts: Sequence[tuple[int, str]]) -> tuple[Named, ...]:
    found: list[Named] = []
    for count, reason in counts:
        taken = min(count, missing)
        missing -= taken
        if taken:
            found.append(Named(reason, taken))
    return tuple(found)


LOST_BY: Mapping[str, DropReason] = {
    "loss": ByChance(code="by-loss"),
    "loss_bursts": ByChance(code="by-loss-bursts"),
    "loss_every": ByChance(code="by-loss-pattern"),
    "loss_pattern": ByChance(code="by-loss-pattern"),
    "line": QueueLimit(code="in-line-queue"),
    "codel": QueueLimit(code="by-codel"),
    "pacer": QueueLimit(code="in-pacer-queue"),
}
"""Kind of stage to reason; other stages lose nothing."""


def wire_drops(
    counted: Counted, out: str, into: str, damaged_frames: int, *, direct: bool = True
) -> Iterator[Drop]:
    """Yield what was lost on the emulated path between two ports; nothing where there is none.

    Of the frames whose bit it inverted, `damaged_frames` arrived and are named there. A wire that is not `direct` is
    between bridges, whose members the ports are: its own interfaces are not counted.
    """
    found = counted.on_wire(out, into)
    if found is None:
        return
    link, way = found
    place, copies = OnWire(link=link), way.lost_copies_frames
    if direct:
        yield Drop(place, WIRE_BEHIND, counted.frames(out, "tx_dropped") + way.unread_frames)
    for stage in (one for one in way.stages if one.lost_frames):
        taken = min(copies, stage.lost_frames)  # the originals of these went on
        copies -= taken
        yield Drop(place, LOST_BY[stage.kind], stage.lost_frames - taken)
    for reason, frames in (
        (WIRE_FULL, way.no_room_frames),
        (LostOnWire(code="far-end-down"), way.refused_frames),
        (UNDER_WAY, way.held_frames),
        (ByChance(code="corrupted"), way.corrupted_frames - damaged_frames),
    ):
        yield Drop(place, reason, max(0, frames))


def dead_flows(receivers: Sequence[ReceiverReport]) -> DeadFlows | None:
    """Return the flows that lost everything; None: there are none, or no others."""
    seen = [receiver.flows for receiver in receivers]
    dead = [one for flows in seen for one in flows.worst if one.sent_frames and not one.received_frames]
    count = sum(flows.count for flows in seen)
    if not dead or len(dead) >= count:
        return None
    return DeadFlows(
        flows=tuple(one.flow for one in dead),
        of=count,
        frames=sum(one.sent_frames for one in dead),
        fewest_frames=min(one.sent_frames for one in dead),
    )


def explains(dead: DeadFlows, result: LoadResult) -> bool:
    """Tell whether most of the loss is theirs, and no accident of what others lost as well."""
    others_lost = max(0, result.lost_frames - dead.frames)
    others_ratio = others_lost / max(1, result.offered_frames - dead.frames)
    return 2 * dead.frames >= result.lost_frames and others_ratio**dead.fewest_frames <= CHANCE
