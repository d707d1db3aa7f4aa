"""What this host can do for a lab, found by asking its agent; each finding says what to do about it."""

from iolab.agent.client import Agent
from iolab.lab.hosts.facts import Facts
from iolab.parts.qdiscs import QDISCS
from iolab.parts.registry import programs
from iolab.run.doctor.findings import Finding, Grade
from iolab.run.doctor.guests import guest_findings
from iolab.run.doctor.readiness import readiness_findings

__all__ = ["Finding", "Grade", "examine"]

FEATURES = {
    "link:veth": "links between two namespaces",
    "link:bridge": "links with three ends and more, forward: bridge",
    "link:vlan": "vlan on a link (8021q)",
    "link:macvtap": "macvtap guests",
    "qdisc:netem": "the kernel's own path emulation",
    "filter:u32": "shape classes",
    "trace:drop-reasons": "why the kernel drops packets, in balance sheets",
}
"""Kernel features and what they are for."""
SHAPERS = [name for name, row in QDISCS.items() if row.module is not None]
"""The kernel's queueing disciplines that the language knows."""
MODULE_ADVICE = "load the kernel's module, or use a kernel that has it"
ADVICE = {"trace:drop-reasons": "run as root on Linux 5.17 or later; without it hops are counted as before"}
"""What to do where a feature is no module."""
NEEDED_FEATURES = ("link:veth", "link:bridge")
TOOLS = {
    "ip": "iproute2",
    "tc": "iproute2",
    "ethtool": "ethtool",
    "taskset": "util-linux",
    "ps": "procps",
}
PACKET_CPUS = 3
"""Sender, device under test, receiver."""
BUSY_LOAD_PER_CPU = 0.5
"""Above this load average per CPU other work disturbs the measurement."""


def examine(agent: Agent, facts: Facts) -> list[Finding]:
    """Return the findings, in order of need."""
    return [
        _privilege(agent),
        _free(agent),
        *(_program(facts, name, package) for name, package in (programs() | TOOLS).items()),
        *(_feature(facts, feature, purpose) for feature, purpose in _features().items()),
        *_packets(agent, facts),
        *guest_findings(agent, facts),
        *readiness_findings(facts),
        _load(facts),
        _clock(facts),
    ]


def _privilege(agent: Agent) -> Finding:
    hello = agent.hello
    if hello.rootless:
        return Finding(
            "privilege",
            Grade.GOOD,
            "an ordinary user; the lab lives in user and network namespaces of its own",
        )
    if "netns" in hello.capabilities:
        return Finding("privilege", Grade.GOOD, "root")
    reason = "; ".join(hello.limits) or "the kernel refuses user namespaces"
    return Finding("privilege", Grade.LACKING, reason, "run as root, or allow unprivileged user namespaces")


def _free(agent: Agent) -> Finding:
    hello = agent.hello
    if hello.busy_pid is not None:
        return Finding(
            "host",
            Grade.LIMITED,
            f"held by another lab (agent process {hello.busy_pid})",
            "wait for it to end",
        )
    left = sum(predecessor.entries for predecessor in hello.predecessors)
    if left:
        return Finding(
            "host", Grade.LIMITED, f"{left} changes of a killed agent are not undone", "run `iolab clean`"
        )
    return Finding("host", Grade.GOOD, "free and clean")


def _packets(agent: Agent, facts: Facts) -> list[Finding]:
    """Return what packet trials will find here; nothing where this agent has no engine."""
    found = [_packet_path(agent), _placing(facts)]
    if not agent.hello.rootless:
        found.append(
            Finding(
                "NAPI",
                Grade.GOOD,
                "packet trials put GRO on and TSO and GSO off at both ends of a link: only then does a veth pair take "
                "frames in on the receiver's CPU, and lose some when it is too slow",
            )
        )
    return found


def _packet_path(agent: Agent) -> Finding:
    if agent.hello.rootless:
        seen = "frames are received by AF_PACKET: an ordinary user may load no XDP program"
        return Finding("packet path", Grade.LIMITED, seen, "run as root for AF_XDP and for forward: xdp")
    return Finding("packet path", Grade.GOOD, "AF_XDP, else AF_PACKET; `iolab calibrate` measures them")


def _placing(facts: Facts) -> Finding:
    if facts.cpus >= PACKET_CPUS:
        return Finding(
            "CPUs for packets", Grade.GOOD, f"{facts.cpus}: sender, device and receiver have one each"
        )
    seen = f"{facts.cpus}: sender, device under test and receiver must share"
    return Finding(
        "CPUs for packets", Grade.LIMITED, seen, f"{PACKET_CPUS} per direction are needed for one each"
    )


def _program(facts: Facts, name: str, package: str) -> Finding:
    version = facts.programs.get(name)
    if version is None:
        return Finding(
            name, Grade.LACKING, "not installed", f"install the package {package}, or run `make setup`"
        )
    return Finding(name, Grade.GOOD, version)


def _features() -> dict[str, str]:
    return FEATURES | {f"qdisc:{name}": f"shape with {name}" for name in SHAPERS}


def _feature(facts: Facts, feature: str, purpose: str) -> Finding:
    state = facts.features.get(feature)
    if state:
        return Finding(feature, Grade.GOOD, purpose)
    grade = Grade.LACKING if feature in NEEDED_FEATURES else Grade.LIMITED
    seen = "could not be tried" if state is None else "this kernel has it not"
    return Finding(feature, grade, f"{seen}: {purpose}", ADVICE.get(feature, MODULE_ADVICE))


def _load(facts: Facts) -> Finding:
    load, per_cpu = facts.load_1min_milli / 1000, BUSY_LOAD_PER_CPU
    if load > per_cpu * facts.cpus:
        return Finding(
            "load",
            Grade.LIMITED,
            f"{load:.2f} on {facts.cpus} CPUs",
            "other work disturbs results; let it end first",
        )
    return Finding("load", Grade.GOOD, f"{load:.2f} on {facts.cpus} CPUs")


def _clock(facts: Facts) -> Finding:
    if facts.clocksource in ("tsc", "kvm-clock", "arch_sys_counter"):
        return Finding("clocksource", Grade.GOOD, facts.clocksource)
    return Finding(
        "clocksource", Grade.LIMITED, facts.clocksource, "reading time is slow or coarse; tsc is better"
    )
