"""Look at the work that computers of a lab have done by now, by their agents."""

from collections.abc import Mapping

from iolab.agent.client import Agent
from iolab.errors import AgentError
from iolab.lab.kernels import HERE
from iolab.lab.topology import NAME_PREFIX
from iolab.lab.volumes.places import RUN
from iolab.trial.disk.ran import run_to_end
from iolab.trial.interference.work import HELPER, Work, work_of
from iolab.trial.lab_access import Site

PID_FILES = (
    f"{RUN}/{NAME_PREFIX}*.pid",
    f"{RUN}/{NAME_PREFIX}*.qemu-nbd",
    f"{RUN}/{NAME_PREFIX}services/*.pid",
)
"""Of targets, doors and services: they outlive who started them."""
SHOW = (
    f"any=; for file in {' '.join(PID_FILES)}; do"
    f' [ ! -f "$file" ] || {{ any=1; pid=; read -r pid <"$file"; echo "{HELPER} $pid ${{file##*/}}"; }}; done;'
    " cat /proc/stat /proc/[0-9]*/stat 2>/dev/null;"
    ' [ -z "$any" ] || grep -sH . /proc/[0-9]*/task/[0-9]*/schedstat; true'
)
"""Processes that end meanwhile are left out. Threads are read for helpers alone: nobody else's are asked for."""


def work_done(site: Site) -> dict[str, Work]:
    """Return the work of each kernel but those of the lab's guests: nobody else works there.

    One that cannot be asked is left out.
    """
    agents = site.agents or {HERE: site.agent}
    own = {kernel: agent for kernel, agent in agents.items() if not _is_guest(site, kernel)}
    found = {kernel: _work(agent) for kernel, agent in own.items()}
    return {kernel: work for kernel, work in found.items() if work is not None}


def _is_guest(site: Site, kernel: str) -> bool:
    return kernel != HERE and site.lab.machines[kernel].kind == "vm"


def _work(agent: Agent) -> Work | None:
    try:
        shown = run_to_end(agent, ("sh", "-c", SHOW))
    except AgentError:
        return None
    return work_of(shown.stdout, agent.hello.pid)


Looked = Mapping[str, Work]
"""Kernel to the work it had done."""
