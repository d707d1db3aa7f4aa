"""Requests of a capture to its agents, and trials whose capture fails."""

import base64

import pytest
from tests.fake_agent.agent import FakeAgent

from iolab.agent.client import Agent
from iolab.errors import InputError, TrialFailed
from iolab.experiment import parse
from iolab.experiment.factors.resolve import Resolver
from iolab.experiment.model.instruments import Capture, CaptureFilter
from iolab.lab.topology import make_topology
from iolab.trial.instruments.capture import PortCapture, captured_ports, filter_of

FILE = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}}
  links: {pair: {ends: [near.p0, far.p0]}}
measure: {tcp: {kind: stream, from: near, to: far, capture: [CAPTURE]}}
"""


def text_of(capture: str) -> str:
    """Return an experiment with a capture."""
    return FILE.replace("CAPTURE", capture)


def test_capture_of_a_link_covers_all_its_ports_and_a_machine_filter_covers_all_its_addresses() -> None:
    """Translate names of the lab to interfaces and addresses."""
    lab = Resolver(parse(text_of("pair"), "lab.yaml")).setup({}).lab
    topology = make_topology(lab)
    assert [str(port.ref) for port in captured_ports(lab, topology, "pair")] == ["near.p0", "far.p0"]
    assert [str(port.ref) for port in captured_ports(lab, topology, "far.p0")] == ["far.p0"]
    asked = filter_of(topology, CaptureFilter(protocol="udp", host="far", port=53))
    (address,) = asked["addresses"]
    assert address.startswith("198.18.")
    assert asked == {"protocol": 17, "addresses": [address], "port": 53}
    assert filter_of(topology, CaptureFilter(host="192.0.2.1")) == {"addresses": ["192.0.2.1"]}
    assert filter_of(topology, CaptureFilter()) == {}


@pytest.mark.parametrize(
    ("capture", "said"),
    [
        ("neer.p0", "near.p0"),
        ("{at: pair, filter: {host: farr}}", "farr"),
        ("{at: pair, filter: {port: 0}}", "port"),
        ("{at: pair, filter: {protocol: tpc}}", "tcp"),
        ("{at: pair, snaplen: 0}", "snaplen"),
        ("{at: pair, snaplen: 1M}", "snaplen"),
        ("{at: pair, ring: 10K}", "ring"),
        ("{at: pair, ring: 2G}", "ring"),
    ],
)
def test_check_rejects_an_invalid_capture(capture: str, said: str) -> None:
    """Report place and allowed values."""
    with pytest.raises(InputError) as refused:
        parse(text_of(capture), "lab.yaml")
    assert said in str(refused.value)


def started(fake: FakeAgent) -> PortCapture:
    """Return a started capture of a port."""
    lab, agent = Resolver(parse(text_of("pair"), "lab.yaml")).setup({}).lab, Agent(fake)
    ports = captured_ports(lab, make_topology(lab), "near.p0")
    capture = PortCapture(lambda _: agent, Capture(at="near.p0"), ports, {})
    capture.start()
    return capture


def test_capture_returns_a_file_per_port_and_counts_lost_frames() -> None:
    """Give them as metrics, and as warnings if there are any."""
    fake_agent = FakeAgent()
    fake_agent.captures.lost_frames = 3
    capture = started(fake_agent)
    seen = capture.stop()
    assert seen.files == {"near.p0.pcapng": base64.b64decode(fake_agent.captures.file)}
    assert [(metric.name, metric.value) for metric in seen.metrics][1:] == [
        ("capture_lost_frames", 3),
        ("capture_overwritten_frames", 0),
    ]
    assert [warning.code for warning in seen.warnings] == ["capture-lost"]
    assert not fake_agent.captures.running


def test_refused_capture_fails_the_trial() -> None:
    """Leave nothing running."""
    fake_agent = FakeAgent()
    capture = started(fake_agent)
    with pytest.raises(TrialFailed, match="capture-failed: at=near"):
        capture.start()
    capture.abandon()
    assert not fake_agent.captures.running
