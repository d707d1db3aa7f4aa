"""What emulated paths lost, as drops of the balance sheet. Pure."""

from collections.abc import Iterator, Mapping

from iolab.messages.drop_reasons import (
    ByCodel,
    ByLoss,
    ByLossBursts,
    ByLossPattern,
    Corrupted,
    DropReason,
    FarEndDown,
    InLineQueue,
    InPacerQueue,
    StillUnderWay,
    WireBehind,
    WireFull,
)
from iolab.messages.places import OnWire
from iolab.results.balance import Drop
from iolab.trial.counters.differences import Counted

LOST_BY: Mapping[str, DropReason] = {
    "loss": ByLoss(),
    "loss_bursts": ByLossBursts(),
    "loss_every": ByLossPattern(),
    "loss_pattern": ByLossPattern(),
    "line": InLineQueue(),
    "codel": ByCodel(),
    "pacer": InPacerQueue(),
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
        yield Drop(place, WireBehind(), counted.frames(out, "tx_dropped") + way.unread_frames)
    for stage in (one for one in way.stages if one.lost_frames):
        taken = min(copies, stage.lost_frames)  # the originals of these went on
        copies -= taken
        yield Drop(place, LOST_BY[stage.kind], stage.lost_frames - taken)
    for reason, frames in (
        (WireFull(), way.no_room_frames),
        (FarEndDown(), way.refused_frames),
        (StillUnderWay(), way.held_frames),
        (Corrupted(), way.corrupted_frames - damaged_frames),
    ):
        yield Drop(place, reason, max(0, frames))
