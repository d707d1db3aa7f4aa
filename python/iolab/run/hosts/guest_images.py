"""Guest images on other hosts: copied there before anything is measured, so that lack of room is reported first.

A host that has lost its copy since gets another one when a guest starts.
"""

from iolab.agent.ssh import SshTransport
from iolab.agent.ssh_image import Tell
from iolab.experiment import resolver_of
from iolab.experiment.experiment import Experiment, Lab
from iolab.experiment.model.machines import Vm
from iolab.lab.guests.vm import image_of
from iolab.lab.kernels import HERE, parent_kernel
from iolab.plan.types import Plan
from iolab.run.agents import Agents
from iolab.run.guests.boot_sources import find_image, push_image
from iolab.run.hosts.hosts import together


def provide_images(agents: Agents, experiment: Experiment, plan: Plan, tell: Tell) -> None:
    """Copy the images that guests on other hosts are started from, to all hosts at the same time.

    Raises:
        UnsupportedError: an image is not built.
        AgentError: there is no room, or the connection is gone.
    """
    if all(kernel == HERE for kernel in agents):
        return
    wanted = images_on_hosts(experiment, plan)

    def provide(host: str) -> None:
        transport = agents.of(host).transport
        if isinstance(transport, SshTransport):
            for flavour in sorted(wanted[host]):
                push_image(transport, find_image(flavour), tell)

    for done in together(provide, list(wanted)).values():
        if isinstance(done, Exception):
            raise done


def images_on_hosts(experiment: Experiment, plan: Plan) -> dict[str, set[str]]:
    """Return, for each machine that is another host, the flavours of image that guests on it need."""
    resolver = resolver_of(experiment)
    found: dict[str, set[str]] = {}
    seen: set[str] = set()
    for step in plan.steps:
        cell = plan.cell(step)
        key = resolver.lab_key(cell)
        if key not in seen:
            seen.add(key)
            for host, flavour in _images_in(resolver.setup(cell).lab):
                found.setdefault(host, set()).add(flavour)
    return found


def _images_in(lab: Lab) -> set[tuple[str, str]]:
    guests = (name for name, machine in lab.machines.items() if isinstance(machine, Vm))
    places = {(parent_kernel(lab, name), image_of(lab, name)) for name in guests}
    return {(host, flavour) for host, flavour in places if host != HERE and lab.machines[host].kind == "host"}
