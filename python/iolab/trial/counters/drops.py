"""Define places and reasons of drops, and match them with the kernel's drop reasons. Pure.

The kernel counts drop reasons for all traffic, including that of other programs and copies that the instrument causes.
The reason for missing frames is therefore certain only if the kernel's count matches their number. It is a separate
case if individual flows lost all frames while other flows passed, because overruns do not cause this.
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
"""Reasons of overruns: the place had no time or space for the frames. All other drop reasons are deliberate and
independent of load."""
RECEIVER, ON_THE_WAY = PlainPlace(code="receiver"), PlainPlace(code="on-the-way")
DECISIONS = frozenset(
    {
        "NETFILTER_DROP", "TC_INGRESS", "TC_EGRESS", "SOCKET_FILTER", "BPF_CGROUP_EGRESS", "XDP", "IP_INNOROUTES",
        "IP_OUTNOROUTES", "IP_RPFILTER", "IP_NOPROTO", "IP_INADDRERRORS", "IPV6DISABLED", "PKT_TOO_BIG",
        "PKT_TOO_SMALL", "OTHERHOST", "UNHANDLED_PROTO", "NO_SOCKET", "BRIDGE_INGRESS_STP_STATE",
        "BRIDGE_NON_FORWARDING_STATE", "VLAN_FILTER", "DEV_READY", "TTL_EXPIRED",
    }
)  # fmt: skip
"""Kernel drop reasons that are deliberate (include/net/dropreason-core.h): they apply at any load."""
CHANCE = 1e-6
"""Maximum probability that a flow lost all of its frames by chance, given the loss ratio of all flows."""


@dataclass(frozen=True, slots=True)
class DeadFlows:
    """Flows of which no frame was received, over all directions."""

    flows: tuple[int, ...]
    """Numbers of these flows, as far as the receivers list the flows."""
    of: int
    """Number of flows that were sent."""
    frames: int
    """Number of frames sent in these flows, all of which were lost."""
    fewest_frames: int
    """Number of frames of the flow with the fewest frames among these flows."""


def decided(drop: Drop) -> bool:
    """Whether frames were dropped deliberately by configuration, not for lack of time or space."""
    ruled = drop.reason in (RULE, FILTER, DAMAGED) or isinstance(drop.reason, ByImpairment | LongerThanMtu)
    return ruled or drop.cause in DECISIONS


def merged(drops: Iterable[Drop]) -> tuple[Drop, ...]:
    """Merge the drops of each place and reason; return them in descending order of lost frames."""
    sums: dict[tuple[Place, DropReason], Drop] = {}
    for drop in drops:
        known = sums.get((drop.place, drop.reason))
        frames = drop.frames + (known.frames if known is not None else 0)
        doubt = drop.doubt or (known.doubt if known is not None else None)
        sums[drop.place, drop.reason] = replace(drop, frames=frames, doubt=doubt)
    return tuple(sorted(sums.values(), key=lambda drop: -drop.frames))


def worst_of(drops: Sequence[Drop], lost_frames: int) -> Drop | None:
    """Return the place and the reason with the most frames among merged drops.

    If no single reason accounts for half of the lost frames, all reasons of the place with the most frames are
    combined.
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
    """Return the first of several reasons, which has the most frames."""
    return reason.reasons[0].reason if isinstance(reason, SeveralReasons) else reason


FIT_RATIO = 0.03
"""Maximum relative difference between a reason's count and the frames that it explains; the rest is other traffic."""
FEWEST_RATIO = 0.5
"""Minimum share of the missing frames that a reason must explain to be named if it does not explain all of them
[ratio]."""
GIVEN: Mapping[DropReason, tuple[str, ...]] = {
    RING_FULL: ("FULL_RING", "NOT_SPECIFIED"),
    QDISC: ("QDISC_DROP", "QDISC_OVERLIMIT", "TC_EGRESS"),
    BACKLOG: ("CPU_BACKLOG",),
    FILTER: ("TC_INGRESS", "TC_EGRESS"),
    RX_DROPPED: ("UNHANDLED_PROTO",),
    WIRE_BEHIND: ("TAP_FILTER", "FULL_RING", "NOT_SPECIFIED"),
}
"""Kernel drop reasons for each of iolab's drop reasons; veth reports none for a full ring."""
OF_ARRIVALS = frozenset(
    {
        "IP_LOCAL_SOURCE", "IP_INADDRERRORS", "IP_INNOROUTES", "IP_RPFILTER", "IP_INVALID_SOURCE", "IP_INVALID_DEST",
        "IP_LOCALNET", "IP_CSUM", "IP_INHDR", "IP_NOPROTO", "UDP_CSUM", "NO_SOCKET", "OTHERHOST", "UNHANDLED_PROTO",
        "UNICAST_IN_L2_MULTICAST", "IPV6DISABLED", "PKT_TOO_SMALL", "NOT_SPECIFIED",
    }
)  # fmt: skip
"""Kernel drop reasons for arriving frames without a local receiver; before Linux 6.14, most drops of such frames had no
reason."""


@dataclass(frozen=True, slots=True)
class Named:
    """Missing frames that a drop reason explains."""

    reason: str
    """Kernel's drop reason."""
    frames: int
    """Number of frames."""
    doubt: Caveat | None = None
    """Reason to doubt the match; None if the match is certain."""


def without_copies(reasons: Mapping[str, int], frames: int) -> dict[str, int]:
    """Return a kernel's drop reasons without `frames` copies that its network stack received and dropped.

    The stack of a namespace receives a copy of each frame that an AF_PACKET socket receives. The counts of the most
    likely drop reasons, those with the closest counts, are reduced.
    """
    left = dict(reasons)
    for reason in sorted(OF_ARRIVALS & left.keys(), key=lambda reason: (abs(left[reason] - frames), reason)):
        taken = min(left[reason], frames)
        left[reason] -= taken
        frames -= taken
    return left


def beyond(reasons: Mapping[str, Mapping[str, int]], known: Sequence[Drop]) -> dict[str, dict[str, int]]:
    """Return the counts of the kernels' drop reasons, reduced by the drops whose place is known.

    A drop is subtracted from a reason that the kernel gives for such drops, else from the most frequent reason that is
    not deliberate.
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
    """Return the drop reasons that explain the frames that are missing at each of several places.

    One drop reason may explain the missing frames of all places together; otherwise each place has its own reason.
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
    """Return the drop reasons that explain missing frames, the most frequent first; empty if the explanation is
    ambiguous.

    A match is certain if only one reason has a matching count, or if the sum of all reasons matches. A match is
    doubtful if only one reason has a larger count; if there is no such reason, the most frequent one is a doubtful
    match.
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
"""Drop reason by kind of impairment stage; other stages lose no frames."""


def wire_drops(
    counted: Counted, out: str, into: str, damaged_frames: int, *, direct: bool = True
) -> Iterator[Drop]:
    """Yield the losses on the emulated path between two ports; none if there is no emulated path.

    Of the frames with an inverted bit, `damaged_frames` arrived and count at the receiver. An emulated link that is
    not `direct` joins bridges whose members are the ports: its own interfaces are not counted.
    """
    found = counted.on_wire(out, into)
    if found is None:
        return
    link, way = found
    place, copies = OnWire(link=link), way.lost_copies_frames
    if direct:
        yield Drop(place, WIRE_BEHIND, counted.frames(out, "tx_dropped") + way.unread_frames)
    for stage in (one for one in way.stages if one.lost_frames):
        taken = min(copies, stage.lost_frames)  # the originals of these copies were forwarded
        copies -= taken
        yield Drop(place, LOST_BY[stage.kind], stage.lost_frames - taken)
    for reason, frames in (
        (WIRE_FULL, way.no_room_frames),
        (WIRE_BEHIND, way.stale_frames),
        (LostOnWire(code="far-end-down"), way.refused_frames),
        (UNDER_WAY, way.held_frames),
        (ByChance(code="corrupted"), way.corrupted_frames - damaged_frames),
    ):
        yield Drop(place, reason, max(0, frames))


def dead_flows(receivers: Sequence[ReceiverReport]) -> DeadFlows | None:
    """Return the flows that lost all frames; None if no flow or every flow lost all frames."""
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
    """Whether flows that lost all frames explain most of the loss, and could not have lost all their frames by chance
    at the loss ratio of the other flows."""
    others_lost = max(0, result.lost_frames - dead.frames)
    others_ratio = others_lost / max(1, result.offered_frames - dead.frames)
    return 2 * dead.frames >= result.lost_frames and others_ratio**dead.fewest_frames <= CHANCE
