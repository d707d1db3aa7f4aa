"""Compute the differences between two readings of all counters: before the first frame, and after the drain. Pure.

The module `balance` interprets the counts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from iolab.agent.answers import Reading, counted_since
from iolab.agent.messages import DeviceCounts, QdiscCounters, WayCounts, WireCounts
from iolab.lab.kernels import HERE

ROOT, CLSACT = "root", "ffff:fff1"
"""Parents of qdiscs: an interface's queues, and the hooks for filters on ingress and egress (TC_H_CLSACT)."""
NO_QUEUE = "noqueue"
QDISC_COUNTS = ("drops", "packets", "bytes", "overlimits")
XDP_LOSSES = ("xdp_xmit_errors", "xdp_tx_errors")
"""Suffixes of veth's statistics (ethtool -S) for frames that an XDP program sent and no ring accepted."""


@dataclass(frozen=True, slots=True)
class Port:
    """Location of one end of a link in counter readings."""

    ref: str
    """Port name, as machine.port."""
    netns: str | None
    """Network namespace."""
    interface: str
    """Interface name."""
    kernel: str = HERE
    """Machine whose kernel has the interface."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Values of all counters at one time."""

    reading: Reading
    """Counters of the sending kernel."""
    devices: Mapping[str, DeviceCounts]
    """Counters of reference devices, by receiving port."""
    elsewhere: Mapping[str, Reading] = field(default_factory=dict)
    """Counters of other kernels on the path, by kernel."""
    wires: Mapping[str, WireCounts] = field(default_factory=dict)
    """Counters of emulated paths, by link."""
    own: str = HERE
    """Kernel that sends the frames; `reading` has its counters."""

    def of(self, kernel: str) -> Reading:
        """Return the counters of a kernel."""
        return self.reading if kernel == self.own else self.elsewhere.get(kernel, self.reading)


@dataclass(frozen=True, slots=True)
class Counted:
    """Differences between two snapshots."""

    ports: Mapping[str, Port]
    """Location of each port on the paths."""
    before: Snapshot
    """First snapshot."""
    after: Snapshot
    """Second snapshot."""
    wire_ends: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Ports at the ends of emulated paths, by link."""

    def crosses(self, out: str, into: str) -> bool:
        """Whether two ports are on different kernels."""
        return self.ports[out].kernel != self.ports[into].kernel

    def frames(self, ref: str, *counters: str) -> int:
        """Return the sum of an interface's counter increases; 0 without two readings."""
        port = self.ports[ref]
        earlier = self.before.of(port.kernel).interface(port.netns, port.interface)
        later = self.after.of(port.kernel).interface(port.netns, port.interface)
        if earlier is None or later is None:
            return 0
        return sum(int(getattr(later, name) - getattr(earlier, name)) for name in counters)

    def qdisc_drops(self, ref: str) -> int:
        """Return the frames that an interface's qdiscs dropped."""
        return sum(row.drops for row in self.qdiscs(ref))

    def qdiscs(self, ref: str) -> tuple[QdiscCounters, ...]:
        """Return the counter increases of an interface's root qdiscs; there are several if each queue has its own
        qdisc."""
        return self._qdiscs(ref, ROOT)

    def filtered(self, ref: str) -> int:
        """Return the frames that filters and policers of an interface dropped (tc's ingress and clsact)."""
        return sum(row.drops for row in self._qdiscs(ref, CLSACT))

    def _qdiscs(self, ref: str, parent: str) -> tuple[QdiscCounters, ...]:
        port = self.ports[ref]
        earlier = _qdiscs(self.before.of(port.kernel), port, parent)
        later = _qdiscs(self.after.of(port.kernel), port, parent)
        return tuple(_increase(earlier.get(handle), row) for handle, row in later.items())

    def reset(self) -> tuple[str, ...]:
        """Return the ports whose counters decreased or disappeared: the interface was recreated, or its counters were
        reset."""
        names = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")
        return tuple(
            ref
            for ref, port in self.ports.items()
            if (earlier := self.before.of(port.kernel).interface(port.netns, port.interface)) is not None
            and (
                (later := self.after.of(port.kernel).interface(port.netns, port.interface)) is None
                or any(getattr(later, name) < getattr(earlier, name) for name in names)
            )
        )

    def begun_again(self) -> tuple[str, ...]:
        """Return the ports on which counters of a queue or filter decreased or disappeared, so earlier drops are
        unknown."""
        return tuple(
            ref
            for ref, port in self.ports.items()
            if any(
                _began_again(row, later.get(handle))
                for parent in (ROOT, CLSACT)
                for later in (_qdiscs(self.after.of(port.kernel), port, parent),)
                for handle, row in _qdiscs(self.before.of(port.kernel), port, parent).items()
            )
        )

    def xdp_losses(self, ref: str) -> int:
        """Return the frames that an XDP program sent on an interface and no ring accepted."""
        port = self.ports[ref]
        return _xdp_losses(self.after.of(port.kernel), port) - _xdp_losses(self.before.of(port.kernel), port)

    def has_device(self, ref: str) -> bool:
        """Whether frames that arrive on a port are passed to a reference device."""
        return ref in self.after.devices

    def ruled_out(self, ref: str) -> int:
        """Return the number of frames that the rule of a reference device dropped."""
        if ref not in self.after.devices or ref not in self.before.devices:
            return 0
        return self.after.devices[ref].dropped_frames - self.before.devices[ref].dropped_frames

    def on_wire(self, out: str, into: str) -> tuple[str, WayCounts] | None:
        """Return the emulated link from one port to another, and its frame counts; None if there is no emulated
        link."""
        for link, after in self.after.wires.items():
            before = self.before.wires.get(link)
            if before is None or (pair := self.wire_ends.get(link)) is None:
                continue
            for index, way in enumerate((pair, pair[::-1])):
                if way == (out, into):
                    return link, counted_since(before.ways[index], after.ways[index])
        return None

    def backlogs(self, kernel: str) -> dict[int, int]:
        """Return the number of frames that did not fit into the backlog of each CPU of a kernel."""
        earlier = _backlogs(self.before.of(kernel))
        return {
            cpu: count - earlier.get(cpu, count) for cpu, count in _backlogs(self.after.of(kernel)).items()
        }

    def reasons(self, kernel: str) -> dict[str, int]:
        """Return the packets that a kernel dropped, by drop reason."""
        return drop_reasons(self.before.of(kernel), self.after.of(kernel))

    def kernels(self) -> tuple[str, ...]:
        """Return the kernels whose counters were read, the sending kernel first."""
        return (self.after.own, *self.after.elsewhere)


def drop_reasons(before: Reading, after: Reading) -> dict[str, int]:
    """Return the packets that the whole kernel dropped between two readings, by drop reason."""
    earlier = _reasons(before)
    changes = {reason: count - earlier.get(reason, 0) for reason, count in _reasons(after).items()}
    return {reason: frames for reason, frames in changes.items() if frames > 0}


def _reasons(reading: Reading) -> dict[str, int]:
    rows = (row for seen in reading.observations if seen.sampler == "drops" for row in seen.drops)
    return dict(next((row.counters for row in rows if row.place == "reason"), {}))


def _backlogs(reading: Reading) -> dict[int, int]:
    rows = (row for seen in reading.observations if seen.sampler == "softnet" for row in seen.cpus)
    return {row["cpu"]: row["dropped"] for row in rows}


def _qdiscs(reading: Reading, port: Port, parent: str) -> dict[tuple[str, int], QdiscCounters]:
    """Return the qdiscs of an interface that have a given parent; equal handles (0: created by the kernel) are
    numbered."""
    rows = [
        row
        for seen in reading.observations
        if seen.sampler == "qdiscs" and seen.netns == port.netns
        for row in seen.qdiscs
        if row.interface == port.interface and row.parent == parent
    ]
    return {(row.handle, number): row for number, row in enumerate(rows)}


def _increase(earlier: QdiscCounters | None, later: QdiscCounters) -> QdiscCounters:
    """Return the counter increase of a qdisc; for a new qdisc, or one whose counters were reset, return the whole
    count."""
    if earlier is None or _began_again(earlier, later):
        return later
    changes = {name: getattr(later, name) - getattr(earlier, name) for name in QDISC_COUNTS}
    return replace(later, **changes)


def _began_again(earlier: QdiscCounters, later: QdiscCounters | None) -> bool:
    """Whether a qdisc disappeared or its counters decreased; a noqueue qdisc has no counters."""
    if later is None:
        return earlier.kind != NO_QUEUE
    return any(getattr(later, name) < getattr(earlier, name) for name in QDISC_COUNTS)


def _xdp_losses(reading: Reading, port: Port) -> int:
    return sum(
        value
        for seen in reading.observations
        if seen.sampler == "drops" and seen.netns == port.netns
        for row in seen.drops
        if row.place == "driver" and row.name == port.interface
        for name, value in row.counters.items()
        if name.endswith(XDP_LOSSES)
    )
