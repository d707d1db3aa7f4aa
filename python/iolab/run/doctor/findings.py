"""Findings of the doctor: the readiness of a host, and its support for guests.

The findings on guests are about the hypervisor, images, the accelerator (tested by a boot), NIC backends and Xen.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from iolab.agent.client import Agent
from iolab.agent.decoding import understood
from iolab.agent.transport import find_agent
from iolab.errors import UnsupportedError
from iolab.image.build import built_names, find
from iolab.image.emulator import NEWER, find_qemu
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.start import PROGRAM as SWITCH
from iolab.lab.hosts.facts import Facts, InterfaceFact, ProcessorFacts
from iolab.lab.hosts.readiness import concerns
from iolab.lab.kernels import HERE
from iolab.lab.requirements.need import package_of
from iolab.locale import Phrase
from iolab.messages.checks import (
    CardDriver,
    CardFirmware,
    CardNode,
    CardPart,
    CardSeen,
    CardSettings,
    DeviceExamined,
    Examined,
    GovernorOfCpus,
    Governors,
    GovernorsOfDriver,
    GuestsExamined,
    HostExamined,
    IdleState,
    IdleStates,
    ImagesBuilt,
    NodeCpus,
    NumaNodes,
    ProgramExamined,
    ProgramMissing,
    ProgramVersion,
    QemuThere,
    XenRoom,
)
from iolab.messages.host_issues import HostIssue
from iolab.run.agents import Agents
from iolab.run.guests.boot import find_here
from iolab.run.guests.hypervisors import Hypervisors, find_emulator
from iolab.run.guests.xen_domains import LOOK, XL_TIMEOUT_MS

VHOST_NET = "/dev/vhost-net"
TUN = "/dev/net/tun"
PROBE = Guest(
    name="probe", engine="qemu", image="linux", memory_bytes=256 << 20, cpus=1, accel="auto", nics=()
)
KVM = "/dev/kvm"
QEMU = "qemu-system-x86_64"
SUBJECT = "Xen"
INFO, VCPUS = ("xl", "info"), ("xl", "vcpu-list")
SMALL_MIB = 256
"""Memory of the domains in the study of Xen and VLANs [MiB]."""
VCPU = re.compile(r"(\S+)\s+\d+\s+\d+\s")
"""A line of `xl vcpu-list`: domain, its number, number of the virtual CPU."""


class Grade(StrEnum):
    """The grade of a finding."""

    GOOD = "good"
    LIMITED = "limited"
    """Some experiments cannot run, or results may be disturbed."""
    LACKING = "lacking"
    """The quickstart cannot run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check."""

    subject: str
    """Subject of the check."""
    grade: Grade
    """Grade of the finding."""
    seen: tuple[Examined | HostIssue, ...]
    """What the check observed, and issues that affect measured figures."""


def readiness_findings(facts: Facts) -> list[Finding]:
    """Return a finding for each processor setting and for each NIC."""
    cards = [one for one in facts.interfaces if one.driver_version or one.numa_node is not None]
    found = concerns(facts, [card.name for card in cards])
    return [*_processors(facts, found), *(_card(card, found) for card in cards)]


def _processors(facts: Facts, found: tuple[HostIssue, ...]) -> Iterator[Finding]:
    processors = facts.processors
    yield _finding("cpu-frequency", _frequency(processors), found)
    if processors.turbo is not None:
        yield _finding(
            "turbo",
            HostExamined(code="turbo-is-on" if processors.turbo else "turbo-is-off"),
            found,
        )
    if processors.idle_states:
        states = tuple(
            IdleState(state=one.name, wake_ns=one.exit_latency_ns) for one in processors.idle_states
        )
        yield _finding("idle-states", IdleStates(driver=processors.idle_driver or "", states=states), found)
    if processors.smt is not None:
        yield good("SMT", HostExamined(code="smt-on" if processors.smt else "smt-off"))
    if len(processors.nodes) > 1:
        nodes = tuple(NodeCpus(node=str(name), cpus=cpus) for name, cpus in processors.nodes.items())
        yield good("NUMA", NumaNodes(nodes=nodes))
    runs = "irqbalance" in facts.daemons
    yield _finding(
        "irqbalance",
        HostExamined(code="irqbalance-runs" if runs else "irqbalance-absent"),
        found,
    )


def _frequency(processors: ProcessorFacts) -> Examined:
    governors = tuple(GovernorOfCpus(governor=name, cpus=cpus) for name, cpus in processors.governors.items())
    if not governors:
        return HostExamined(code="frequency-unset")
    if not processors.driver:
        return Governors(governors=governors)
    return GovernorsOfDriver(driver=processors.driver, governors=governors)


def _card(card: InterfaceFact, found: tuple[HostIssue, ...]) -> Finding:
    """Return the properties and settings of a NIC."""
    return _finding(card.name, CardSeen(parts=tuple(_parts(card))), found)


def _parts(card: InterfaceFact) -> Iterator[CardPart]:
    if card.driver:
        yield CardDriver(driver=" ".join(filter(None, (card.driver, card.driver_version))))
    if card.firmware:
        yield CardFirmware(firmware=card.firmware)
    if card.numa_node is not None and card.numa_node >= 0:
        yield CardNode(node=card.numa_node)
    if card.coalescing:
        set_ = (f"{name} {value}" for name, value in card.coalescing.items() if value not in ("0", "off"))
        yield CardSettings(code="card-coalescing", settings=" ".join(set_))
    if card.pause:
        yield CardSettings(
            code="card-pause",
            settings=" ".join(f"{name} {'on' if on else 'off'}" for name, on in card.pause.items()),
        )


def _finding(subject: str, seen: Examined, found: tuple[HostIssue, ...]) -> Finding:
    """Return a finding about a subject; its grade is LIMITED if the subject has an issue."""
    own = tuple(concern for concern in found if concern.subject == subject)
    return Finding(subject, Grade.LIMITED if own else Grade.GOOD, (seen, *own))


def good(subject: str, *seen: Examined) -> Finding:
    """Return a finding on a subject that has no problem."""
    return Finding(subject, Grade.GOOD, seen)


def limited(subject: str, *seen: Examined) -> Finding:
    """Return a finding of grade LIMITED: some experiments cannot run, or may be disturbed."""
    return Finding(subject, Grade.LIMITED, seen)


def lacking(subject: str, *seen: Examined) -> Finding:
    """Return a finding of grade LACKING: hardly any experiment can run."""
    return Finding(subject, Grade.LACKING, seen)


def guest_findings(agent: Agent, facts: Facts) -> list[Finding]:
    """Return the findings for guests; a missing image or hypervisor has only the grade LIMITED, because only guests
    need it.

    On other hosts no test guest is booted, because its image would have to be copied.
    """
    return [
        *(_on_other_host(agent, facts) if agent.name else [_hypervisor(), _images(), _accelerator(agent)]),
        _device(agent, TUN, DeviceExamined(code="tun-absent", path=TUN)),
        _device(agent, VHOST_NET, DeviceExamined(code="vhost-net-absent", path=VHOST_NET)),
        _macvtap(facts, agent),
        _switch(agent),
        xen_finding(agent),
    ]


def _hypervisor() -> Finding:
    try:
        emulator = find_qemu()
    except UnsupportedError as error:
        return limited("QEMU", ProgramExamined(code="qemu-unfit", said=str(error)))
    version = ".".join(map(str, emulator.version))
    return good("QEMU", QemuThere(version=version, program=str(emulator.program)))


def _on_other_host(agent: Agent, facts: Facts) -> list[Finding]:
    version = facts.programs.get(QEMU)
    qemu = (
        good("QEMU", ProgramVersion(version=version))
        if version
        else limited("QEMU", GuestsExamined(code="qemu-not-there"))
    )
    return [qemu, _device(agent, KVM, DeviceExamined(code="kvm-absent", path=KVM))]


def _images() -> Finding:
    built = {name: find(name, find_agent()) for name in built_names()}
    images = tuple(name for name, image in built.items() if image is not None)
    seen = ImagesBuilt(images=images)
    if built["linux"] is not None:
        return good("guest image", seen)
    return limited("guest image", *((seen,) if images else ()), GuestsExamined(code="image-not-built"))


def _accelerator(agent: Agent) -> Finding:
    subject = "accelerator"
    try:
        source, emulator = find_here(PROBE), find_emulator(PROBE)
        found, untold = Hypervisors(Agents(agent)).accelerator(PROBE, HERE, source, emulator)
    except UnsupportedError as error:
        return limited(subject, ProgramExamined(code="accelerator-untried", said=str(error)))
    if untold:
        return limited(subject, ProgramExamined(code="accelerator-untold", said=str(untold)))
    return (
        good(subject, GuestsExamined(code="accelerator-kvm"))
        if found == "kvm"
        else limited(subject, GuestsExamined(code="accelerator-none"))
    )


def _device(agent: Agent, path: str, absent: Examined) -> Finding:
    there = agent.run(("test", "-c", path)).succeeded
    return good(path, DeviceExamined(code="device-there", path=path)) if there else limited(path, absent)


def _macvtap(facts: Facts, agent: Agent) -> Finding:
    subject = "macvtap nodes"
    if not facts.features.get("link:macvtap"):
        return limited(subject, GuestsExamined(code="macvtap-absent"))
    if "macvtap" not in agent.hello.capabilities:
        return limited(subject, GuestsExamined(code="macvtap-closed"))
    return good(
        subject,
        GuestsExamined(code="macvtap-by-sudo" if agent.hello.rootless else "macvtap-open"),
    )


def _switch(agent: Agent) -> Finding:
    """Return the finding on the user-space switch; the QEMU version of remote hosts is not checked here."""
    if not agent.run(("sh", "-c", f"command -v {SWITCH}")).succeeded:
        return limited(SWITCH, ProgramMissing(code="switch-missing", package=package_of(SWITCH)))
    try:
        if not agent.name:
            find_qemu(NEWER)
    except UnsupportedError as error:
        return limited(SWITCH, ProgramExamined(code="switch-lacks-qemu", said=str(error)))
    return good(SWITCH, GuestsExamined(code="switch-there"))


def xen_finding(agent: Agent) -> Finding:
    """Return the finding for `engine: xen`; a host without Xen has only the grade LIMITED, because only Xen domains
    need Xen."""
    looked = agent.run(("sh", "-c", LOOK), timeout_ms=XL_TIMEOUT_MS)
    if not looked.succeeded:
        return limited(SUBJECT, ProgramExamined(code="no-xen", said=str(looked.complaint)))
    told, running = (agent.run(argv, timeout_ms=XL_TIMEOUT_MS) for argv in (INFO, VCPUS))
    for shown in (told, running):
        if not shown.succeeded:
            return limited(SUBJECT, ProgramExamined(code="xen-silent", said=str(shown.complaint)))
    with understood(agent.name, Phrase("agent.what-xen-has")):
        return _room(told.stdout, running.stdout)


def _room(told: str, running: str) -> Finding:
    """Return the finding on the memory and CPUs that are free for domains, from xl's reports on the host and on virtual
    CPUs."""
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
