"""What carries the frames of a wire: taps, which have super-frames, or veth pairs, which have rings. Pure."""

from typing import Literal

from iolab.experiment.experiment import Lab
from iolab.lab.links.link_topology import is_paced, joins_bridges
from iolab.lab.links.overlays import mtu_of

Carrier = Literal["veth", "whole", "apart"]
"""Veth pairs; taps that carry super-frames whole; taps with every frame apart."""
VETH_MOST_MTU = 3000
"""Longer frames do not fit a page with what the kernel keeps beside them [bytes]."""
FRAME_OVERHEAD_BYTES = 18
"""Ethernet's header and checksum."""


def carrier_of(lab: Lab, link: str) -> Carrier:
    """Return what is to carry the frames of a wire; where veth pairs cannot be had, the agent takes taps."""
    if veth_frame_bytes(lab, link) is not None:
        return "veth"
    return "apart" if is_paced(lab, link) else "whole"


def veth_frame_bytes(lab: Lab, link: str) -> int | None:
    """Return the longest frame (without FCS) where the ends of a wire are to be veth pairs; None: taps.

    They carry more frames a second, where every frame comes apart (TSO off), as far as nothing was asked for that they
    do not have: they hand frames on as they are, so checksums must be in them, and they take them in by the path that
    may join them (GRO). A wire that paces gives frames one by one, and ends on bridges get what guests join.
    """
    offload, mtu = lab.links[link].offload, mtu_of(lab, link)
    wants_more = "on" in (offload.tx_checksum, offload.sg) or offload.gro == "off"
    if is_paced(lab, link) or joins_bridges(lab, link) or offload.tso != "off" or wants_more:
        return None
    return mtu + FRAME_OVERHEAD_BYTES if mtu <= VETH_MOST_MTU else None  # a tag where the checksum would be
