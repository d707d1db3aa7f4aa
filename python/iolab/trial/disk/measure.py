"""Run a disk program on a standing lab, once."""

import json

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import CommandResult, Json
from iolab.errors import AgentError
from iolab.experiment.machines import Disk
from iolab.experiment.measures import DiskMeasure
from iolab.lab.kernels import kernel_of
from iolab.lab.topology import NAME_PREFIX
from iolab.lab.volumes.exports import offer_command
from iolab.lab.volumes.places import holder_of, mount_of, node_of
from iolab.record.trial import CommandRecord
from iolab.statements.caches import ProgramCache
from iolab.trial.disk.caches import (
    Layer,
    Looked,
    device_of,
    evidence,
    layers_of,
    program_proved,
    unknown,
)
from iolab.trial.disk.figures import DiskFigure, metrics_of
from iolab.trial.disk.own import DEFAULT_BYTES, Residency, own_figures, parse_own, request_of
from iolab.trial.disk.packaged import argv_of, parse_bonnie, parse_hdparm
from iolab.trial.measured import Measured, TrialFailed
from iolab.trial.site import Site

PATIENCE_MS = 1_800_000
"""Beyond half an hour a program is called stuck."""
SLACK_S = 30.0
"""Of the answer, beyond that."""
CAPTURE_BYTES = 4 << 20


def measure_disk(site: Site, measure: DiskMeasure) -> Measured:
    """Measure once.

    Raises:
        TrialFailed: the program failed, or its output is not to be understood.
        AgentLost: the agent is gone.
    """
    disk = site.lab.machines[measure.on].disks[0]
    if site.lab.machines[measure.on].kind == "vm":
        raise TrialFailed(f"{measure.program}: disks of guests are not measured in this version of iolab")
    if measure.program != "hdparm" and disk.fs is None:
        raise TrialFailed(
            f"{measure.program} writes files: give disk {disk.volume} an fs: ext4, xfs or btrfs"
        )
    kernel = kernel_of(site.lab, measure.on)
    agent = site.agent_of(kernel)
    node, folder = node_of(disk.volume, NAME_PREFIX), mount_of(disk.volume, NAME_PREFIX)
    own = runs_own(measure)
    size = measure.size or DEFAULT_BYTES
    request = json.dumps(request_of(measure, node, folder)) if own else ""
    argv = (own_program(agent), "disk") if own else argv_of(measure, node, folder, size)
    layers = layers_of(site.lab, measure.on, disk)
    try:
        device = None
        if measure.program == "hdparm":
            device = _look(site, device_of(site.lab, measure.on, disk), drop=True)
        before = [_look(site, layer, drop=True) for layer in layers]
        done = _run(agent, argv, request)
        after = [_look(site, layer, drop=False) for layer in layers]
        offer = _offer(site, disk)
    except Refused as error:
        raise TrialFailed(str(error)) from error
    if not done.succeeded:
        raise TrialFailed(f"{measure.program}: {done.complaint}")
    figures = _figures(measure, done.stdout, size, own=own)
    looked = [Looked(*one) for one in zip(layers, before, after, strict=True)]
    proved = program_proved(measure, parse_own(done.stdout) if own else None, device)
    took = done.end_ns - done.begin_ns
    record = CommandRecord(
        machine=measure.on,
        kernel=kernel,
        netns=None,
        argv=argv,
        undo=None,
        exit_status=done.exit_status,
        duration_ns=took,
    )
    said: dict[str, Json] = {
        "request": request,
        "output": done.stdout,
        "messages": done.stderr,
        "iscsi_offer": offer,
    }
    raw: Json = {**said, **evidence(measure, proved, device, looked)}
    warnings = unknown(ProgramCache(machine=measure.on), proved, looked)
    return Measured(metrics_of(figures), warnings, sum(one.duration_ns for one in figures), (record,), raw)


def runs_own(measure: DiskMeasure) -> bool:
    """Tell whether the agent's own program measures: thput-fsys always, the others where a profile asks for it."""
    return measure.program == "thput-fsys" or measure.profile is not None


def own_program(agent: Agent) -> str:
    """Return the agent's own program, as its programs find it."""
    return f"/proc/{agent.hello.pid}/exe"


def _look(site: Site, layer: Layer, *, drop: bool) -> Residency | None:
    """Look what a cache has, dropped first or not; None: nobody could."""
    agent = site.agent_of(layer.kernel)
    asked = json.dumps({"program": "cool", "path": layer.path, "drop": drop})
    try:
        done = _run(agent, (own_program(agent), "disk"), asked)
        return parse_own(done.stdout).cache if done.succeeded else None
    except (Refused, ValueError):
        return None


def _run(agent: Agent, argv: tuple[str, ...], request: str) -> CommandResult:
    asked: dict[str, Json] = {
        "argv": list(argv),
        "stdin": request,
        "timeout_ms": PATIENCE_MS,
        "capture_bytes": CAPTURE_BYTES,
    }
    return agent.ask(CommandResult, "command.run", asked, PATIENCE_MS / 1000 + SLACK_S)


def _figures(measure: DiskMeasure, text: str, size: int, *, own: bool) -> tuple[DiskFigure, ...]:
    try:
        if own:
            return own_figures(parse_own(text))
        return parse_hdparm(text) if measure.program == "hdparm" else parse_bonnie(text, size)
    except ValueError as error:
        raise TrialFailed(str(error)) from error


def _offer(site: Site, disk: Disk) -> str | None:
    """Return who is logged in to the target of the disk, and what it offers; None: the disk is no LUN."""
    volume = site.lab.volumes[disk.volume]
    if volume.export != "iscsi":
        return None
    try:
        shown = site.agent_of(holder_of(site.lab, volume)).run(offer_command(disk.volume, NAME_PREFIX))
    except AgentError as error:
        raise TrialFailed(f"reading what the target offers of {disk.volume}: {error}") from error
    if not shown.succeeded:
        raise TrialFailed(f"reading what the target offers of {disk.volume}: {shown.complaint}")
    return shown.stdout
