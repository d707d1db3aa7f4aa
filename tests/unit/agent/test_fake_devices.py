"""The fake agent's devices that hold frames: their latency, and refused actions."""

import pytest
from tests.fake_agent.agent import FakeAgent

from iolab.agent.client import Agent, Refused
from iolab.agent.messages import Histogram, Json
from iolab.agent.traffic import run_traffic
from iolab.clock import VirtualClock
from iolab.trial.histograms import quantile

FORWARD = {"kind": "forward", "interface": "eth1"}
PORTS = [{"name": "near", "interface": "p0"}, {"name": "far", "interface": "p1"}]
TRIAL: dict[str, Json] = {
    "id": "t",
    "duration_ns": 1_000_000_000,
    "senders": [{"port": "near", "tag": 1, "rate": {"frames": 8000, "per_ns": 1_000_000_000}}],
    "receivers": [{"port": "far", "of": 0}],
    "drain": {"quiet_ns": 1, "timeout_ns": 1},
}


def latency_through(stage: dict[str, Json]) -> Histogram:
    """Return the latency of a trial while a device with this stage runs."""
    agent = Agent(FakeAgent(clock=VirtualClock(now=1)))
    started = agent.call(
        "device.start", {"id": "dut", "interface": "eth0", "impairments": [stage], "action": FORWARD}
    )
    assert (started["mode"], started["instructions"]) == ("user", 0)
    agent.call("traffic.open", {"id": "t", "ports": PORTS})
    ran = run_traffic(agent, TRIAL)
    assert ran.receivers[0].received_frames == ran.senders[0].offered_frames == 8000
    return ran.receivers[0].latency_ns


def test_delay_impairment_adds_its_delay_to_every_frame() -> None:
    """Add 20 us of the fake and 1 ms of the device."""
    latency = latency_through({"kind": "delay", "delay_ns": 1_000_000})
    assert (latency.min, latency.max, latency.count) == (1_020_000, 1_020_000, 8000)


def test_stall_delays_only_the_frames_that_arrive_during_it() -> None:
    """Delay a tenth of the frames by half the stall's length on average, and none by more than its length."""
    latency = latency_through({"kind": "stall", "length_ns": 10_000_000, "every_ns": 100_000_000})
    assert latency.min == 20_000
    assert latency.max is not None
    assert 9_000_000 < latency.max <= 10_020_000
    assert latency.sum == 8000 * 20_000 + 800 * 5_000_000
    assert (quantile(latency, 0.5) or 0) < 21_000
    assert (quantile(latency, 0.95) or 0) > 4_000_000


def test_delay_on_a_device_that_does_not_forward_is_refused() -> None:
    """Refuse any other action, like the agent."""
    agent = Agent(FakeAgent(clock=VirtualClock(now=1)))
    stage = {"kind": "delay", "delay_ns": 1}
    with pytest.raises(Refused, match="delay"):
        agent.call(
            "device.start",
            {"id": "dut", "interface": "eth0", "impairments": [stage], "action": {"kind": "reflect"}},
        )
