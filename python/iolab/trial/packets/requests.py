"""Build the agent requests of packet trials: ports, frames, rates. Pure; other modules parse the answers."""

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
"""Minimum lateness of a sender that is logged as a stall [ns]."""
DRAIN = {"quiet_ns": 10_000_000, "timeout_ns": 15_000_000_000}
"""Drain parameters: a trial is over when no frame has arrived for 10 ms, the time to drain a full veth ring (256
frames) at 25 kpps.

The timeout is long, because draining a queue of 100 000 frames takes 10 s at 10 kpps.
"""
GUEST_DRAIN = {"quiet_ns": 500_000_000, "timeout_ns": 15_000_000_000}
"""Drain parameters for paths with virtual machines: an emulated one holds frames for 200 ms on a busy host."""
LONGEST_GAP_BYTES = 1518
"""Maximum length of a gap frame, whatever the length of the frames between which it creates gaps
(crates/engine/src/gap_frames.rs)."""
TAGS = 1 << 16
SET = "trial"
"""Name of the port set."""


def open_params(
    measure: Packets, directions: Sequence[Way], placement: Placement, *, movable: bool = True
) -> dict[str, Json]:
    """Return the parameters of traffic.open: one port for each end, with the halves (send, receive) that the end needs.

    If threads are not `movable`, because the agent belongs to an ordinary user, no priority is set.
    """
    ends = {point.ref: point for way in directions for point in (way.source, way.target)}
    ports = []
    for ref, point in ends.items():
        sends, receives = ref in placement.senders, ref in placement.receivers
        ports.append(
            {
                "name": ref,
                "netns": point.netns,
                "interface": point.port,  # the physical port, even for a VLAN, because the frames contain the tag
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
    """Return the maximum frame length of a port."""
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
    """Return the parameters of traffic.run for one load trial; `macs` has the next hop's MAC address by direction.

    `guests` is set if virtual machines may be on the path.
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
    # The kernel thread that feeds a receiver runs on the same CPU: a busy-polling receiver would starve it.
    receivers = [
        {"port": way.target.ref, "of": index, "waiting": "wait"} for index, way in enumerate(directions)
    ]
    drain = GUEST_DRAIN if guests else DRAIN
    # Frames on an emulated path arrive after its delay, even if no frame arrives in between.
    drain = {**drain, "quiet_ns": drain["quiet_ns"] + longest_wait_ns(lab, lab.links)}
    return {"id": SET, "duration_ns": duration_ns, "senders": senders, "receivers": receivers, "drain": drain}


def _replay(measure: Packets, name: str) -> dict[str, Json]:
    """Return the replay parameters: the recording, and the number of frames to send."""
    if measure.replay is None:
        return {}
    replay = measure.replay
    found: dict[str, Json] = {"replay": {"recording": name, "as_recorded": replay.timing == "recorded"}}
    if replay.loops:
        found["limit_frames"] = replay.loops * sent_of(measure).frames
    return found


def _contents(measure: Packets, way: Way, index: int) -> dict[str, Json]:
    """Return the fields after the Ethernet header in which the frames differ from the agent's defaults."""
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
