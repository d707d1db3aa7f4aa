"""Run hdparm, thput-fsys or bonnie++ on a standing lab, once: the package's, or the agent's own by its definition."""

import json

from iolab.agent.client import Agent
from iolab.experiment.model.machines import Disk
from iolab.experiment.model.measures import DiskMeasure
from iolab.lab.kernels import kernel_of
from iolab.lab.topology import NAME_PREFIX
from iolab.lab.volumes.places import door_of, mount_of, node_of
from iolab.messages.disks import MemoryNotLimited, PhasesTooShort
from iolab.trial.disk.caches import program_proved
from iolab.trial.disk.disk_programs import row_of, runs_own, size_of
from iolab.trial.disk.figures import DiskFigure
from iolab.trial.disk.memory_limit import limited, memory_of
from iolab.trial.disk.own import Residency, own_figures, parse_own, request_of
from iolab.trial.disk.packaged import PACKAGED
from iolab.trial.disk.ran import Ran, recorded
from iolab.trial.disk.run_on_disk import Patience, Reaches, run_on_disk, worked_on
from iolab.trial.lab_access import Site
from iolab.trial.measurement import TrialFailed


def run_program(
    site: Site, measure: DiskMeasure, disk: Disk, device: Residency | None, patience: Patience
) -> Ran:
    """Run it; `device` is what the cache had of the disk just before.

    Raises:
        TrialFailed: it failed, or its output is not to be understood.
        AgentError: the agent refused it, or is gone.
    """
    kernel = kernel_of(site.lab, measure.on)
    agent = site.agent_of(kernel)
    node, folder = node_of(disk.volume, NAME_PREFIX), mount_of(disk.volume, NAME_PREFIX)
    behind = (door_of(disk.volume, NAME_PREFIX),) if disk.via == "user" else ()
    own, on_device = runs_own(measure), row_of(measure).reads_device
    request = json.dumps(request_of(measure, node, folder, behind)) if own else ""
    argv = (own_program(agent), "disk") if own else PACKAGED[measure.program].argv(measure, node, folder)
    memory = memory_of(measure)
    with limited(agent, memory) as cgroup:
        reaches = Reaches(
            devices=(node,) if on_device else (),
            folders=() if on_device else (folder,),
            files=behind,
            cgroup=cgroup or None,
        )
        done = run_on_disk(agent, worked_on(site, measure.on, disk), argv, request, patience, reaches)
    if not done.succeeded:
        raise TrialFailed(f"{measure.program}: {done.complaint}")
    short = () if own else PACKAGED[measure.program].too_short(done.stdout)
    return Ran(
        figures=_figures(measure, done.stdout, own=own),
        proved=program_proved(
            measure, parse_own(done.stdout) if own else None, device, None if cgroup is None else memory
        ),
        commands=(recorded(measure.on, kernel, argv, done),),
        walls=done.walls,
        said={"request": request, "output": done.stdout, "messages": done.stderr},
        warnings=(
            *((PhasesTooShort(program=measure.program, phases=short),) if short else ()),
            *(
                (MemoryNotLimited(machine=measure.on, memory_bytes=memory),)
                if memory and cgroup is None
                else ()
            ),
        ),
    )


def own_program(agent: Agent) -> str:
    """Return the agent's own program, as its programs find it."""
    return f"/proc/{agent.hello.pid}/exe"


def _figures(measure: DiskMeasure, text: str, *, own: bool) -> tuple[DiskFigure, ...]:
    try:
        if own:
            return own_figures(parse_own(text))
        return PACKAGED[measure.program].parse(text, size_of(measure))
    except ValueError as error:
        raise TrialFailed(str(error)) from error
