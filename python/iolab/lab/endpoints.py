"""What a lab's topology is made of: ports, endpoints with addresses, segments, routes, homes of programs."""

from dataclasses import replace

from iolab.experiment.model.quantities import PortRef
from iolab.frozen import frozen
from iolab.lab.kernels import HERE
from iolab.units import ETHERNET_HEADER_BYTES

VERSIONS = (4, 6)
"""Of IP; the first is taken where both lead to a place."""


def version_of(address: str) -> int:
    """Return the version of IP of an address or a network."""
    return 6 if ":" in address else 4


@frozen
class Port:
    """An end of a link."""

    machine: str
    """The machine's name."""
    name: str
    """The port's name, which is the interface's."""
    link: str
    """The link's name."""
    netns: str | None
    """Network namespace it lives in; None: the kernel's own."""
    interface: str
    """The interface that carries its packets: the port itself, or its VLAN's sub-interface."""
    bridge: str | None
    """The bridge that its machine puts it on; None: the machine does not bridge."""
    kernel: str = HERE
    """The machine whose kernel it lives on; empty: this computer."""
    children: tuple[str, ...] = ()
    """Links that join its machine's children to it, by its bridge or by its card's own switch."""

    @property
    def ref(self) -> PortRef:
        """Return machine.port."""
        return PortRef.of(self.machine, self.name)


@frozen
class Endpoint:
    """An interface with an address: where packets of a machine begin and end."""

    machine: str
    """The machine's name."""
    port: str
    """The port's name; of a machine that bridges its ports: the bridge's name."""
    netns: str | None
    """Network namespace it lives in; None: the kernel's own."""
    interface: str
    """The interface's name."""
    address: str
    """IP address."""
    prefix_length: int
    """Of its network [bit]."""
    kernel: str = HERE
    """The machine whose kernel it lives on; empty: this computer."""
    cpus: tuple[int, ...] = ()
    """CPUs of the programs of its machine; empty: all of the kernel's."""
    counted_bytes: int = ETHERNET_HEADER_BYTES
    """What the kernel counts at the interface of each packet beside the packet [bytes]."""
    second: tuple[str, int] | None = None
    """An IPv6 address beside one of IPv4, and its prefix length; None: there is one address."""

    def of(self, ip: int) -> "Endpoint | None":
        """Return the endpoint with its address of one version of IP; None: it has none."""
        if version_of(self.address) == ip:
            return self
        if self.second is None:
            return None
        return replace(self, address=self.second[0], prefix_length=self.second[1], second=None)

    def each(self) -> "tuple[Endpoint, ...]":
        """Return the endpoint once with each of its addresses."""
        return tuple(found for ip in VERSIONS if (found := self.of(ip)) is not None)

    @property
    def ref(self) -> PortRef:
        """Return machine.port."""
        return PortRef.of(self.machine, self.port)


@frozen
class Segment:
    """Links joined by bridging machines: what an Ethernet broadcast reaches."""

    name: str
    """Its first link."""
    links: tuple[str, ...]
    """In the order written."""
    network: str
    """IP network with prefix length, that of the endpoints' addresses."""
    ports: tuple[Port, ...]
    """In the order written."""
    endpoints: tuple[Endpoint, ...]
    """One per port that is not bridged, and one per bridging machine."""
    below: frozenset[str] = frozenset()
    """Links that carry its own."""
    second: str | None = None
    """IPv6 network beside one of IPv4."""

    def network_of(self, ip: int) -> str | None:
        """Return the network of one version of IP; None: the segment has none."""
        if version_of(self.network) == ip:
            return self.network
        return self.second if ip != 4 else None

    def has(self, ref: str) -> bool:
        """Tell whether a machine, or machine.port, has an endpoint here."""
        return any(owns(self, point, ref) for point in self.endpoints)


@frozen
class Route:
    """A static route."""

    machine: str
    """Where it is set."""
    netns: str | None
    """Network namespace it is set in."""
    via_port: Endpoint
    """The interface it leaves by."""
    destination: str
    """Network with prefix length."""
    gateway: str
    """Address of the next router."""
    kernel: str = HERE
    """The machine whose kernel it is set in; empty: this computer."""


@frozen
class Home:
    """Where programs of a machine run."""

    kernel: str
    """The machine whose kernel it is; empty: this computer."""
    netns: str | None
    """Network namespace; None: the kernel's own."""
    cpus: tuple[int, ...] = ()
    """CPUs of its programs; empty: all of the kernel's."""


def owns(segment: Segment, point: Endpoint, ref: str) -> bool:
    """Tell whether `ref` (machine or machine.port) is at this endpoint; a bridged port is at its bridge's."""
    if not ref.startswith(point.machine):
        return False  # most are not: said before the name is taken apart
    wanted = PortRef(ref)
    if point.machine != wanted.machine:
        return False
    if not wanted.port or point.port == wanted.port:
        return True
    there = (own for own in segment.ports if own.bridge == point.interface)
    return any(own.name == wanted.port and own.machine == wanted.machine for own in there)
