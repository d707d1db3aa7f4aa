"""Read all counters on the paths of a load trial at one time: of all kernels, devices, and guest threads.

Other modules interpret the counters: balance (frames), cpu_use (CPU time).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from iolab.agent.answers import Reading
from iolab.agent.client import Pending
from iolab.agent.messages import DeviceCounts, WireCounts
from iolab.agent.traffic import TrafficRan
from iolab.experiment.experiment import Lab
from iolab.experiment.model.quantities import PortRef
from iolab.lab.links.link_topology import home_of, is_ours
from iolab.lab.links.wires import wire_id
from iolab.lab.packets.placement import Way
from iolab.lab.packets.resources import device_id, interfaces_passed, name_of
from iolab.results.verdict import SENDERS, CpuUse, Thread
from iolab.trial.counters.cpu_use import cpu_uses, guest_threads, kernel_threads
from iolab.trial.counters.differences import Counted, Port, Snapshot
from iolab.trial.lab_access import Site

SAMPLERS = ("cpu", "softnet", "interfaces", "qdiscs", "drops", "threads")
PATIENCE_S = 10.0


class Counters:
    """Counters on the paths of one site."""

    def __init__(self, site: Site, directions: Sequence[Way]) -> None:
        self.wires, self.places = places_on(site, directions)
        self._site = site
        self._own = directions[0].source.kernel
        arrivals = dict.fromkeys(ref for way in directions for ref in way.arrivals)
        machines = site.lab.machines
        self.wire_ends = wire_ends_on(site.lab, self.wires)
        """Ends of the emulated links on the paths, by link."""
        self._devices = [ref for ref in arrivals if machines[PortRef(ref).machine].forward == "xdp"]

    def read(self) -> Snapshot:
        """Read every counter."""
        agent = self._site.agent
        netns = list(dict.fromkeys(port.netns for port in self.places.values() if port.kernel == self._own))
        devices = {ref: agent.begin("device.read", {"id": device_id(ref)}) for ref in self._devices}
        wires = begin_wires(self._site, self.wire_ends)
        reading = agent.read_samples(netns, SAMPLERS)
        elsewhere = self._elsewhere()
        counts = {ref: pending.read(DeviceCounts, PATIENCE_S) for ref, pending in devices.items()}
        found = {link: pending.read(WireCounts, PATIENCE_S) for link, pending in wires.items()}
        return Snapshot(reading, counts, elsewhere, found, self._own)

    def between(self, before: Snapshot, after: Snapshot) -> Counted:
        """Return how much the counters increased between two snapshots."""
        return Counted(self.places, before, after, self.wire_ends)

    def other_threads(self, ran: TrafficRan, before: Snapshot, after: Snapshot) -> tuple[Thread, ...]:
        """Return the CPU use of guest threads, and of kernel threads on the guests' hosts."""
        own = self._own
        earlier = {**before.elsewhere, own: before.reading}
        later = {**after.elsewhere, own: after.reading}
        span_ns = max(sender.end_ns - sender.begin_ns for sender in ran.senders)
        found = guest_threads(self._site.guests, earlier, later, span_ns, own)
        for kernel in {own, *(place.parent for place in self._site.guests.values())}:
            if kernel in earlier and kernel in later:
                working = kernel_threads(earlier[kernel], later[kernel], span_ns, f"{kernel} ".lstrip())
                found += tuple(replace(one, kernel=SENDERS if kernel == own else kernel) for one in working)
        return found

    def _elsewhere(self) -> dict[str, Reading]:
        """Read the counters of the other kernels on the path, and of the hosts of its guests."""
        netns: dict[str, list[str | None]] = {place.parent: [] for place in self._site.guests.values()}
        for port in self.places.values():
            own = netns.setdefault(port.kernel, [])
            if port.netns not in own:
                own.append(port.netns)
        return {
            kernel: self._site.agents[kernel].read_samples(places, SAMPLERS)
            for kernel, places in netns.items()
            if kernel in self._site.agents and self._site.agents[kernel] is not self._site.agent
        }


def wire_ends_on(lab: Lab, ways: Sequence[Way]) -> dict[str, tuple[str, ...]]:
    """Return the ends of the emulated links on the paths, by link."""
    passed = {ref for way in ways for hop in way.hops for ref in hop}
    return {
        name: ends
        for name, link in lab.links.items()
        if is_ours(lab, name)
        for ends in (tuple(name_of(end) if name_of(end) in passed else str(end) for end in link.ends),)
        if passed.issuperset(ends)
    }


def begin_wires(site: Site, links: Iterable[str]) -> dict[str, Pending]:
    """Send the requests for the frame counters of emulated links."""
    return {
        link: site.agent_of(home_of(site.lab, link)).begin("wire.read", {"id": wire_id(link)})
        for link in links
    }


def places_on(site: Site, directions: Sequence[Way]) -> tuple[tuple[Way, ...], dict[str, Port]]:
    """Return the paths with every emulated link on them, and the location of each interface, in path order."""
    ports = {str(port.ref): port for port in site.topology.ports()}
    found = [interfaces_passed(site.lab, site.topology, way) for way in directions]
    members = {ref: side for _, sides in found for ref, side in sides.items()}
    places: dict[str, Port] = {}
    for ref in (ref for way, _ in found for hop in way.hops for ref in hop):
        if ref in members:
            side = members[ref]
            places[ref] = Port(ref, side.netns, side.interface, side.kernel)
        else:
            places[ref] = Port(ref, ports[ref].netns, ports[ref].name, ports[ref].kernel)
    return tuple(way for way, _ in found), places


def other_cpus(before: Snapshot, after: Snapshot) -> tuple[CpuUse, ...]:
    """Return the CPU use on the kernels that send no frames."""
    return tuple(
        cpu
        for kernel, reading in before.elsewhere.items()
        if kernel in after.elsewhere
        for cpu in cpu_uses(reading, after.elsewhere[kernel], kernel)
    )


def span_ns(before: Reading, after: Reading) -> int:
    """Return the time from the first counter before a trial to the last counter after it [ns]."""
    begin = min(seen.begin_ns for seen in before.observations)
    return max(seen.end_ns for seen in after.observations) - begin
