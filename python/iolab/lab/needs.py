"""What a cell needs of the host, and what is lacking there: in words that say what to do."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from iolab.errors import InputError, Problem
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.links import Link, Shape
from iolab.experiment.machines import Machine
from iolab.experiment.measures import Forwarding, Latency, LoadCurve, Measure, Packets, Stream
from iolab.lab.compose import compose
from iolab.lab.facts import Facts
from iolab.lab.frames import check_fit, fps_of
from iolab.lab.placement import Way, next_hop, ways
from iolab.lab.ports import offload_switches
from iolab.lab.topology import Topology, buildable, make_topology


class NeedKind(StrEnum):
    """What kind of thing is needed."""

    BUILT = "built"
    """A part of iolab that is not built yet: lacking everywhere."""
    FEATURE = "feature"
    """A kernel feature, by its name in the facts."""
    PROGRAM = "program"
    """An installed program."""
    ROOT = "root"
    """An agent that runs as root, not in namespaces of an ordinary user."""
    WHOLE_KERNEL = "whole-kernel"
    """A setting that no namespace has of its own: lacking everywhere."""
    FREE_NAME = "free-name"
    """An interface name that the computer itself does not use."""


@dataclass(frozen=True, slots=True)
class Need:
    """One thing that a cell needs."""

    kind: NeedKind
    """What kind of thing."""
    name: str
    """Which one."""
    purpose: str
    """What for, in the words of the file: "vlan 100 on link lan"."""


def needs(setup: Setup) -> tuple[Need, ...]:
    """Return everything that a lab and its measures need, each once.

    Raises:
        InputError: the parts do not fit together (names, addresses, no way between two machines).
    """
    found: list[Need] = []
    for name, machine in setup.lab.machines.items():
        found += machine_needs(name, machine)
    for name, link in setup.lab.links.items():
        found += link_needs(name, link)
    for name in setup.lab.volumes:
        found.append(volume_need(name))
    whole = not any(need.kind is NeedKind.BUILT for need in found)
    if whole:
        found += joining_needs(setup.lab)
    topology = make_topology(setup.lab) if whole else None
    for name, measure in setup.measures.items():
        found += measure_needs(name, measure)
        if topology is not None:
            check_ways(measure, setup.lab, topology)
    return tuple(dict.fromkeys(found))


def machine_needs(name: str, machine: Machine) -> tuple[Need, ...]:
    """Return what a machine needs by itself."""
    return tuple(_machine(f"machine {name}", machine))


def link_needs(name: str, link: Link) -> tuple[Need, ...]:
    """Return what a link needs by itself."""
    return tuple(_link(f"link {name}", link))


def volume_need(name: str) -> Need:
    """Return what a volume needs."""
    return Need(NeedKind.BUILT, "volumes", f"volume {name}")


def measure_needs(name: str, measure: Measure) -> tuple[Need, ...]:
    """Return what a measure needs beside the lab."""
    what = f"measure {name}"
    watch = (Need(NeedKind.BUILT, "watch", what),) if measure.watch else ()
    if isinstance(measure, Packets):
        return (
            *watch,
            *(Need(NeedKind.PROGRAM, program, what) for program in ("ip", "ethtool", "taskset", "ps")),
        )
    if not isinstance(measure, Stream):
        return (Need(NeedKind.BUILT, f"measures of kind {measure.kind}", what),)
    return (*watch, Need(NeedKind.PROGRAM, "iperf3", what))


def joining_needs(lab: Lab) -> tuple[Need, ...]:
    """Return what the links need of this computer's own namespace.

    Raises:
        InputError: names or addresses clash.
    """
    compose(lab)
    found: list[Need] = []
    for port in make_topology(lab).ports():
        if port.netns is None and buildable(lab.machines[port.machine]):
            found.append(Need(NeedKind.FREE_NAME, port.name, f"port {port.ref}"))
            if port.bridge:
                found.append(Need(NeedKind.FREE_NAME, port.bridge, f"the bridge of machine {port.machine}"))
    for name, link in lab.links.items():
        kinds = [lab.machines[end.partition(".")[0]].kind for end in link.ends]
        if kinds == ["host", "host"]:
            found.append(Need(NeedKind.BUILT, "a link from this computer to itself", f"link {name}"))
    return tuple(dict.fromkeys(found))


def check_ways(measure: Measure, lab: Lab, topology: Topology) -> None:
    """Check that the measure's ends are joined.

    Raises:
        InputError: an end does not exist, or no way joins two of them.
    """
    if isinstance(measure, Stream):
        for source, target in _ends(measure):
            topology.endpoint(source, towards=target)
            topology.endpoint(target, towards=source)
    if isinstance(measure, Packets):
        check_packets(measure, lab, ways(lab, topology, measure))


def check_packets(measure: Packets, lab: Lab, directions: tuple[Way, ...]) -> None:
    """Check that frames of a measure can go its ways, at the rates that are asked for.

    Raises:
        InputError: they cannot.
    """
    check_fit(measure, lab, directions)
    if isinstance(measure, Forwarding) and measure.search == "fast" and measure.loss_ratio == 0:
        seen, allowed = (
            "loss_ratio 0 with search: fast",
            "above 0 with fast, which needs 10/loss_ratio frames",
        )
        advice = (
            "take search: mlr or bisect for zero loss; forwarded_strict_fps of any search tells it as well"
        )
        raise InputError([Problem("measure", "planning a search", seen, allowed, advice)])
    if isinstance(measure, Forwarding) and measure.start is not None:
        fps_of(measure.start, measure, "start")
    if isinstance(measure, LoadCurve | Latency) and measure.rate is not None:
        fps_of(measure.rate, measure, "rate")
    routed = any(next_hop(lab, way) != way.target.ref for way in directions)
    if measure.ip == 6 and routed:
        seen, allowed = (
            "ip: 6 through a router",
            "ip: 4, or machines that bridge: a lab has IPv4 addresses only",
        )
        raise InputError([Problem("measure", "finding the way of frames", seen, allowed)])


def lacking_of(found: Iterable[Need], facts: Facts) -> str | None:
    """Return everything that is lacking, in one line; None where all needs are met."""
    later: dict[str, list[str]] = {}
    reasons: dict[str, None] = {}
    for need in dict.fromkeys(found):
        reason = lacking(need, facts)
        if need.kind is NeedKind.BUILT:
            later.setdefault(need.name, []).append(need.purpose)
        elif reason:
            reasons[reason] = None
    if later:
        parts = (f"{name} ({', '.join(purposes)})" for name, purposes in later.items())
        reasons = {f"not yet in this version of iolab: {', '.join(parts)}": None} | reasons
    return "; ".join(reasons) or None


def _ends(measure: Stream) -> Iterator[tuple[str, str]]:
    for flow in measure.flows:
        yield flow.src, flow.dst
    source = measure.src or measure.on
    if source is not None and measure.dst is not None:
        yield source, measure.dst


def _machine(what: str, machine: Machine) -> Iterator[Need]:
    if machine.kind == "vm":
        yield Need(NeedKind.BUILT, "machines of kind vm", what)
    if machine.kind == "host" and machine.ssh is not None:
        yield Need(NeedKind.BUILT, "hosts reached by ssh", what)
    if machine.disks:
        yield Need(NeedKind.BUILT, "disks", what)
    if machine.forward == "xdp":
        yield Need(NeedKind.ROOT, "XDP programs", f"forward: xdp of {what}")
    if machine.forward == "bridge":
        yield Need(NeedKind.FEATURE, "link:bridge", f"forward: bridge of {what}")
    for setting in machine.settings:
        if machine.kind == "netns" and setting.startswith("net.core.") and setting not in PER_NETNS:
            yield Need(NeedKind.WHOLE_KERNEL, setting, f"setting {setting} of {what}")
        if not setting.startswith("net."):
            yield Need(NeedKind.ROOT, setting, f"setting {setting} of {what}")


def _link(what: str, link: Link) -> Iterator[Need]:
    if link.cable:
        yield Need(NeedKind.BUILT, "cables between real hosts", what)
    if link.wire is not None:
        yield Need(NeedKind.BUILT, "wire (the path emulator)", what)
    yield Need(NeedKind.PROGRAM, "ip", what)
    yield Need(NeedKind.PROGRAM, "tc", what)
    yield Need(NeedKind.FEATURE, "link:veth", what)
    if len(link.ends) > 2:
        yield Need(NeedKind.FEATURE, "link:bridge", what)
    if link.vlan is not None:
        yield Need(NeedKind.FEATURE, "link:vlan", f"vlan {link.vlan} on {what}")
    if offload_switches(link.offload):
        yield Need(NeedKind.PROGRAM, "ethtool", f"offload on {what}")
    if link.shape is not None:
        yield from _shape(f"shape on {what}", link.shape)


def _shape(what: str, shape: Shape) -> Iterator[Need]:
    match shape.qdisc:
        case "pacer":
            yield Need(NeedKind.BUILT, "the pacer", what)
        case "etf":  # it drops every packet without a transmit time, and no measure gives one
            yield Need(NeedKind.FEATURE, "qdisc:etf", what)
            yield Need(NeedKind.BUILT, "etf (nothing here gives packets their transmit times)", what)
        case "htb" | "tbf" | "fq":
            yield Need(NeedKind.FEATURE, f"qdisc:{shape.qdisc}", what)
    if any(one.src or one.dst for one in shape.classes.values()):
        yield Need(NeedKind.FEATURE, "filter:u32", f"classes of {what}")


def lacking(need: Need, facts: Facts) -> str | None:
    """Return what is lacking on a host and what to do about it; None where the need is met."""
    match need.kind:
        case NeedKind.BUILT:
            return f"{need.purpose}: {need.name}: not yet in this version of iolab"
        case NeedKind.FEATURE:
            return _lacking_feature(need, facts)
        case NeedKind.PROGRAM:
            if facts.programs.get(need.name, "") is not None:
                return None
            package = PACKAGES.get(need.name, need.name)
            return f"{need.name} is not installed; install the package {package}, or run `make setup`"
        case NeedKind.ROOT:
            return f"{need.purpose}: an ordinary user may not set it; run as root" if facts.rootless else None
        case NeedKind.WHOLE_KERNEL:
            return f"{need.purpose}: it belongs to the whole kernel; give it to a machine of kind host"
        case NeedKind.FREE_NAME:
            if all(interface.name != need.name for interface in facts.interfaces):
                return None
            return f"{need.purpose}: this computer has an interface {need.name} already; rename the port"


def _lacking_feature(need: Need, facts: Facts) -> str | None:
    if facts.features.get(need.name) is not False:  # what could not be tried may work
        return None
    module = MODULES.get(need.name, need.name)
    return f"{need.purpose}: this kernel has no {module}; load the module, or put the machine in a vm"


PER_NETNS = tuple(
    f"net.core.{name}"
    for name in ("somaxconn", "optmem_max", "txrehash", "tstamp_allow_data", "rps_default_mask", "xfrm_acq_expires",
                 "xfrm_aevent_etime", "xfrm_aevent_rseqth", "xfrm_larval_drop")
)  # fmt: skip
"""Settings of net.core that a namespace may write (Linux 6.18; the others are read-only there, or absent)."""
PACKAGES = {"ip": "iproute2", "tc": "iproute2", "taskset": "util-linux", "ps": "procps"}
"""Debian package of a program, where it has another name."""
MODULES = {
    "link:veth": "veth",
    "link:bridge": "bridge",
    "link:vlan": "8021q",
    "qdisc:htb": "sch_htb",
    "qdisc:tbf": "sch_tbf",
    "qdisc:fq": "sch_fq",
    "qdisc:etf": "sch_etf",
    "filter:u32": "cls_u32",
}
"""Kernel module of a feature."""
