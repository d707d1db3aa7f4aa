"""What the agent is asked for in packet trials: ports, frames, rates. Pure; what came back is read elsewhere."""

from collections.abc import Mapping, Sequence

from iolab.agent.messages import Json
from iolab.experiment.experiment import Lab
from iolab.experiment.model.packets import Packets, Payload
from iolab.lab.links.wires import longest_wait_ns
from iolab.lab.packets.flow_addresses import Sweep, flow_sweeps, tunnel_ends
from iolab.lab.packets.frames import sent_of, sizes_of, vlans_of
from iolab.lab.packets.placement import Placement, Way
from iolab.units import NS_PER_S

STALL_NS = 100_000
"""From which lateness on a stall of the sender is logged [ns]."""
DRAIN = {"quiet_ns": 10_000_000, "timeout_ns": 15_000_000_000}
"""A trial is over when nothing has arrived for 10 ms: what a full veth ring (256 frames) takes at 25 kpps. It may take
long until then: a queue of 100 000 frames is emptied in 10 s at 10 kpps."""
GUEST_DRAIN = {"quiet_ns": 500_000_000, "timeout_ns": 15_000_000_000}
"""The same where virtual machines are on the way: emulated ones hold frames for 200 ms where the host is busy."""
LONGEST_GAP_BYTES = 1518
"""Of a gap frame, whatever the frames that it spaces (crates/engine/src/gap_frames.rs)."""
TAGS = 1 << 16
SET = "trial"
"""Name of the set of ports."""


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
                "frame_bytes": _longest_bytes(measure),
            }
        )
    return {"id": SET, "ports": [_present(port) for port in ports]}


def _longest_bytes(measure: Packets) -> int:
    """Return the longest frame that a port is to hold."""
    longest = max(size for size, _ in sizes_of(measure))
    return max(longest, LONGEST_GAP_BYTES) if measure.spacing == "gap-frames" else longest


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
                "sizes": [list(share) for share in sizes_of(measure)]
                if measure.replay is None
                else [[1518, 1]],
                "destination_mac": macs[way.name],
                "vlans": [{"id": vlan} for vlan in vlans_of(measure, lab, way)],
                **_contents(measure, way, index),
            },
            "rate": {"frames": max(1, round(fps)), "per_ns": NS_PER_S},
            **_replay(measure, way.name),
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


def _replay(measure: Packets, name: str) -> dict[str, Json]:
    """Return which recording is sent in place of such frames, and for how long."""
    if measure.replay is None:
        return {}
    replay = measure.replay
    found: dict[str, Json] = {"replay": {"recording": name, "as_recorded": replay.timing == "recorded"}}
    if replay.loops:
        found["limit_frames"] = replay.loops * sent_of(measure).frames
    return found


def _contents(measure: Packets, way: Way, index: int) -> dict[str, Json]:
    """Return what frames hold behind Ethernet, as far as it is not what the agent takes anyway."""
    rules = measure.flow_rules
    found: dict[str, Json] = {"flows": _flows(measure, way, index), "may_go_unstamped": True}
    if measure.protocol != "udp":
        found["transport"] = measure.protocol
    if measure.tunnel is not None:
        ends = tunnel_ends(measure, way, index)
        found["tunnel"] = {"kind": measure.tunnel, "source": ends[0], "destination": ends[1]}
        if measure.tunnel == "vxlan":
            found["tunnel"]["vni"] = measure.vni
    if measure.payload != Payload():
        found["payload"] = _payload(measure.payload)
    if rules is not None and rules.order == "random":
        found["flow_order"] = {"kind": "seeded", "seed": rules.seed}
    return found


def _payload(payload: Payload) -> dict[str, Json]:
    found: dict[str, Json] = {"kind": payload.kind}
    if payload.kind == "random":
        found["seed"] = payload.seed
    if payload.kind == "bytes":
        found["hex"] = payload.hex
    return found


def _flows(measure: Packets, way: Way, index: int) -> dict[str, Json]:
    sweeps = flow_sweeps(measure, way, index)
    return {"count": measure.flows, **{name: _range(sweep) for name, sweep in sweeps.items()}}


def _range(sweep: Sweep) -> dict[str, Json]:
    found: dict[str, Json] = {"first": sweep.first}
    if sweep.count > 1:
        found |= {"count": sweep.count, "step": sweep.step, "every": sweep.every}
    return found


def _present(params: Mapping[str, Json]) -> dict[str, Json]:
    return {name: value for name, value in params.items() if value is not None}
