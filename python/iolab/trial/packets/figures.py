"""Compute the metrics and raw samples of packet trials from load records. Pure; docs/method/forwarding.md defines
them."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from iolab.lab.packets.frames import sent_of, sizes_of
from iolab.messages.instrument import PathFallback, PortsUnplaced, Sharing
from iolab.messages.warnings import (
    CpuShared,
    DamagedFrames,
    FramesLeftOut,
    HostPerturbed,
    LatencyDisturbed,
    LoadShort,
    OtherTraffic,
    PassedShaper,
    RecordingEnded,
    SenderAtItsLimit,
    SenderKeptCpu,
    ShapeBypassed,
    SlowerPath,
    SlowPort,
    TimesWentBack,
    TrialWarning,
    UnexplainedFrames,
    Unstamped,
)
from iolab.results.metric import Dimensions, Metric, Metrics
from iolab.results.packets import (
    Drop,
    FrameSize,
    LoadRecord,
    NapiThread,
    PacketTrial,
    Placed,
    PortUse,
    SearchRecord,
)
from iolab.results.verdict import GUEST, KERNEL, Limit, Thread
from iolab.trial.counters.drops import DAMAGED
from iolab.trial.counters.shapers import bypassed
from iolab.trial.measurement import Measured
from iolab.trial.packets.load import LoadBench
from iolab.trial.packets.paths import choice_of
from iolab.trial.packets.stalls import kept_waiting
from iolab.units import NS_PER_S

FEW_FOREIGN, FOREIGN_RATIO = 20, 1e-3
"""Normal amount of other traffic (neighbour discovery, spanning tree): frames per load trial, and ratio to the trial's
frames."""

SHORT_RATIO = 0.01
"""Maximum share of unsent frames at which the offered load still counts as the requested load."""
TAIL_RATIO = 0.01
"""If the instrument's threads are stalled for more than this share of the time, the stalls may determine p99
latency."""


def percent(share: float) -> str:
    """Return a share as a percentage for metric names, e.g. 50 %."""
    return f"{share * 100:.6g} %"


def latency_metrics(records: Sequence[LoadRecord], load_ratio: float | None = None) -> list[Metric]:
    """Return the latency percentiles of one load; `load_ratio` is set if the trial has several loads."""
    shown = [record.latency for record in records if record.latency is not None]
    if not shown:
        return []
    one = shown[-1]
    values = {"p50": one.p50, "p99": one.p99, "p999": one.p999, "max": one.max}
    about = Dimensions(load_ratio=load_ratio)
    return [Metric.of(f"latency_{name}_ns", float(value), about) for name, value in values.items()]


def use_metrics(records: Sequence[LoadRecord], load_ratio: float | None = None) -> list[Metric]:
    """Return the CPU use of CPUs and threads, averaged over records."""
    busy: dict[Dimensions, list[float]] = {}
    threads: dict[Dimensions, list[float]] = {}
    for record in records:
        for cpu in record.cpus:
            about = Dimensions(load_ratio=load_ratio, machine=cpu.kernel or None, cpu=cpu.cpu)
            busy.setdefault(about, []).append(cpu.busy_ratio)
        for thread in record.threads:
            threads.setdefault(_about(thread, load_ratio), []).append(thread.busy_ratio)
    steal = [cpu.steal_ratio for record in records for cpu in record.cpus]
    whole = Dimensions(load_ratio=load_ratio)
    return [
        *(Metric.of("thread_cpu_ratio", fmean(values), about) for about, values in threads.items()),
        *(Metric.of("cpu_busy_ratio", fmean(values), about) for about, values in busy.items()),
        *(
            Metric.of(name, fmean(values), whole)
            for name, values in (
                ("host_cpu_ratio", [one for own in busy.values() for one in own]),
                ("host_steal_ratio", steal),
            )
            if values
        ),
    ]


def _about(thread: Thread, load_ratio: float | None) -> Dimensions:
    """Return the dimensions of a thread's metric: its port, or its name for threads of guests and of the kernel."""
    named = thread.role in (GUEST, KERNEL)
    return Dimensions(
        load_ratio=load_ratio,
        machine=(thread.place if thread.role == GUEST else thread.kernel) or None,
        port=None if named else thread.place,
        role=thread.role,
        thread=thread.name if named else None,
    )


def balance_metrics(records: Sequence[LoadRecord]) -> tuple[Metric, ...]:
    """Return metrics of the number of unexplained frames, and of the share of load trials without unexplained
    frames."""
    unexplained = sum(record.unexplained_frames for record in records)
    balanced = sum(record.unexplained_frames == 0 for record in records)
    return (
        Metric.of("unexplained_frames", float(unexplained)),
        Metric.of("balanced_ratio", balanced / len(records)),
    )


def common_warnings(bench: LoadBench, records: Sequence[LoadRecord]) -> tuple[TrialWarning, ...]:
    """Return the warnings about the instrument that apply to every packet measure."""
    found: list[TrialWarning] = []
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
    replay = bench.measure.replay
    return (
        *found,
        *(fallen_short(records) if replay is None or not replay.loops else ()),
        *_of_recording(bench, records),
    )


def _of_recording(bench: LoadBench, records: Sequence[LoadRecord]) -> Iterable[TrialWarning]:
    """Yield warnings about frames of a recording that were not sent as recorded."""
    replay = bench.measure.replay
    if replay is None:
        return
    recorded, sent = len(replay.recording.frames), sent_of(bench.measure)
    if sent.skipped:
        yield FramesLeftOut(left_out_frames=sent.skipped, recorded_frames=recorded)
    if replay.recording.back_frames and replay.timing == "recorded":
        yield TimesWentBack(back_frames=replay.recording.back_frames, recorded_frames=recorded)
    all_frames = replay.loops * sent.frames * len(bench.directions)
    if replay.loops and any(record.result.intended_frames >= all_frames for record in records):
        yield RecordingEnded(sent_frames=all_frames, loops=replay.loops)


def fallen_short(records: Sequence[LoadRecord]) -> tuple[TrialWarning, ...]:
    """Return warnings about loads that were requested but not offered, and about latency caused by the instrument.

    Loads of a search are excluded: a search requests loads above the maximum and judges each.
    """
    asked = [record for record in records if record.purpose != "search"]
    found: list[TrialWarning] = []
    short = [record for record in asked if _missing_ratio(record) > SHORT_RATIO]
    if short:
        worst = max(short, key=_missing_ratio)
        found.append(
            LoadShort(
                short_loads=len(short),
                loads=len(asked),
                offered_fps=worst.offered_fps,
                intended_fps=worst.intended_fps,
                causes=worst.result.perturbations or (SenderAtItsLimit(),),
            )
        )
    held_ns = [record.result.held_ns or 0 for record in asked]
    durations_ns = [record.result.duration_ns for record in asked]
    held = [at for at, ns in enumerate(held_ns) if ns > TAIL_RATIO * durations_ns[at]]
    if held:
        longest = max(held, key=lambda at: held_ns[at] / durations_ns[at])
        found.append(
            LatencyDisturbed(
                held_ns=held_ns[longest],
                duration_ns=durations_ns[longest],
                held_loads=len(held),
                loads=len(asked),
            )
        )
    return (*found, *_kept_waiting(asked))


def _kept_waiting(asked: Sequence[LoadRecord]) -> Iterable[TrialWarning]:
    """Yield a warning about programs that waited for a sender's CPU, for the load with the longest latency tail."""
    kept = [(one.latency.p99, seen) for one in asked if one.latency and (seen := kept_waiting(one))]
    if kept:
        p99_ns, worst = max(kept, key=lambda one: one[0])
        yield SenderKeptCpu(
            port=worst.sender.place,
            cpu=worst.cpu,
            busy_ratio=worst.sender.busy_ratio,
            others_ratio=worst.others_ratio,
            p99_ns=p99_ns,
            kept_loads=len(kept),
            loads=len(asked),
        )


def _missing_ratio(record: LoadRecord) -> float:
    """Return the share of the requested load that was not offered; one frame per direction may be due after the end of
    the trial."""
    result = record.result
    asked_frames = record.intended_fps * result.duration_ns / NS_PER_S
    return max(0.0, asked_frames - result.offered_frames - record.directions) / max(1.0, asked_frames)


def _of_others(records: Sequence[LoadRecord]) -> Iterable[TrialWarning]:
    """Yield warnings about damaged frames, other traffic, unstamped frames and bypassed shapers."""
    damaged = [drop.frames for record in records for drop in _drops(record) if drop.reason == DAMAGED]
    if damaged:
        yield DamagedFrames(frames=sum(damaged))
    foreign = sum(record.foreign_frames or 0 for record in records)
    offered = sum(record.result.offered_frames for record in records)
    if foreign > max(FEW_FOREIGN * len(records), FOREIGN_RATIO * offered):
        yield OtherTraffic(foreign_frames=foreign, offered_frames=offered)
    unstamped = sum(record.unstamped_frames for record in records)
    if unstamped:
        yield Unstamped(unstamped_frames=unstamped, offered_frames=offered)
    past = {(one.place, one.kind) for record in records for one in bypassed(record.shapers)}
    if past:
        shapers = tuple(PassedShaper(shaper=kind, place=place) for place, kind in sorted(past))
        yield ShapeBypassed(shapers=shapers)


def _drops(record: LoadRecord) -> Iterable[Drop]:
    return (drop for balance in record.balances for drop in balance.drops)


def measured(
    bench: LoadBench,
    records: Sequence[LoadRecord],
    metrics: Iterable[Metric],
    warnings: Iterable[TrialWarning],
    *,
    search: SearchRecord | None = None,
    rate_fps: float | None = None,
) -> Measured:
    """Return the result of a trial with all stored data; `rate_fps` is the rate per direction."""
    return Measured(
        metrics=Metrics(metrics),
        warnings=(*warnings, *common_warnings(bench, records)),
        measured_ns=sum(record.result.duration_ns for record in records),
        commands=(),
        raw={"load_trials": bench.answers},
        packets=packet_trial(bench, records, search=search, rate_fps=rate_fps),
    )


def packet_trial(
    bench: LoadBench,
    records: Sequence[LoadRecord],
    *,
    search: SearchRecord | None = None,
    rate_fps: float | None = None,
) -> PacketTrial:
    """Return the stored data of a packet trial; `rate_fps` is the rate per direction."""
    placement = bench.site.placement
    assert placement is not None
    return PacketTrial(
        directions=tuple(way.name for way in bench.directions),
        sizes=tuple(FrameSize(size, weight) for size, weight in sizes_of(bench.measure)),
        placed=Placed(
            generator_cpus=tuple(cpu for port in placement.senders for cpu in placement.sending(port)),
            receiver_cpus=tuple(placement.receivers.values()),
            threads=tuple(
                NapiThread(thread.name, thread.pid, ref, thread.cpu)
                for ref, thread in bench.site.threads.items()
            ),
            shared=_shared(bench),
        ),
        ports=tuple(
            PortUse(port.name, half, used.name, tuple(PathFallback(said=said) for said in used.fallbacks))
            for port in bench.ports
            for half, used in (("send", port.send), ("receive", port.receive))
            if used is not None
        ),
        path_choice=choice_of(bench.site, bench.measure),
        search=search,
        rate_fps=None if rate_fps is None else bench.over_all(rate_fps),
        load_trials=tuple(records),
    )


def mean_loss(records: Sequence[LoadRecord]) -> float | None:
    """Return lost / offered frames over all records."""
    offered = sum(record.result.offered_frames for record in records)
    return sum(record.result.lost_frames for record in records) / offered if offered else None


def _shared(bench: LoadBench) -> tuple[Sharing, ...]:
    """Return the cases in which parts of the instrument share a CPU, or may share one.

    NICs with a cable are not listed as unplaced: their interrupts determine the CPUs that receive frames.
    """
    placement, threads = bench.site.placement, bench.site.threads
    assert placement is not None
    cards = {end for link in bench.site.lab.links.values() if link.cable for end in link.ends}
    loose = [ref for ref in placement.napi if ref not in threads and ref not in cards]
    free = [ref for ref, thread in threads.items() if thread.cpu is None]
    found: list[Sharing] = [*placement.shared()]
    if loose:
        found.append(PortsUnplaced(code="no-thread-of-its-own", ports=tuple(loose)))
    if free:
        found.append(PortsUnplaced(code="threads-unplaced", ports=tuple(free)))
    return tuple(found)


def _port_paths(bench: LoadBench) -> Iterable[SlowPort]:
    """Yield the path of each port, and the reasons why no faster path is used."""
    for port in bench.ports:
        for used in (port.send, port.receive):
            if used is not None:
                reasons = tuple(PathFallback(said=said) for said in used.fallbacks)
                yield SlowPort(port=port.name, path=used.name, reasons=reasons)
