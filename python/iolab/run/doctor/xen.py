"""Whether a host makes Xen domains: it is Dom0, has xl, whose services answer, and has something left for them."""

import re

from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.run.doctor.findings import Finding, good, limited
from iolab.run.guests.xen_domains import LOOK, XL_TIMEOUT_MS
from iolab.statements.examined_guests import (
    GuestsExamined,
    ProgramExamined,
    XenRoom,
)

SUBJECT = "Xen"
INFO, VCPUS = ("xl", "info"), ("xl", "vcpu-list")
SMALL_MIB = 256
"""What domains have in the study of Xen and VLANs [MiB]."""
VCPU = re.compile(r"(\S+)\s+\d+\s+\d+\s")
"""A line of `xl vcpu-list`: domain, its number, that of the virtual CPU."""


def xen_finding(agent: Agent) -> Finding:
    """Return what `engine: xen` will find there; nothing else needs it, so a host without is only limited."""
    looked = agent.run(("sh", "-c", LOOK), timeout_ms=XL_TIMEOUT_MS)
    if not looked.succeeded:
        return limited(SUBJECT, ProgramExamined(code="no-xen", said=looked.complaint))
    told, running = (agent.run(argv, timeout_ms=XL_TIMEOUT_MS) for argv in (INFO, VCPUS))
    for shown in (told, running):
        if not shown.succeeded:
            return limited(SUBJECT, ProgramExamined(code="xen-silent", said=shown.complaint))
    with understood(agent.name, "what Xen has"):
        return _room(told.stdout, running.stdout)


def _room(told: str, running: str) -> Finding:
    """Return what is left for domains, by what xl showed of the host and of the virtual CPUs that run."""
    about = dict(re.findall(r"^(\w+) *: (.*)$", told, re.MULTILINE))
    cpus, free_mib = int(about["nr_cpus"]), int(about["free_memory"])
    free_cpus = max(0, cpus - sum(VCPU.match(line) is not None for line in running.splitlines()))
    seen = XenRoom(
        version=about["xen_version"],
        free_mib=free_mib,
        total_mib=int(about["total_memory"]),
        free_cpus=free_cpus,
        cpus=cpus,
    )
    short = [
        *(
            [GuestsExamined(code="xen-not-paravirtual")]
            if "pv" not in about.get("virt_caps", "pv").split()
            else []
        ),
        *([GuestsExamined(code="xen-memory-short")] if free_mib < SMALL_MIB else []),
        *([GuestsExamined(code="xen-cpus-short")] if not free_cpus else []),
    ]
    return limited(SUBJECT, seen, *short) if short else good(SUBJECT, seen)
