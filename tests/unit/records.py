"""Make records of trials like `trial`, with defaults for fields that a test does not use."""

from collections.abc import Mapping, Sequence
from typing import Any

from iolab.messages.caveats import Caveat
from iolab.messages.drop_reasons import DropReason
from iolab.messages.evidence import Evidence
from iolab.messages.instrument import PathFallback, Sharing
from iolab.messages.places import Place
from iolab.messages.searches import LibraryGaveUp
from iolab.results.metric import Metric, Metrics, Quantity
from iolab.results.packets import Balance, Drop, FrameSize, LoadRecord, PacketTrial, Placed, PortUse
from iolab.results.search import LoadResult
from iolab.results.verdict import CpuUse, Limit, Verdict
from iolab.units import NS_PER_S


def metrics(figures: Mapping[Any, tuple[Any, ...]]) -> Metrics:
    """Return metrics of (value, unit) or (value, unit, limited_by), by name or quantity."""
    return Metrics(
        Metric(of.name, unit, value, of.dimensions, *limited_by)
        for of, (value, unit, *limited_by) in ((_quantity(key), figure) for key, figure in figures.items())
    )


def _quantity(of: str | Quantity) -> Quantity:
    return Quantity(of) if isinstance(of, str) else of


def load_record(
    fps: float,
    limit: str = "none",
    place: Place | None = None,
    *,
    seen: Sequence[Evidence] | None = None,
    purpose: str = "search",
    share_ratio: float | None = None,
    balances: Sequence[Balance] = (),
    busy: Mapping[int, float] | None = None,
    doubt: Caveat | None = None,
) -> LoadRecord:
    """Return one load trial with a verdict."""
    said = (LibraryGaveUp(said=f"{limit} at {fps:g}"),)
    offered = sum(sheet.offered_frames for sheet in balances)
    return LoadRecord(
        purpose=purpose,
        share_ratio=share_ratio,
        begin_ns=0,
        result=LoadResult(
            intended_fps=fps,
            duration_ns=NS_PER_S,
            intended_frames=offered,
            offered_frames=offered,
            forwarded_frames=sum(sheet.forwarded_frames for sheet in balances),
        ),
        directions=1,
        balances=tuple(balances),
        verdict=Verdict(Limit(limit), said if seen is None else tuple(seen), place, doubt),
        latency=None,
        disorder=(0, 0),
        density=(),
        cpus=tuple(CpuUse(cpu, ratio, 0.0, 0.0) for cpu, ratio in (busy or {}).items()),
        threads=(),
    )


def balance(offered: int, forwarded: int, unexplained: int, *drops: tuple[Place, DropReason, int]) -> Balance:
    """Return a balance sheet of one direction; drops are (place, reason, frames)."""
    named = tuple(Drop(*drop) for drop in drops)
    return Balance("tester.p0->tester.p1", offered, forwarded, named, unexplained)


def packet_trial(load_trials: Sequence[LoadRecord] = (), **more: Any) -> PacketTrial:
    """Return the samples of a packet trial."""
    whole: dict[str, Any] = {
        "directions": ("tester.p0->tester.p1",),
        "sizes": (FrameSize(64, 1),),
        "placed": placed(),
        "ports": (),
        "path_choice": None,
        "search": None,
        "rate_fps": None,
        "load_trials": tuple(load_trials),
    }
    return PacketTrial(**{**whole, **more})


def placed(*shared: Sharing) -> Placed:
    """Return the placement of a trial's parts."""
    return Placed((0,), (1,), (), shared)


def port(name: str, half: str, path: str, *fallbacks: str) -> PortUse:
    """Return the path of a half of a port to its interface."""
    return PortUse(name, half, path, tuple(PathFallback(said=said) for said in fallbacks))
