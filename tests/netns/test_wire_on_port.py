"""Emulated links and pacers on the port of a host, which keeps its addresses, routes and connections."""

import json
import time
from collections.abc import Iterator

import pytest
from tests.netns.cabled_hosts import agents, lab_of, pair, shown
from tests.netns.runs import until
from tests.netns.sshd import SshHost

from iolab.lab.compose import compose
from iolab.lab.links.wires import wire_id
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab

__all__ = ["agents", "pair"]  # fixtures

pytestmark = pytest.mark.netns

LAB = """
lab:
  machines:
    pc6: {kind: host, ssh: pc6}
    pc7: {kind: host, ssh: pc7}
  links:
    lan: {ends: [pc6.lan0, pc7.lan0], cable: true, ip: both, wire: {delay: 20ms}}
measure:
  tcp: {kind: stream, from: pc6, to: pc7}
"""
OTHER = "198.18.251"
"""Network of the hosts' own addresses on the cable, which is not part of the lab."""


@pytest.fixture
def lab(pair: tuple[SshHost, SshHost], agents: Agents) -> Iterator[StandingLab]:
    """Provide a lab on two hosts, whose cable also has addresses of their own."""
    pair[1].inside(f"ip addr add {OTHER}.7/24 dev lan0")
    found = StandingLab(agents, lambda _: None)
    yield found
    found.take_down()


def ping_ms(host: SshHost, address: str) -> float:
    """Return the median round-trip time of pings [ms]; a host that stalls may lose or bypass a few."""
    text = host.inside(f"ping -c9 -i0.02 {address}")
    times = sorted(float(word.removeprefix("time=")) for word in text.split() if word.startswith("time="))
    assert len(times) >= 7, text
    return times[len(times) // 2]


def test_lab_packets_are_delayed_and_all_others_pass(
    pair: tuple[SshHost, SshHost],
    agents: Agents,
    lab: StandingLab,
) -> None:
    """Delay both IP versions in both directions; leave no trace."""
    before = [shown(host) for host in pair]
    lab.change_to(compose(lab_of(LAB)))
    assert lab.mismatches() == []
    six = json.loads(pair[1].inside("ip -j -6 addr show dev lan0 scope global"))
    wide = next(one["local"] for each in six for one in each.get("addr_info", ()))
    for address in ("198.18.0.2", wide):
        assert 40 <= ping_ms(pair[0], address) < 60
        pair[0].inside("ip neigh flush dev lan0")
    assert ping_ms(pair[0], f"{OTHER}.7") < 10
    agent = agents.of("pc6")
    counts = agent.begin("wire.read", {"id": wire_id("lan")}).result(10)
    for way in counts["ways"]:
        assert 14 <= way["arrived_frames"] <= 18
        assert way["arrived_frames"] + way["bypassed_packets"] <= 18
    lab.change_to(compose(lab_of(LAB.replace("20ms", "5ms"))))
    assert 10 <= ping_ms(pair[0], "198.18.0.2") < 30
    lab.take_down()
    assert [shown(host) for host in pair] == before


def test_packets_pass_at_once_after_the_death_of_the_agent(
    pair: tuple[SshHost, SshHost],
    agents: Agents,
    lab: StandingLab,
) -> None:
    """Kill the agent that carries the frames; the taps disappear, and packets between the lab's addresses pass."""
    lab.change_to(compose(lab_of(LAB)))
    assert ping_ms(pair[0], "198.18.0.2") >= 40
    pair[0].inside(f"kill -9 {pair[0].agents()[0]}")
    until(lambda: "o-pc6.lan0" not in pair[0].inside("ip -o link"), deadline_s=5)
    assert ping_ms(pair[0], "198.18.0.2") < 10
    agents.drop("pc6")


def test_pacer_on_the_port_limits_what_the_port_sends(
    pair: tuple[SshHost, SshHost],
    agents: Agents,
    lab: StandingLab,
) -> None:
    """Pace the lab's packets of the shaped port, here the second end, and leave the opposite direction unpaced."""
    shape = "shape: {at: pc7.lan0, qdisc: pacer, rate: 10Mbit}"
    lab.change_to(compose(lab_of(LAB.replace("wire: {delay: 20ms}", shape))))
    assert lab.mismatches() == []
    began = time.monotonic()
    pair[1].inside(
        "ping -q -c200 -l200 -s1400 -W2 198.18.0.1"
    )  # 200 frames of 1446 bytes: 0.23 s at 10 Mbit/s
    counts = agents.of("pc7").begin("wire.read", {"id": wire_id("lan")}).result(10)
    paced, unpaced = counts["ways"]
    assert paced["paced_ns"] >= paced["left_frames"] * 1446 * 8 * 100 * 0.99
    assert unpaced["paced_ns"] == 0
    assert paced["left_frames"] + paced["bypassed_packets"] == 200
    assert time.monotonic() - began >= 0.2
