"""Check what this host can do for a lab, through its agent; each finding includes advice."""

from iolab.agent.client import Agent
from iolab.lab.hosts.facts import Facts
from iolab.messages.checks import (
    ChangesLeft,
    ClocksourceExamined,
    CpusEnough,
    CpusFew,
    FeatureExamined,
    HeldByLab,
    HostExamined,
    LoadExamined,
    NoPrivilege,
    ProgramMissing,
    ProgramVersion,
)
from iolab.registry.qdiscs import QDISCS
from iolab.registry.registry import programs
from iolab.run.doctor.disks import disk_findings
from iolab.run.doctor.findings import (
    Finding,
    Grade,
    good,
    guest_findings,
    lacking,
    limited,
    readiness_findings,
)

__all__ = ["Finding", "Grade", "examine"]

FEATURES = (
    "link:veth", "link:bridge", "link:vlan", "link:macvtap", "qdisc:netem", "filter:u32", "trace:drop-reasons",
    *(f"qdisc:{name}" for name, row in QDISCS.items() if row.module is not None),
)  # fmt: skip
"""Kernel features to check; the locale files describe their purpose."""
DROP_REASONS = "trace:drop-reasons"
"""Kernel feature that no module provides: drop reasons."""
NEEDED_FEATURES = ("link:veth", "link:bridge")
TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
    "taskset": "util-linux",
    "ps": "procps",
}
PACKET_CPUS = 3
"""CPUs of a packet trial: sender, device under test, receiver."""
FAST_CLOCKSOURCES = ("tsc", "kvm-clock", "arch_sys_counter")
BUSY_LOAD_PER_CPU = 0.5
"""Load average per CPU above which other work disturbs measurements."""


def examine(agent: Agent, facts: Facts) -> list[Finding]:
    """Return the findings, the most important first."""
    return [
        _privilege(agent),
        _free(agent),
        *(_program(facts, name, package) for name, package in (programs() | TOOLS).items()),
        *(_feature(facts, feature) for feature in FEATURES),
        *_packets(agent, facts),
        *guest_findings(agent, facts),
        *readiness_findings(facts),
        *disk_findings(agent),
        _load(facts),
        _clock(facts),
    ]


def _privilege(agent: Agent) -> Finding:
    hello = agent.hello
    if hello.rootless:
        return good("privilege", HostExamined(code="as-user"))
    if "netns" in hello.capabilities:
        return good("privilege", HostExamined(code="as-root"))
    return lacking(
        "privilege",
        NoPrivilege(limits=tuple(hello.limits)) if hello.limits else HostExamined(code="no-user-namespaces"),
    )


def _free(agent: Agent) -> Finding:
    hello = agent.hello
    if hello.holders:
        return limited("host", HeldByLab(pid=hello.holders[0].pid))
    left = sum(predecessor.entries for predecessor in hello.predecessors)
    return (
        limited("host", ChangesLeft(changes=left)) if left else good("host", HostExamined(code="host-free"))
    )


def _packets(agent: Agent, facts: Facts) -> list[Finding]:
    """Return the findings for packet trials; empty if the agent has no packet engine."""
    found = [_packet_path(agent), _placing(facts)]
    return found if agent.hello.rootless else [*found, good("NAPI", HostExamined(code="veth-by-napi"))]


def _packet_path(agent: Agent) -> Finding:
    subject = "packet path"
    return (
        limited(subject, HostExamined(code="af-packet-only"))
        if agent.hello.rootless
        else good(subject, HostExamined(code="af-xdp-first"))
    )


def _placing(facts: Facts) -> Finding:
    subject = "CPUs for packets"
    if facts.cpus >= PACKET_CPUS:
        return good(subject, CpusEnough(cpus=facts.cpus))
    return limited(subject, CpusFew(cpus=facts.cpus, wanted=PACKET_CPUS))


def _program(facts: Facts, name: str, package: str) -> Finding:
    version = facts.programs.get(name)
    if version is None:
        return lacking(name, ProgramMissing(code="program-missing", package=package))
    return good(name, ProgramVersion(version=version))


def _feature(facts: Facts, feature: str) -> Finding:
    state = facts.features.get(feature)
    if state:
        return good(feature, FeatureExamined(code="feature-works", feature=feature))
    graded = lacking if feature in NEEDED_FEATURES else limited
    if feature == DROP_REASONS:
        return graded(feature, FeatureExamined(code="drop-reasons-absent", feature=feature))
    if state is None:
        return graded(feature, FeatureExamined(code="feature-untried", feature=feature))
    return graded(feature, FeatureExamined(code="feature-absent", feature=feature))


def _load(facts: Facts) -> Finding:
    load, cpus = facts.load_1min_milli / 1000, facts.cpus
    if load > BUSY_LOAD_PER_CPU * cpus:
        return limited("load", LoadExamined(code="load-high", load=load, cpus=cpus))
    return good("load", LoadExamined(code="load-low", load=load, cpus=cpus))


def _clock(facts: Facts) -> Finding:
    subject, clocksource = "clocksource", facts.clocksource
    if clocksource in FAST_CLOCKSOURCES:
        return good(subject, ClocksourceExamined(code="clocksource-fast", clocksource=clocksource))
    return limited(subject, ClocksourceExamined(code="clocksource-slow", clocksource=clocksource))
