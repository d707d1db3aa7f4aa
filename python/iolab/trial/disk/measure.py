"""Run one trial of a disk program in a lab, and check all caches on the path before and after."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pkgutil import resolve_name

from iolab.agent.client import Refused
from iolab.agent.messages import Json, Walls
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.kernels import HERE, kernel_of
from iolab.lab.topology import Topology
from iolab.lab.volumes.places import mount_of, node_of
from iolab.locale import Phrase
from iolab.messages.disks import LessConfined, ProgramCache
from iolab.messages.warnings import TrialWarning
from iolab.results.metric import Metrics
from iolab.results.series import Series
from iolab.results.trial import Effect
from iolab.trial.disk.caches import Layer, Looked, device_of, evidence, layers_of, unflushed, unknown
from iolab.trial.disk.causes import IN_ENGLISH, cause_of
from iolab.trial.disk.disk_programs import row_of
from iolab.trial.disk.figures import metrics_of
from iolab.trial.disk.layers import (
    Below,
    agreed,
    line_of,
    look,
    look_below,
    offered,
    session_metrics,
    used_by_others,
)
from iolab.trial.disk.ledger import (
    Counted,
    LayerName,
    Row,
    Step,
    kept_by_door,
    layer_metrics,
    ledger_record,
    ledger_warnings,
    memory_warnings,
    rows_of,
    section_warnings,
    steps,
)
from iolab.trial.disk.own import Residency, parse_own
from iolab.trial.disk.ran import PATIENCE, Patience, Ran, Runner, own_program, run_to_end
from iolab.trial.disk.run_on_disk import WorkedOn, run_on_disk, worked_on
from iolab.trial.disk.verdict import judge
from iolab.trial.disk.workers import Worker, busiest, workers
from iolab.trial.in_effect import InEffect, read_in_effect
from iolab.trial.interference.disturbed import disturbed
from iolab.trial.interference.work import Work, work_done
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Failed, Measured, Readings, TrialFailed, begin_of

PRESENT, ABSENT = "on", "none"
"""Words that reports show for the state of a confinement feature."""
FLUSHES = 3
"""Maximum number of flushes: a journal commits only every five seconds, so at least one of three checks finds no new
dirty data."""


@dataclass(frozen=True, slots=True)
class Reached:
    """Values of all counters at one time."""

    layers: Mapping[LayerName, Counted]
    """Layers on the disk's path."""
    threads: tuple[Worker, ...]
    """User-space threads on the disk's path."""
    work: Mapping[str, Work]
    """CPU work of the hosts."""
    below: Below | None
    """Counters of the disk that holds the volume; None if the trial's own traffic on the disk cannot be determined."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRead:
    """Data read in a trial."""

    lab: Lab
    """Lab resolved for the cell."""
    topology: Topology
    """Topology of the lab."""
    measure: DiskMeasure
    """Measure."""
    disk: Disk
    """Disk on which the program works."""
    ran: Ran
    """Result of the program."""
    began: Reached
    """Counters before the program ran."""
    ended: Reached
    """Counters after the program ran."""
    device: Residency | None
    """Cache content of the device before the program, if the program reads the device; None: not checked."""
    caches: tuple[Looked, ...]
    """States of the other caches."""
    offer: str | None
    """Parameters of the disk's target; None: the disk is not a LUN."""
    session: Mapping[str, str]
    """Negotiated parameters of the initiator's session."""
    in_effect: InEffect
    """Settings that were read back."""


def measure_disk(site: Site, measure: DiskMeasure, patience: Patience = PATIENCE) -> DiskRead:
    """Run one disk trial.

    Raises:
        LabUnusable: the disk failed; the error states the cause, if it is known.
        TrialFailed: the program failed, or its output is invalid.
        AgentLost: the agent is lost.
    """
    disk = site.lab.machines[measure.on].disks[0]
    try:
        return _read(site, measure, disk, patience)
    except Failed:
        raise
    except TrialFailed as error:
        cause = cause_of(site, measure.on, disk, measure.program, str(error), patience.ask_ms)
        if cause is None:
            raise
        raise cause from error


def _read(site: Site, measure: DiskMeasure, disk: Disk, patience: Patience) -> DiskRead:
    layers = layers_of(site, measure.on, disk)
    runner = _runner(measure)
    look_at = partial(_look, site, worked_on(site, measure.on, disk), patience)
    try:
        with runner.ready(site, measure, disk, patience) as run:
            device = (
                look_at(device_of(site, measure.on, disk), drop=True)
                if runner.reads_device(measure)
                else None
            )
            before = [look_at(layer, drop=True) for layer in layers]
            began = _reached(site, measure.on, disk)
            ran = run(device)
            ended = _reached(site, measure.on, disk)
            after = flushed(
                lambda: _flush(site, measure.on, disk, patience),
                lambda: [look_at(layer, drop=False) for layer in layers],
            )
            offer, session = offered(site, disk), agreed(site, measure.on, disk)
    except Refused as error:
        raise TrialFailed(str(error)) from error
    return DiskRead(
        lab=site.lab, topology=site.topology, measure=measure, disk=disk, ran=ran, began=began, ended=ended,
        device=device, caches=tuple(Looked(*one) for one in zip(layers, before, after, strict=True)),
        offer=offer, session=session, in_effect=_in_effect(site, measure.on, ran.walls),
    )  # fmt: skip


def conclude_disk(read: DiskRead, readings: Readings) -> Measured:
    """Derive the result from a program's figures, the layers and caches below it, and the counters during the
    trial."""
    measure, disk, ran = read.measure, read.disk, read.ran
    took_ns = sum(one.duration_ns for one in ran.figures)
    rows = rows_of(ran.figures, read.began.layers, read.ended.layers)
    compared = steps(rows, _runner(measure).way(measure, disk))
    caches = [replace(one, kept=kept_by_door(compared)) if one.is_door else one for one in read.caches]
    busy = busiest(
        read.began.threads, read.ended.threads, took_ns, sum(one.duration_ns for one in ran.commands)
    )
    return Measured(
        metrics=_metrics(read, rows),
        warnings=(
            *_warnings(read, rows, compared, caches),
            *disturbed(read.began.work, read.ended.work, readings),
        ),
        measured_ns=took_ns,
        commands=(*ran.prepared, *ran.commands),
        raw=_raw(read, compared, caches),
        series=_series(read, readings),
        verdict=judge(
            measure, disk, ran.figures, busy, line_of(read.lab, read.topology, disk, rows, took_ns)
        ),
        in_effect=read.in_effect,
    )


def _metrics(read: DiskRead, rows: Sequence[Row]) -> Metrics:
    ran = read.ran
    asked = read.lab.volumes[read.disk.volume].params.written()
    return Metrics(
        (
            *metrics_of(ran.figures),
            *ran.metrics,
            *layer_metrics(rows),
            *(metric for one in ran.ledgers for metric in layer_metrics(one.rows, one.sections)),
            *session_metrics(read.session, asked),
        )
    )


def _warnings(
    read: DiskRead, rows: Sequence[Row], compared: Sequence[Step], caches: Sequence[Looked]
) -> Iterator[TrialWarning]:
    measure, ran = read.measure, read.ran
    yield from ran.warnings
    yield from less_confined(measure, ran.walls)
    yield from unknown(ProgramCache(machine=measure.on), ran.proved, caches)
    yield from unflushed(caches)
    # unexplained differences; for a job file with several runs, those of each run
    yield from section_warnings(ran.ledgers) if ran.ledgers else ledger_warnings(compared)
    yield from memory_warnings(measure.program, rows[0].counted.read_bytes, compared)
    yield from used_by_others(read.disk.volume, read.began.below, read.ended.below, rows[-1].counted)


def _raw(read: DiskRead, compared: Sequence[Step], caches: Sequence[Looked]) -> dict[str, Json]:
    ran = read.ran
    runs: list[Json] = [
        {"sections": list(one.sections), "layers": ledger_record(one.steps)} for one in ran.ledgers
    ]
    return {
        **ran.said, "iscsi_offer": read.offer, "iscsi_agreed": dict(read.session), "ledger": ledger_record(compared),
        **({"ledgers": runs} if runs else {}), **evidence(read.measure, ran.proved, read.device, caches),
    }  # fmt: skip


def _series(read: DiskRead, readings: Readings) -> tuple[Series, ...]:
    """Return the program's rates as series, on the clock of its kernel's counters; empty without counters."""
    own = readings.get(kernel_of(read.lab, read.measure.on)) or readings.get(HERE)
    return read.ran.series(begin_of(own)) if read.ran.series is not None and own else ()


def _reached(site: Site, machine: str, disk: Disk) -> Reached:
    layers, threads = look(site, machine, disk), workers(site, machine, disk)
    return Reached(layers, threads, work_done(site), look_below(site, disk))


def flushed(flush: Callable[[], None], look: Callable[[], list[Residency | None]]) -> list[Residency | None]:
    """Flush, and return the state of the layers after the first try without dirty data, or after the last of FLUSHES
    tries.

    A file system may write between a flush and the check, so a layer is not faulty because a single try finds dirty
    data.
    """
    for _ in range(FLUSHES):
        flush()
        after = look()
        if not any(seen is not None and seen.dirty_bytes for seen in after):
            break
    return after


def _flush(site: Site, machine: str, disk: Disk, patience: Patience) -> None:
    """Flush all data written to the disk; data that a layer has not written afterwards would be lost in a crash."""
    whole = ("sync", "-f", mount_of(disk.volume))
    command = whole if disk.fs is not None else ("sync", node_of(disk.volume))
    agent = site.agent_of(kernel_of(site.lab, machine))
    done = run_on_disk(
        agent, worked_on(site, machine, disk), (*IN_ENGLISH, *command), patience=patience, reaches=None
    )
    if not done.succeeded:
        raise TrialFailed(
            Phrase("trial.disk-not-flushed", volume=disk.volume, machine=machine, reason=done.complaint)
        )


def _in_effect(site: Site, machine: str, walls: Walls | None) -> InEffect:
    """Return the settings of the lab's kernels, and the confinement of the program on `machine`."""
    found = dict(read_in_effect(site))
    if walls is not None:
        found[machine] = {**found.get(machine, {}), **walls_in_effect(walls)}
    return found


def walls_in_effect(walls: Walls) -> dict[str, str]:
    """Return the confinement of a program as settings."""
    return {
        Effect.PROGRAM_USER.value: str(walls.user or 0),
        Effect.LANDLOCK.value: ABSENT if walls.landlock_abi is None else str(walls.landlock_abi),
        Effect.SECCOMP.value: PRESENT if walls.seccomp else ABSENT,
    }


def less_confined(measure: DiskMeasure, walls: Walls | None) -> tuple[LessConfined, ...]:
    """Return a warning if the kernel lacks Landlock or seccomp for a confined program."""
    if walls is None:
        return ()
    granted = {"Landlock": walls.landlock_abi is not None, "seccomp": walls.seccomp}
    lacking = tuple(name for name, there in granted.items() if not there)
    return (LessConfined(program=measure.program, machine=measure.on, lacking=lacking),) if lacking else ()


def _runner(measure: DiskMeasure) -> Runner:
    runner: Runner = resolve_name(row_of(measure).runner)
    return runner


def _look(site: Site, disk: WorkedOn, patience: Patience, layer: Layer, *, drop: bool) -> Residency | None:
    """Return the content of a cache, which is dropped first if requested; None if the content cannot be read."""
    if not layer.path:
        return None  # an existing target has its cache on a host without an agent
    agent = site.agent_of(layer.kernel)
    asked, argv = (
        json.dumps({"program": "cool", "path": layer.path, "drop": drop}),
        (own_program(agent), "disk"),
    )
    try:
        if layer.about.code in ("store-cache", "target-cache"):
            done = run_to_end(agent, argv, asked)
        else:  # opening the file accesses the disk, which may hang
            done = run_on_disk(agent, disk, argv, asked, patience, reaches=None, writes=False)
        return parse_own(done.stdout).cache if done.succeeded else None
    except (Refused, ValueError):
        return None
