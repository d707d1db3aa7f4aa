"""Metrics and raw samples of packet trials, from load records. Pure; defined in docs/method/forwarding.md."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from statistics import fmean

from pydantic_core import to_jsonable_python

from iolab.agent.messages import Json
from iolab.lab.packets.frames import sizes_of
from iolab.lab.packets.placement import Way
from iolab.record.balance import Drop
from iolab.record.load import LoadRecord, Shaper
from iolab.record.metric import Metric
from iolab.record.verdict import GUEST, KERNEL, Limit
from iolab.statements.instrument import NoThreadOfItsOwn, PathFallback, Sharing, ThreadsUnplaced
from iolab.statements.statement import Statement
from iolab.statements.warnings import (
    CpuShared,
    DamagedFrames,
    HostPerturbed,
    LatencyDisturbed,
    LoadShort,
    OtherTraffic,
    PassedShaper,
    SenderAtItsLimit,
    ShapeBypassed,
    SlowerPath,
    SlowPort,
    UnexplainedFrames,
    Warning,
)
from iolab.trial.drops import DAMAGED
from iolab.trial.load import LoadBench
from iolab.trial.paths import choice_of
from iolab.trial.shapers import bypassed

FEW_FOREIGN, FOREIGN_RATIO = 20, 1e-3
"""Frames of others per load trial (neighbour discovery, spanning tree), and per frame of ours, that are as usual."""
RAW_SCHEMA = 2
"""Version of the raw samples of packet trials."""


NS_PER_S = 1_000_000_000
SHORT_RATIO = 0.01
"""A load of which more than this was not offered is another load than the one that was asked for."""
TAIL_RATIO = 0.01
"""Where threads of the instrument were held up for more of the time, the 99th percentile of latency may be theirs."""


def percent(share: float) -> str:
    """Return a share as metrics name it: 50 %."""
    return f"{share * 100:.6g} %"


def labelled(name: str, label: str) -> str:
    """Return the name of a metric with a label: loss_ratio[50 %]."""
    return f"{name}[{label}]" if label else name


def latency_metrics(records: Sequence[LoadRecord], label: str = "") -> dict[str, Metric]:
    """Return the percentiles of one load."""
    shown = [record.latency for record in records if record.latency is not None]
    if not shown:
        return {}
    one = shown[-1]
    values = {"p50": one.p50, "p99": one.p99, "p999": one.p999, "max": one.max}
    return {
        labelled(f"latency_{name}_ns", label): Metric(float(value), "ns") for name, value in values.items()
    }


def use_metrics(records: Sequence[LoadRecord], label: str = "") -> dict[str, Metric]:
    """Return what CPUs and threads did, on average over records."""
    if not records:
        return {}
    before = f"{label} " if label else ""
    busy: dict[int, list[float]] = {}
    steal: list[float] = []
    threads: dict[str, list[float]] = {}
    for record in records:
        for cpu in record.cpus:
            busy.setdefault(cpu.cpu, []).append(cpu.busy_ratio)
            steal.append(cpu.steal_ratio)
        for thread in record.threads:
            name = thread.place if thread.role == "device" else thread.role
            if thread.role == GUEST:
                name = f"{thread.place} {thread.name}"
            elif thread.role == KERNEL:
                name = thread.name
            elif record.directions > 1 and thread.role != "device":
                name = f"{thread.role} {thread.place}"
            threads.setdefault(name, []).append(thread.busy_ratio)
    metrics = {f"thread_cpu_ratio[{before}{name}]": _ratio(values) for name, values in threads.items()}
    metrics |= {f"cpu_busy_ratio[{before}cpu{cpu}]": _ratio(values) for cpu, values in busy.items()}
    if busy:
        metrics[labelled("host_cpu_ratio", label)] = _ratio(
            [value for values in busy.values() for value in values]
        )
        metrics[labelled("host_steal_ratio", label)] = _ratio(steal)
    return metrics


def balance_metrics(records: Sequence[LoadRecord]) -> dict[str, Metric]:
    """Return how well the balance sheets close."""
    unexplained = sum(record.unexplained_frames for record in records)
    balanced = sum(record.unexplained_frames == 0 for record in records)
    return {
        "unexplained_frames": Metric(float(unexplained), "count"),
        "balanced_ratio": Metric(balanced / len(records), "ratio"),
    }


def common_warnings(bench: LoadBench, records: Sequence[LoadRecord]) -> tuple[Warning, ...]:
    """Return what the reader must know of the instrument, whatever was measured."""
    found: list[Warning] = []
    assert bench.site.placement is not None
    shared = _shared(bench)
    if shared:
        found.append(CpuShared(shared=shared))
    slow = dict.fromkeys(port for port in _port_paths(bench) if port.reasons)
    if slow:
        found.append(SlowerPath(ports=tuple(sorted(slow, key=lambda one: (one.port, one.path)))))
    open_sheets = [record for record in records if record.unexplained_frames]
    if open_sheets:
        frames = sum(record.unexplained_frames for record in open_sheets)
        found.append(UnexplainedFrames(frames=frames, open_trials=len(open_sheets), trials=len(records)))
    found += _of_others(records)
    held = [record for record in records if record.verdict.limit is Limit.HOST]
    if held:
        last = held[-1].verdict.seen
        found.append(HostPerturbed(disturbed_trials=len(held), trials=len(records), last=last))
    return (*found, *fallen_short(records))


def fallen_short(records: Sequence[LoadRecord]) -> tuple[Warning, ...]:
    """Return where a load that was asked for was not offered, or its latency is in part the instrument's.

    Loads of a search are its own business: it asks for more than there is, and judges each.
    """
    asked = [record for record in records if record.purpose != "search"]
    found: list[Warning] = []
    short = [record for record in asked if _missing_ratio(record) > SHORT_RATIO]
    if short:
        worst = max(short, key=_missing_ratio)
        intended_fps = worst.result.intended_fps * worst.directions
        found.append(
            LoadShort(
                short_loads=len(short),
                loads=len(asked),
                offered_fps=worst.offered_fps,
                intended_fps=intended_fps,
                causes=worst.result.perturbations or (SenderAtItsLimit(),),
            )
        )
    held = [record for record in asked if record.result.held_ns > TAIL_RATIO * record.result.duration_ns]
    if held:
        worst = max(held, key=lambda one: one.result.held_ns / one.result.duration_ns)
        found.append(
            LatencyDisturbed(
                held_ns=worst.result.held_ns,
                duration_ns=worst.result.duration_ns,
                held_loads=len(held),
                loads=len(asked),
            )
        )
    return tuple(found)


def _missing_ratio(record: LoadRecord) -> float:
    """Return which part of the load that was asked for was not offered; a frame of each direction may be due later."""
    result = record.result
    asked_frames = result.intended_fps * record.directions * result.duration_ns / NS_PER_S
    return max(0.0, asked_frames - result.offered_frames - record.directions) / max(1.0, asked_frames)


def _of_others(records: Sequence[LoadRecord]) -> Iterable[Warning]:
    """Yield what devices and other traffic did to frames, beside losing them."""
    damaged = [drop.frames for record in records for drop in _drops(record) if drop.reason == DAMAGED]
    if damaged:
        yield DamagedFrames(frames=sum(damaged))
    foreign = sum(record.foreign_frames for record in records)
    offered = sum(record.result.offered_frames for record in records)
    if foreign > max(FEW_FOREIGN * len(records), FOREIGN_RATIO * offered):
        yield OtherTraffic(foreign_frames=foreign, offered_frames=offered)
    past = {(one.place, one.kind) for record in records for one in bypassed(record.shapers)}
    if past:
        shapers = tuple(PassedShaper(shaper=kind, place=place) for place, kind in sorted(past))
        yield ShapeBypassed(shapers=shapers)


def _drops(record: LoadRecord) -> Iterable[Drop]:
    return (drop for balance in record.balances for drop in balance.drops)


def raw_samples(
    bench: LoadBench,
    records: Sequence[LoadRecord],
    *,
    search: Json = None,
    rate_fps: float | None = None,
) -> Json:
    """Return everything for the samples folder."""
    placement, chosen = bench.site.placement, choice_of(bench.site, bench.measure)
    assert placement is not None
    return {
        "schema": RAW_SCHEMA,
        "kind": bench.measure.kind,
        "directions": [way.name for way in bench.directions],
        "sizes": [{"frame_bytes": size, "weight": weight} for size, weight in sizes_of(bench.measure)],
        "placement": {
            "generator_cpus": [cpu for port in placement.senders for cpu in placement.sending(port)],
            "receiver_cpus": list(placement.receivers.values()),
            "threads": [
                {"name": thread.name, "pid": thread.pid, "place": ref, "cpu": thread.cpu}
                for ref, thread in bench.site.threads.items()
            ],
            "shared": [one.model_dump(mode="json") for one in _shared(bench)],
        },
        "ports": [
            {
                "port": port.name,
                "half": half,
                "path": used.name,
                "fallbacks": _plain([PathFallback(said=said) for said in used.fallbacks]),
                "chosen": _plain(chosen.reasons) if chosen is not None and half == "send" else [],
            }
            for port in bench.ports
            for half, used in (("send", port.send), ("receive", port.receive))
            if used is not None
        ],
        "path_choice": {**asdict(chosen), "reasons": _plain(chosen.reasons)} if chosen is not None else None,
        "search": search,
        "rate_fps": rate_fps,
        "load_trials": [
            {**_raw(record), "traffic": answer} for record, answer in zip(records, bench.answers, strict=True)
        ],
    }


def mean_loss(records: Sequence[LoadRecord]) -> float | None:
    """Return lost / offered over records."""
    offered = sum(record.result.offered_frames for record in records)
    return sum(record.result.lost_frames for record in records) / offered if offered else None


def _raw(record: LoadRecord) -> Json:
    result = record.result
    return {
        "purpose": record.purpose,
        "share_ratio": record.share_ratio,
        "begin_ns": record.begin_ns,
        "duration_ns": result.duration_ns,
        "overhead_ns": result.overhead_ns,
        "intended_fps": result.intended_fps * record.directions,
        "offered_fps": record.offered_fps,
        "forwarded_fps": record.forwarded_fps,
        "intended_frames": result.intended_frames,
        "offered_frames": result.offered_frames,
        "unsent_frames": result.unsent_frames,
        "forwarded_frames": result.forwarded_frames,
        "lost_frames": result.lost_frames,
        "loss_ratio": result.loss_ratio,
        "excused_frames": result.excused_frames,
        "late_frames": result.late_frames,
        "steady": None if result.steady is None else asdict(result.steady),
        "sustained_loss_ratio": result.sustained_loss_ratio,
        "perturbations": _plain(result.perturbations),
        "verdict": to_jsonable_python(record.verdict),
        "shapers": [_shaper(shaper, result.duration_ns) for shaper in record.shapers],
        "foreign_frames": record.foreign_frames,
        "balance": [to_jsonable_python(balance) for balance in record.balances],
        "drop_reasons": dict(record.drop_reasons),
        "latency_ns": None if record.latency is None else asdict(record.latency),
        "reorder_density": [list(pair) for pair in record.density],
        "cpus": [asdict(cpu) for cpu in record.cpus],
        "threads": [asdict(thread) for thread in record.threads],
    }


def _shaper(shaper: Shaper, duration_ns: int) -> Json:
    return {
        **asdict(shaper),
        "rates_bps": list(shaper.rates_bps),
        "passed_bps": shaper.passed_bps(duration_ns),
    }


def _plain(statements: Sequence[Statement]) -> list[Json]:
    return [one.model_dump(mode="json") for one in statements]


def _ratio(values: Sequence[float]) -> Metric:
    return Metric(fmean(values), "ratio")


def _shared(bench: LoadBench) -> tuple[Sharing, ...]:
    """Return what shares a CPU, or may.

    A card with a cable needs none: its interrupts say on which CPUs frames are taken in.
    """
    placement, threads = bench.site.placement, bench.site.threads
    assert placement is not None
    cards = {end for link in bench.site.lab.links.values() if link.cable for end in link.ends}
    loose = [ref for ref in placement.napi if ref not in threads and ref not in cards]
    free = [ref for ref, thread in threads.items() if thread.cpu is None]
    found: list[Sharing] = [*placement.shared()]
    if loose:
        found.append(NoThreadOfItsOwn(ports=tuple(loose)))
    if free:
        found.append(ThreadsUnplaced(ports=tuple(free)))
    return tuple(found)


def _port_paths(bench: LoadBench) -> Iterable[SlowPort]:
    """Yield by which path each port is reached, and why by no better one."""
    for port in bench.ports:
        for used in (port.send, port.receive):
            if used is not None:
                reasons = tuple(PathFallback(said=said) for said in used.fallbacks)
                yield SlowPort(port=port.name, path=used.name, reasons=reasons)


def directions_text(directions: Sequence[Way]) -> str:
    """Return the directions for messages."""
    return " and ".join(way.name for way in directions)
