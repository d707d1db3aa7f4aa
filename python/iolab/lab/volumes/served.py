"""Volumes behind a target, as their initiator reaches them: those that the lab exports, and existing ones. Pure."""

from ipaddress import ip_address, ip_network
from uuid import NAMESPACE_URL, uuid5

from iolab.experiment.experiment import Lab
from iolab.experiment.model.targets import ExistingTarget, SecretSource
from iolab.frozen import frozen
from iolab.lab.actions import Run
from iolab.lab.kernels import kernel_of
from iolab.lab.topology import Topology, netns_of
from iolab.lab.volumes.exports import (
    NAMES,
    NVME_NAMES,
    host_name,
    initiator_name,
    initiator_of,
    port_of,
    subsystem_name,
    target_name,
    way_of,
)


@frozen(kw_only=True)
class Served:
    """A volume behind a target."""

    name: str
    """Name of the volume."""
    protocol: str
    """iscsi, nvme-tcp or nbd."""
    address: str
    """Address of the target."""
    port: int
    """TCP port of the target."""
    target: str
    """Name of the target in its protocol: an iSCSI name, an NVMe name or an export name."""
    unit: int = 1
    """Logical unit number, or namespace identifier."""
    initiator: str
    """Name with which the initiator logs in."""
    user: str = ""
    """CHAP user; empty: no CHAP."""
    secret: str = ""
    """CHAP secret that the lab sets on its own target."""
    source: SecretSource | None = None
    """Place of the CHAP secret of an existing target."""
    identity: str = ""
    """Identity of an existing target, without the serial number; empty: the lab makes the target."""
    consents: tuple[str, ...] = ()
    """Identities with serial numbers to which the user permits writing; empty: an existing target is only read."""
    kernel: str
    """Kernel of the initiator."""
    netns: str | None = None
    """Network namespace of the initiator; None: the initial namespace of its kernel."""

    @property
    def exists(self) -> bool:
        """Whether the target exists before the lab."""
        return bool(self.identity)

    @property
    def read_only(self) -> bool:
        """Whether the disk is attached read-only."""
        return self.exists and not self.consents

    @property
    def portal(self) -> str:
        """Address and port, as in a URI."""
        return f"{f'[{self.address}]' if ':' in self.address else self.address}:{self.port}"

    @property
    def host_id(self) -> str:
        """NVMe host identifier, which is unique for each host name."""
        return str(uuid5(NAMESPACE_URL, self.initiator))


@frozen
class Connected:
    """The connection of a kernel to a target."""

    actions: tuple[Run, ...]
    find: tuple[str, ...]
    """Script with its arguments that finds the disk after connecting."""
    show_timeouts: tuple[str, ...]
    """Script with its arguments that shows the time-outs of the session."""
    timeouts: str
    """Expected output of the script `show_timeouts`."""


def served_of(lab: Lab, topology: Topology, name: str) -> Served | None:
    """Return a volume behind a target; None: the volume is behind no target, or no machine uses it.

    Raises:
        InputError: no link joins target and initiator.
    """
    volume, machine = lab.volumes[name], initiator_of(lab, name)
    if machine is None:
        return None
    if volume.existing_target is not None:
        return _existing(lab, topology, name, machine, volume.existing_target)
    if volume.export is None or (way := way_of(lab, topology, name)) is None:
        return None
    nvme = volume.export == "nvme-tcp"
    named = {"iscsi": target_name(name), "nvme-tcp": subsystem_name(name), "nbd": name}
    return Served(
        name=name,
        protocol=volume.export,
        address=way[0].address,
        port=port_of(lab, name),
        target=named[volume.export],
        initiator=(host_name if nvme else initiator_name)(machine),
        user="" if volume.chap is None else volume.chap.user,
        secret="" if volume.chap is None else volume.chap.secret,
        kernel=way[1].kernel,
        netns=way[1].netns,
    )


def _existing(lab: Lab, topology: Topology, name: str, machine: str, target: ExistingTarget) -> Served:
    there = None if target.machine is None else topology.endpoint(target.machine, towards=machine, ip=4)
    chap = target.chap
    return Served(
        name=name,
        protocol=target.protocol,
        address=target.host if there is None else there.address,
        port=target.port,
        target=target.target,
        unit=target.unit,
        initiator=target.initiator or initiator_for(lab, target, machine),
        user="" if chap is None else chap.user,
        source=None if chap is None else chap.secret,
        identity=target.identity,
        consents=consents_to(lab, name),
        kernel=kernel_of(lab, machine),
        netns=netns_of(lab, machine),
    )


def addresses_to(lab: Lab, topology: Topology, served: Served) -> tuple[str, ...]:
    """Return the keys of the addresses from which an initiator reaches an existing target: those on the target's
    network."""
    machine = initiator_of(lab, served.name)
    there = ip_address(served.address)
    return tuple(
        f"address:{point.ref}"
        for segment in topology.segments
        if (network := segment.network_of(there.version)) is not None and there in ip_network(network)
        for point in segment.endpoints
        if point.machine == machine
    )


def initiator_for(lab: Lab, target: ExistingTarget, machine: str) -> str:
    """Return the name with which a machine logs in to an existing target.

    The lab's tag is part of the name: open-iscsi numbers the ISIDs of each kernel from 1, and a login with the name
    and the ISID of a session ends that session (RFC 7143, 6.3.5).
    """
    prefix = NVME_NAMES if target.protocol == "nvme-tcp" else NAMES
    return f"{prefix}:{lab.tag or 'lab'}.{machine.lower()}"


def consents_to(lab: Lab, name: str) -> tuple[str, ...]:
    """Return the identities under which the user permits writing to an existing target; empty: writing is not
    permitted."""
    volume = lab.volumes[name]
    target = volume.existing_target
    if target is None or volume.writes is None:
        return ()
    given = sorted(lab.consents.writes)
    if target.protocol == "nbd":
        return tuple(one for one in given if one == target.identity)
    return tuple(one for one in given if one.rpartition("/")[0] == target.identity)
