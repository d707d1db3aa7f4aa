"""The addresses that flows of our own frames come from. Pure."""

from ipaddress import ip_address, ip_interface

from iolab.experiment.experiment import Lab
from iolab.lab.packets.placement import Way
from iolab.lab.topology import make_topology


def source_addresses(lab: Lab, way: Way, flows: int) -> tuple[str, int]:
    """Return the first of neighbouring addresses that frames come from, and how many there are for so many flows.

    A card chooses a receive queue by both addresses, and many do not look at UDP ports: flows that are to be spread
    need addresses of their own (RFC 4814, section 3). They are those of the sender's network above all that machines
    have, so a router lets them in and takes none for its own.
    """
    own = ip_interface(f"{way.source.address}/{way.source.prefix_length}")
    if flows == 1:
        return str(own.ip), 1
    segment = next(one for one in make_topology(lab).segments if way.source in one.endpoints)
    first = max(ip_address(point.address) for point in segment.endpoints) + 1
    room = int(own.network.broadcast_address) - int(first)
    return (str(first), min(flows, room)) if room > 1 else (str(own.ip), 1)
