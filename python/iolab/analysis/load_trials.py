"""Raw samples of forwarding, load-curve and latency trials, decoded: what analysis needs of them, and no more."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from iolab.statements.clauses import Clause, Doubt
from iolab.statements.instrument import PathReason, Sharing
from iolab.statements.statement import Statement

S = TypeVar("S", bound=Statement)
SAMPLE_SCHEMA = 2


@dataclass(frozen=True, slots=True)
class Port:
    """How a port reached its interface."""

    port: str
    """machine.port, and which half of it."""
    path: str
    """AF_XDP or AF_PACKET, and how."""
    reasons: tuple[PathReason, ...]
    """Why it is not the best path."""


@dataclass(frozen=True, slots=True)
class DirectionBalance:
    """Where the frames of one direction went."""

    offered_frames: int
    """What the interface accepted."""
    forwarded_frames: int
    """What arrived."""
    drops: tuple[tuple[str, str, int], ...]
    """Place, reason, frames."""
    unexplained_frames: int
    """Signed rest."""


@dataclass(frozen=True, slots=True)
class LoadTrial:
    """One trial at one load."""

    purpose: str
    """search, at-rate, curve, latency."""
    intended_fps: float
    """Rate asked for [frames/s]."""
    limit: str
    """The verdict's code."""
    place: str
    """The verdict's place; may be empty."""
    seen: tuple[Clause, ...]
    """What shows the verdict."""
    balance: tuple[DirectionBalance, ...]
    """Per direction."""
    cpu_busy: Mapping[int, float]
    """CPU number to the share of time it was not idle [ratio]."""
    doubt: Doubt | None = None
    """Why the verdict is not certain; None: it is."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What one trial stored."""

    ports: tuple[Port, ...]
    """Ports that sent or received."""
    shared: tuple[Sharing, ...]
    """Who shared a CPU."""
    load_trials: tuple[LoadTrial, ...]
    """In the order they were run."""
    rate_fps: float | None = None
    """The rate that was found or given, sum over directions [frames/s]; None: there is none."""


def decode(raw: object) -> Sample | None:
    """Decode what a trial stored; None where it is of another kind or version, or damaged."""
    try:
        document = _mapping(raw)
        if document.get("schema") != SAMPLE_SCHEMA:
            return None
        return Sample(
            ports=tuple(_port(_mapping(each)) for each in _list(document.get("ports"))),
            shared=_stated(Sharing, _mapping(document.get("placement") or {}).get("shared")),
            load_trials=tuple(_load_trial(_mapping(each)) for each in _list(document["load_trials"])),
            rate_fps=_number(document.get("rate_fps") or 0.0) or None,
        )
    except (KeyError, TypeError, ValueError):
        return None


def _port(row: Mapping[str, object]) -> Port:
    half = row.get("half")
    name = f"{row['port']}, {half}" if half else str(row["port"])
    reasons = (*_stated(PathReason, row.get("fallbacks")), *_stated(PathReason, row.get("chosen")))
    return Port(name, str(row["path"]), reasons)


def _load_trial(row: Mapping[str, object]) -> LoadTrial:
    verdict = _mapping(row.get("verdict") or {})
    cpus = [_mapping(each) for each in _list(row.get("cpus"))]
    return LoadTrial(
        purpose=str(row["purpose"]),
        intended_fps=_number(row["intended_fps"]),
        limit=str(verdict.get("limit") or "unexplained"),
        place=str(verdict.get("place") or ""),
        seen=_stated(Clause, verdict.get("seen")),
        balance=tuple(_balance(_mapping(each)) for each in _list(row.get("balance"))),
        doubt=None if verdict.get("doubt") is None else Doubt.model_validate(verdict["doubt"]),
        cpu_busy={int(_number(each["cpu"])): _number(each["busy_ratio"]) for each in cpus},
    )


def _balance(row: Mapping[str, object]) -> DirectionBalance:
    drops = [_mapping(each) for each in _list(row.get("drops"))]
    return DirectionBalance(
        offered_frames=int(_number(row["offered_frames"])),
        forwarded_frames=int(_number(row["forwarded_frames"])),
        drops=tuple(
            (str(each["place"]), str(each["reason"]), int(_number(each["frames"]))) for each in drops
        ),
        unexplained_frames=int(_number(row["unexplained_frames"])),
    )


def _mapping(value: object) -> Mapping[str, object]:
    if not isinstance(value, Mapping):
        raise TypeError(f"{type(value).__name__}; allowed is an object")
    return value


def _list(value: object) -> Sequence[object]:
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise TypeError(f"{type(value).__name__}; allowed is an array")
    return value


def _stated(kind: type[S], value: object) -> tuple[S, ...]:
    return tuple(kind.model_validate(each) for each in _list(value))


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{type(value).__name__}; allowed is a number")
    return value
