"""Examine the block devices that a run uses, before anything is built: their identity, and whether they may be
written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from iolab.agent.client import Agent
from iolab.errors import AgentError, UnsupportedError
from iolab.experiment.experiment import Experiment
from iolab.frozen import frozen
from iolab.lab.volumes.devices import ExaminedDevice, Obstacle, refusal
from iolab.lab.volumes.places import holder_of
from iolab.locale import Phrase, Text
from iolab.plan.commands import Labs
from iolab.plan.types import Plan, Step
from iolab.run.agents import Agents
from iolab.trial.disk.own import Device, parse_own
from iolab.trial.disk.ran import own_program, run_to_end
from iolab.trial.disk.section_runs import written_bytes

Place = tuple[str, str]
"""Kernel and path of a device."""
Leases = Mapping[str, Sequence[str]]
"""Resources that a lab leases on each kernel."""


@frozen
class DeviceUse:
    """A measure's use of an existing device or target."""

    kernel: str
    """Kernel of the device; empty for a target."""
    path: str
    """Path of the device, or identity of the target without its serial number."""
    volume: str
    """Name of the volume."""
    measure: str
    """Name of the measure."""
    writes_bytes: int
    """Size of the part at the start of the device that may be written [bytes]; 0: the device is only read."""


def used_devices(labs: Labs, steps: Sequence[Step]) -> tuple[DeviceUse, ...]:
    """Return the uses of existing devices in steps of a plan, each use once."""
    found: dict[DeviceUse, None] = {}
    for step in steps:
        setup = labs.setup(step)
        for name, volume in setup.lab.volumes.items():
            size = written_bytes(setup, step.measure, name)
            if volume.device is not None and size is not None:
                kernel = holder_of(setup.lab, volume)
                found[DeviceUse(kernel, volume.device, name, step.measure, size)] = None
    return tuple(found)


def examined(experiment: Experiment, plan: Plan, agents: Agents, leases: Leases) -> tuple[Experiment, Leases]:
    """Return the experiment with the identity of each device, and the leases with each device's disks.

    Devices of guests are examined when the guest runs; the guest's agent refuses a use that is not permitted.

    Raises:
        UnsupportedError: a device cannot be examined, or may not be written; the error states every reason.
    """
    wanted: dict[Place, bool] = {}
    for use in used_devices(Labs(experiment, plan), plan.steps):
        if use.kernel in agents:
            place = (use.kernel, use.path)
            wanted[place] = wanted.get(place, False) or bool(use.writes_bytes)
    if not wanted:
        return experiment, leases
    refusals: list[Text] = []
    known: set[tuple[str, str, str]] = set()
    more: dict[str, set[str]] = {}
    for (kernel, path), written in wanted.items():
        try:
            seen = examine(agents.of(kernel), path)
        except AgentError as error:
            refusals.append(Phrase("run.device-not-examined", device=path, reason=error))
            continue
        refused = refusal(seen, experiment.consents) if written else None
        refusals += [refused] if refused is not None else []
        known |= {(kernel, path, one) for one in seen.identities[:1]}
        more.setdefault(kernel, set()).update(f"disk:{disk}" for disk in seen.disks)
    if refusals:
        raise UnsupportedError(Phrase("errors.several-clauses", clauses=refusals))
    consents = replace(experiment.consents, known=frozenset(known))
    joined = {kernel: sorted({*leases.get(kernel, ()), *disks}) for kernel, disks in more.items()}
    return replace(experiment, consents=consents), {**leases, **joined}


def examine(agent: Agent, path: str) -> ExaminedDevice:
    """Return a block device of a host.

    Raises:
        AgentError: the path is no block device, or cannot be opened.
    """
    (found,) = _asked(agent, {"program": "examine", "device": path})
    return found


def all_devices(agent: Agent) -> tuple[ExaminedDevice, ...]:
    """Return all block devices of a host. Raises AgentError."""
    return tuple(_asked(agent, {"program": "disks"}))


def _asked(agent: Agent, request: Mapping[str, str]) -> Iterator[ExaminedDevice]:
    done = run_to_end(agent, (own_program(agent), "disk"), json.dumps(request))
    if not done.succeeded:
        raise AgentError(done.complaint)
    try:
        devices = parse_own(done.stdout).devices
    except ValueError as error:
        raise AgentError(str(error)) from error
    yield from map(_device, devices)


def _device(seen: Device) -> ExaminedDevice:
    obstacles = tuple(Obstacle(one.kind, one.name, one.part) for one in seen.obstacles)
    return ExaminedDevice(seen.path, seen.identities, seen.disks, seen.bytes, obstacles)
