"""Run a disk program on a standing lab, once, with every cache on the way looked at before and after."""

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
"""Whether a wall is there, as it is shown."""
FLUSHES = 3
"""A journal commits every five seconds: it does not come between each of three flushes and the look."""


@dataclass(frozen=True, slots=True)
class Reached:
    """What was counted by a moment."""

    layers: Mapping[LayerName, Counted]
    """On the way of the disk's bytes."""
    threads: tuple[Worker, ...]
    """In user space there."""
    work: Mapping[str, Work]
    """Of the computers."""
    below: Below | None
    """By the disk on which the volume lies; None: nobody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskRead:
    """What a trial read."""

    lab: Lab
    """As resolved for the cell."""
    topology: Topology
    """Of the lab."""
    measure: DiskMeasure
    """What was asked for."""
    disk: Disk
    """On which the program worked."""
    ran: Ran
    """The program."""
    began: Reached
    """Counted before it."""
    ended: Reached
    """Counted after it."""
    device: Residency | None
    """What the cache had of the device before a program that reads it; None: it was not looked at."""
    caches: tuple[Looked, ...]
    """Those behind the program's own."""
    offer: str | None
    """What the target of the disk offers; None: the disk is no LUN."""
    session: Mapping[str, str]
    """What the initiator's session agreed on."""
    in_effect: InEffect
    """Settings that were read back."""


def measure_disk(site: Site, measure: DiskMeasure, patience: Patience = PATIENCE) -> DiskRead:
    """Measure once.

    Raises:
        LabUnusable: the disk failed, and what is known of why is stated.
        TrialFailed: the program failed, or its output is not to be understood.
        AgentLost: the agent is gone.
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
    """Conclude from a program's figures, the layers and caches below it, and the counters read meanwhile."""
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
    # what no cause explains: of each run of a job file by itself, where it has several
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
    """Return the program's rates, on the time of the counters of its kernel; none where nothing was counted."""
    own = readings.get(kernel_of(read.lab, read.measure.on)) or readings.get(HERE)
    return read.ran.series(begin_of(own)) if read.ran.series is not None and own else ()


def _reached(site: Site, machine: str, disk: Disk) -> Reached:
    layers, threads = look(site, machine, disk), workers(site, machine, disk)
    return Reached(layers, threads, work_done(site), look_below(site, disk))


def flushed(flush: Callable[[], None], look: Callable[[], list[Residency | None]]) -> list[Residency | None]:
    """Flush and return what the layers have then: of FLUSHES tries the first that left nothing unwritten, or the last.

    A file system may write of its own between a flush and the look, so that once is not enough to call a layer a liar.
    """
    for _ in range(FLUSHES):
        flush()
        after = look()
        if not any(seen is not None and seen.dirty_bytes for seen in after):
            break
    return after


def _flush(site: Site, machine: str, disk: Disk, patience: Patience) -> None:
    """Ask the disk to keep what was written to it; what its layers have not written then, a crash would lose."""
    whole = ("sync", "-f", mount_of(disk.volume, site.topology.prefix))
    command = whole if disk.fs is not None else ("sync", node_of(disk.volume, site.topology.prefix))
    agent = site.agent_of(kernel_of(site.lab, machine))
    done = run_on_disk(
        agent, worked_on(site, machine, disk), (*IN_ENGLISH, *command), patience=patience, reaches=None
    )
    if not done.succeeded:
        raise TrialFailed(
            Phrase("trial.disk-not-flushed", volume=disk.volume, machine=machine, reason=done.complaint)
        )


def _in_effect(site: Site, machine: str, walls: Walls | None) -> InEffect:
    """Return what is set on the lab's kernels, and what the program on `machine` is limited by."""
    found = dict(read_in_effect(site))
    if walls is not None:
        found[machine] = {**found.get(machine, {}), **walls_in_effect(walls)}
    return found


def walls_in_effect(walls: Walls) -> dict[str, str]:
    """Return the walls around a program as settings."""
    return {
        Effect.PROGRAM_USER.value: str(walls.user or 0),
        Effect.LANDLOCK.value: ABSENT if walls.landlock_abi is None else str(walls.landlock_abi),
        Effect.SECCOMP.value: PRESENT if walls.seccomp else ABSENT,
    }


def less_confined(measure: DiskMeasure, walls: Walls | None) -> tuple[LessConfined, ...]:
    """Return a warning where the kernel has no Landlock or no seccomp for a confined program."""
    if walls is None:
        return ()
    granted = {"Landlock": walls.landlock_abi is not None, "seccomp": walls.seccomp}
    lacking = tuple(name for name, there in granted.items() if not there)
    return (LessConfined(program=measure.program, machine=measure.on, lacking=lacking),) if lacking else ()


def _runner(measure: DiskMeasure) -> Runner:
    runner: Runner = resolve_name(row_of(measure).runner)
    return runner


def _look(site: Site, disk: WorkedOn, patience: Patience, layer: Layer, *, drop: bool) -> Residency | None:
    """Look what a cache has, dropped first or not; None: nobody could."""
    agent = site.agent_of(layer.kernel)
    asked, argv = (
        json.dumps({"program": "cool", "path": layer.path, "drop": drop}),
        (own_program(agent), "disk"),
    )
    try:
        if layer.about.code in ("store-cache", "target-cache"):
            done = run_to_end(agent, argv, asked)
        else:  # to open it is to ask the disk, which may hang
            done = run_on_disk(agent, disk, argv, asked, patience, reaches=None, writes=False)
        return parse_own(done.stdout).cache if done.succeeded else None
    except (Refused, ValueError):
        return None
