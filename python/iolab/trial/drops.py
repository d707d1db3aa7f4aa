"""Drops: places and reasons for which frames are lost. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

RING_FULL, NO_BUFFER, RULE, QDISC, BACKLOG = "ring full", "no buffer", "rule", "qdisc", "backlog"
FILTER, DAMAGED, LATE = "filter", "damaged", "late"
OVERRUNS = frozenset({RING_FULL, NO_BUFFER, BACKLOG, "rx_dropped", "rx_errors"})
"""Reasons of a place that had no time left for what came; others are decisions, however busy it was."""
UNREAD, BETWEEN = "never read from the queue of", "lost between"
"""Beginnings of reasons: frames that a hypervisor left in the tap of its guest, or took and did not hand on."""
RECEIVER, KERNEL, ON_THE_WAY = "receiver", "kernel", "on the way"


DECISIONS = frozenset(
    {
        "NETFILTER_DROP", "TC_INGRESS", "TC_EGRESS", "SOCKET_FILTER", "BPF_CGROUP_EGRESS", "XDP", "IP_INNOROUTES",
        "IP_OUTNOROUTES", "IP_RPFILTER", "IP_NOPROTO", "IP_INADDRERRORS", "IPV6DISABLED", "PKT_TOO_BIG",
        "PKT_TOO_SMALL", "OTHERHOST", "UNHANDLED_PROTO", "NO_SOCKET", "BRIDGE_INGRESS_STP_STATE",
        "BRIDGE_NON_FORWARDING_STATE", "VLAN_FILTER", "DEV_READY", "TTL_EXPIRED",
    }
)  # fmt: skip
"""The kernel's reasons that are decisions (include/net/dropreason-core.h): they hold at any load."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Frames lost at one place for one reason."""

    place: str
    """machine.port, cpuN, device machine.port, kernel (somewhere in it), on the way (anywhere), or receiver."""
    reason: str
    """Why, in one or two words."""
    frames: int
    """How many."""
    cause: str = ""
    """The kernel's own name of the reason, where it tells one."""
    doubt: str = ""
    """Why that reason is not certain; empty: it is, or there is none."""

    @property
    def decided(self) -> bool:
        """Whether frames were dropped by a decision, as somebody set it up: no want of time or room does that."""
        return self.reason in (RULE, FILTER, DAMAGED) or self.cause in DECISIONS


def merged(drops: Iterable[Drop]) -> tuple[Drop, ...]:
    """Return the drops of each place and reason as one, most frames first."""
    sums: dict[tuple[str, str], Drop] = {}
    for drop in drops:
        known = sums.get((drop.place, drop.reason))
        frames = drop.frames + (known.frames if known is not None else 0)
        doubt = drop.doubt or (known.doubt if known is not None else "")
        sums[drop.place, drop.reason] = replace(drop, frames=frames, doubt=doubt)
    return tuple(sorted(sums.values(), key=lambda drop: -drop.frames))


def worst_of(drops: Sequence[Drop], lost_frames: int) -> Drop | None:
    """Return the place and reason with most of merged drops.

    Where no reason has half of them, those of a place are named together.
    """
    if not drops or drops[0].frames * 2 >= lost_frames:
        return drops[0] if drops else None
    places: dict[str, list[Drop]] = {}
    for drop in drops:
        places.setdefault(drop.place, []).append(drop)
    own = max(places.values(), key=lambda several: sum(drop.frames for drop in several))
    if len(own) == 1:
        return own[0]
    reasons = ", ".join(f"{drop.reason} {drop.frames}" for drop in own)
    doubt = next((drop.doubt for drop in own if drop.doubt), "")
    return Drop(own[0].place, reasons, sum(drop.frames for drop in own), doubt=doubt)
