"""Drops: places and reasons for which frames are lost. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from iolab.messages.drop_reasons import (
    ByFilter,
    ByImpairment,
    ByRule,
    CountedAs,
    CountedReason,
    Damaged,
    DropReason,
    InBacklog,
    InQdisc,
    Late,
    LongerThanMtu,
    NoBuffer,
    RingFull,
    SeveralReasons,
    SocketFull,
    WireBehind,
    WireFull,
)
from iolab.messages.places import AtReceiver, OnTheWay, Place
from iolab.results.balance import Drop

RING_FULL, NO_BUFFER, RULE, QDISC, BACKLOG = RingFull(), NoBuffer(), ByRule(), InQdisc(), InBacklog()
FILTER, DAMAGED, LATE, SOCKET = ByFilter(), Damaged(), Late(), SocketFull()
RX_DROPPED, RX_ERRORS = CountedAs(counter="rx_dropped"), CountedAs(counter="rx_errors")
TX_ERRORS = CountedAs(counter="tx_errors")
OVERRUNS: frozenset[DropReason] = frozenset(
    {RING_FULL, NO_BUFFER, BACKLOG, RX_DROPPED, RX_ERRORS, WireBehind(), WireFull()}
)
"""Reasons of a place that had no time left for what came; others are decisions, however busy it was."""
RECEIVER, ON_THE_WAY = AtReceiver(), OnTheWay()

DECISIONS = frozenset(
    {
        "NETFILTER_DROP", "TC_INGRESS", "TC_EGRESS", "SOCKET_FILTER", "BPF_CGROUP_EGRESS", "XDP", "IP_INNOROUTES",
        "IP_OUTNOROUTES", "IP_RPFILTER", "IP_NOPROTO", "IP_INADDRERRORS", "IPV6DISABLED", "PKT_TOO_BIG",
        "PKT_TOO_SMALL", "OTHERHOST", "UNHANDLED_PROTO", "NO_SOCKET", "BRIDGE_INGRESS_STP_STATE",
        "BRIDGE_NON_FORWARDING_STATE", "VLAN_FILTER", "DEV_READY", "TTL_EXPIRED",
    }
)  # fmt: skip
"""The kernel's reasons that are decisions (include/net/dropreason-core.h): they hold at any load."""


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
