"""What the agent is asked for in packet trials: ports, frames, rates. Pure; what came back is read elsewhere."""

from collections.abc import Mapping, Sequence

from iolab.agent.messages import Json
from iolab.experiment.experiment import Lab
from iolab.experiment.measures import Packets
from iolab.lab.links.wires import longest_wait_ns
from iolab.lab.packets.flow_addresses import source_addresses
from iolab.lab.packets.frames import sizes_of
from iolab.lab.packets.placement import Placement, Way

NS_PER_S = 1_000_000_000
STALL_NS = 100_000
"""From which lateness on a stall of the sender is logged [ns]."""
DRAIN = {"quiet_ns": 10_000_000, "timeout_ns": 15_000_000_000}
"""A trial is over when nothing has arrived for 10 ms: what a full veth ring (256 frames) takes at 25 kpps. It may take
long until then: a queue of 100 000 frames is emptied in 10 s at 10 kpps."""
GUEST_DRAIN = {"quiet_ns": 500_000_000, "timeout_ns": 15_000_000_000}
"""The same where virtual machines are on the way: emulated ones hold frames for 200 ms where the host is busy."""
FIRST_UDP_PORT, DISCARD_PORT = 1024, 9
"""Source port of the first flow; destination port of all (RFC 2544 appendix C.2.6.4 uses discard as well: RFC 863)."""
TAGS = 1 << 16
SET = "trial"
"""Name of the set of ports."""
IPV6_NETWORK = "2001:2:0:"
"""RFC 5180: addresses for benchmarking."""


def open_params(
    measure: Packets, directions: Sequence[Way], placement: Placement, *, movable: bool = True
) -> dict[str, Json]:
    """Return the parameters of traffic.open: one port for each end, with the halves that it needs.

    Where threads are not `movable` (an ordinary user's) none gets a priority.
    """
    ends = {point.ref: point for way in directions for point in (way.source, way.target)}
    ports = []
    for ref, point in ends.items():
        sends, receives = ref in placement.senders, ref in placement.receivers
        ports.append(
            {
                "name": ref,
                "netns": point.netns,
                "interface": point.port,  # the port itself, also below a VLAN's interface: the tag is in the frames
                "path": measure.path,
                "halves": "both" if sends and receives else "send" if sends else "receive",
                "send_cpu": placement.senders.get(ref),
                "further_send_cpus": list(placement.further.get(ref, ())) or None,
                "receive_cpu": placement.receivers.get(ref),
                "send_priority": placement.sender_priority if sends and movable else None,
                "receive_priority": placement.receiver_priority if receives and movable else None,
                "frame_bytes": max(size for size, _ in sizes_of(measure)),
            }
        )
    return {"id": SET, "ports": [_present(port) for port in ports]}


def run_params(
    measure: Packets,
    lab: Lab,
    directions: Sequence[Way],
    macs: Mapping[str, str],
    *,
    fps: float,
    duration_ns: int,
    number: int,
    guests: bool = False,
) -> dict[str, Json]:
    """Return the parameters of traffic.run for one load trial; `macs` gives each direction's next hop by its name.

    With `guests` virtual machines may be on the way.
    """
    senders = [
        {
            "port": way.source.ref,
            "tag": (number * len(directions) + index) % TAGS,
            "frames": {
                "sizes": [list(share) for share in sizes_of(measure)],
                "destination_mac": macs[way.name],
                "vlans": [{"id": vlan} for vlan in _vlans(measure, lab, way)],
                "flows": _flows(measure, lab, way, index),
            },
            "rate": {"frames": max(1, round(fps)), "per_ns": NS_PER_S},
            "max_burst": measure.max_burst,
            "stall": {"kind": "catch_up", "max_frames": measure.catch_up}
            if measure.catch_up
            else {"kind": "slip"},
            "stall_threshold_ns": STALL_NS,
            **({"gap_frames": {"line_bps": measure.line_rate}} if measure.spacing == "gap-frames" else {}),
        }
        for index, way in enumerate(directions)
    ]
    # The kernel's thread that feeds a receiver runs on the same CPU: one that never slept would starve it.
    receivers = [
        {"port": way.target.ref, "of": index, "waiting": "wait"} for index, way in enumerate(directions)
    ]
    drain = GUEST_DRAIN if guests else DRAIN
    # Frames that are on an emulated path come when its delay is over, however quiet it is until then.
    drain = {**drain, "quiet_ns": drain["quiet_ns"] + longest_wait_ns(lab, lab.links)}
    return {"id": SET, "duration_ns": duration_ns, "senders": senders, "receivers": receivers, "drain": drain}


def _vlans(measure: Packets, lab: Lab, way: Way) -> tuple[int, ...]:
    """Return the tag of frames: the measure's, or that of the link they enter."""
    if measure.vlan is not None:
        return (measure.vlan,)
    link = next(link for link in lab.links.values() if way.source.ref in link.ends)
    return () if link.vlan is None else (link.vlan,)


def _flows(measure: Packets, lab: Lab, way: Way, index: int) -> dict[str, Json]:
    """Return the flows: of each the source address and UDP port are one above those of the flow before."""
    if measure.ip == 6:
        sources = measure.flows
        source, target = f"{IPV6_NETWORK}{index + 1}::1", f"{IPV6_NETWORK}{2 - index}::1"
    else:
        (source, sources), target = source_addresses(lab, way, measure.flows), way.target.address
    return {
        "count": measure.flows,
        "source_address": {"first": source, "count": sources},
        "destination_address": {"first": target},
        "source_port": {"first": FIRST_UDP_PORT, "count": min(measure.flows, TAGS - FIRST_UDP_PORT)},
        "destination_port": {"first": DISCARD_PORT},
    }


def _present(params: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in params.items() if value is not None}
