"""What the agent is asked to send for a load trial."""

import pytest
from tests.unit.trial.load_trials import ENDS, lab

from iolab.agent.messages import Json
from iolab.experiment.model.packets import Latency
from iolab.lab.packets.placement import place, ways
from iolab.lab.topology import make_topology
from iolab.trial.packets.paths import may_choose
from iolab.trial.packets.requests import open_params, run_params


@pytest.mark.parametrize(("keys", "line"), [({}, None), ({"spacing": "gap-frames"}, {"line_bps": 10**9})])
def test_a_sender_is_told_of_the_line_that_gap_frames_keep_full(
    keys: dict[str, object], line: dict[str, int] | None
) -> None:
    """Of no line where the clock spaces frames, even if a line bounds the loads."""
    measure = Latency.model_validate(
        {"kind": "latency", "rate": "10kpps", "line_rate": "1Gbit"} | ENDS | keys
    )
    made = lab()
    directions = ways(made, make_topology(made), measure)
    macs = {way.name: "02:00:00:00:00:02" for way in directions}
    asked = run_params(measure, made, directions, macs, fps=10_000, duration_ns=10**9, number=1)
    senders = asked["senders"]
    assert isinstance(senders, list)
    assert [one.get("gap_frames") for one in senders if isinstance(one, dict)] == [line]
    assert not (line and may_choose(measure, 1))


def frames(**keys: object) -> dict[str, Json]:
    """Return what the agent is asked for of the frames of a measure."""
    measure = Latency.model_validate({"kind": "latency", "rate": "10kpps"} | ENDS | keys)
    made = lab()
    directions = ways(made, make_topology(made), measure)
    macs = {way.name: "02:00:00:00:00:02" for way in directions}
    asked = run_params(measure, made, directions, macs, fps=10_000, duration_ns=10**9, number=1)
    found: dict[str, Json] = asked["senders"][0]["frames"]
    return found


def test_usual_frames_are_what_the_agent_sends_without_being_asked() -> None:
    """An agent of before the other headers takes them."""
    assert not {"transport", "tunnel", "payload", "flow_order"} & frames().keys()


def test_headers_and_payload_are_what_the_file_says() -> None:
    """Around the packets of the flows stands a tunnel between the ends."""
    rules = {"order": "random", "seed": 4}
    asked = frames(
        protocol="tcp", tunnel="vxlan", vni=9, payload="0xab", frame_size=128, flow_rules=rules, flows=8
    )
    assert asked["transport"] == "tcp"
    assert asked["tunnel"] == {"kind": "vxlan", "source": "198.18.0.1", "destination": "198.18.0.3", "vni": 9}
    assert asked["payload"] == {"kind": "bytes", "hex": "ab"}
    assert asked["flow_order"] == {"kind": "seeded", "seed": 4}


@pytest.mark.parametrize(("spacing", "longest"), [("clock", 64), ("gap-frames", 1518)])
def test_a_port_has_room_for_the_frames_between_its_frames(spacing: str, longest: int) -> None:
    """Gap frames are up to 1518 B long, however short those are that they space."""
    measure = Latency.model_validate(
        {"kind": "latency", "rate": "10kpps", "line_rate": "1Gbit", "spacing": spacing} | ENDS
    )
    made = lab()
    directions = ways(made, make_topology(made), measure)
    ports = open_params(measure, directions, place(directions, (0, 1)))["ports"]
    assert isinstance(ports, list)
    assert {one["frame_bytes"] for one in ports if isinstance(one, dict)} == {longest}
