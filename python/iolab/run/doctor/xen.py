"""Whether a host makes Xen domains: it is Dom0, has xl, whose services answer, and has something left for them."""

import re

from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.run.doctor.findings import Finding, Grade
from iolab.run.guests.xen_domains import LOOK, NO_XEN_ADVICE, SERVICES_ADVICE, XL_TIMEOUT_MS

SUBJECT = "Xen"
INFO, VCPUS = ("xl", "info"), ("xl", "vcpu-list")
SMALL_MIB = 256
"""What domains have in the study of Xen and VLANs [MiB]."""
LITTLE_MEMORY = "boot with a fixed dom0_mem: without it xl takes memory from Dom0, and leaves that smaller"
NO_FREE_CPU = "boot with dom0_max_vcpus: without it domains share CPUs with Dom0"
NO_PARAVIRTUAL = "domains are paravirtual here; boot a Xen that allows it (CONFIG_PV)"
VCPU = re.compile(r"(\S+)\s+\d+\s+\d+\s")
"""A line of `xl vcpu-list`: domain, its number, that of the virtual CPU."""


def xen_finding(agent: Agent) -> Finding:
    """Return what `engine: xen` will find there; nothing else needs it, so a host without is only limited."""
    looked = agent.run(("sh", "-c", LOOK), timeout_ms=XL_TIMEOUT_MS)
    if not looked.succeeded:
        return Finding(SUBJECT, Grade.LIMITED, looked.complaint, NO_XEN_ADVICE)
    told, running = (agent.run(argv, timeout_ms=XL_TIMEOUT_MS) for argv in (INFO, VCPUS))
    for shown in (told, running):
        if not shown.succeeded:
            return Finding(SUBJECT, Grade.LIMITED, shown.complaint, SERVICES_ADVICE)
    with understood(agent.name, "what Xen has"):
        return _room(told.stdout, running.stdout)


def _room(told: str, running: str) -> Finding:
    """Return what is left for domains, by what xl showed of the host and of the virtual CPUs that run."""
    about = dict(re.findall(r"^(\w+) *: (.*)$", told, re.MULTILINE))
    cpus, free_mib = int(about["nr_cpus"]), int(about["free_memory"])
    free_cpus = max(0, cpus - sum(VCPU.match(line) is not None for line in running.splitlines()))
    memory = f"{free_mib} of {about['total_memory']} MiB"
    seen = f"{about['xen_version']}, this is its Dom0; {memory} and {free_cpus} of {cpus} CPUs are free for domains"
    advice = [
        *([NO_PARAVIRTUAL] if "pv" not in about.get("virt_caps", "pv").split() else []),
        *([LITTLE_MEMORY] if free_mib < SMALL_MIB else []),
        *([NO_FREE_CPU] if not free_cpus else []),
    ]
    return Finding(SUBJECT, Grade.LIMITED if advice else Grade.GOOD, seen, "; ".join(advice))
