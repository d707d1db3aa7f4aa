"""Single flows that lost all of their frames, while others passed: no want of time or room does that. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from iolab.agent.traffic import ReceiverReport
from iolab.results.search import LoadResult

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


def dead_flows(receivers: Sequence[ReceiverReport]) -> DeadFlows | None:
    """Return the flows that lost everything; None: there are none, or no others."""
    seen = [receiver.flows for receiver in receivers if receiver.flows is not None]
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
