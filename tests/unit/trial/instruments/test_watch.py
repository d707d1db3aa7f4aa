"""Where a watch looks, what it asks its agents, and what becomes of a trial whose watch fails."""

import pytest
from tests.fake_agent.agent import FakeAgent

from iolab.agent.client import Agent
from iolab.errors import TrialFailed
from iolab.experiment import parse
from iolab.experiment.experiment import Lab
from iolab.experiment.factors.resolve import Resolver
from iolab.experiment.model.instruments import Watch
from iolab.lab.topology import make_topology
from iolab.trial.instruments.watch import WireWatch, points_of, train_gap_ns

FILE = """
lab:
  machines: {near: {kind: netns}, far: {kind: netns}, idle: {kind: netns}}
  links:
    pair: {ends: [near.p0, far.p0], shape: {at: near.p0, qdisc: tbf, rate: 1Mbit, burst: 8K, limit: 9K}}
    lan: {ends: [near.p1, far.p1, idle.p1], shape: {at: near.p1, qdisc: tbf, rate: 1Mbit, burst: 8K, limit: 9K}}
measure: {tcp: {kind: stream, from: near.p0, to: far.p0}}
"""


@pytest.fixture(scope="module")
def lab() -> Lab:
    """Two namespaces with a pair, and a bridge of three."""
    experiment = parse(FILE, "lab.yaml")
    return Resolver(experiment).setup({}).lab


def looks(lab: Lab, at: str) -> list[tuple[str, str, str, bool]]:
    """Return direction, port, hook of each point, and whether it is before a shaper."""
    return [
        (each.point.about.direction or "", str(each.port.ref), each.hook, each.point.before_queue)
        for each in points_of(lab, make_topology(lab), at)
    ]


@pytest.mark.parametrize("at", ["pair", "near.p0", "far.p0"])
def test_a_pair_is_watched_where_frames_come_in(lab: Lab, at: str) -> None:
    """There they have left the sender's shaper, and the ways past it have joined."""
    assert looks(lab, at) == [
        ("near.p0->far.p0", "far.p0", "ingress", False),
        ("far.p0->near.p0", "near.p0", "ingress", False),
    ]


def test_a_port_of_a_bridge_is_watched_on_both_sides_and_says_what_is_before_its_shaper(lab: Lab) -> None:
    """The far end is no port of the lab: what leaves is seen before it is queued."""
    assert looks(lab, "near.p1") == [
        ("->near.p1", "near.p1", "ingress", False),
        ("near.p1->", "near.p1", "egress", True),
    ]
    assert len(looks(lab, "lan")) == 6


@pytest.mark.parametrize(
    ("link", "entering"),
    [("shape: {at: near.p0, qdisc: pacer, rate: 1Mbit}", []), ("wire: {delay: 1ms}", ["near.p0->"])],
)
def test_a_pacer_and_a_path_are_watched_as_a_pair_is(link: str, entering: list[str]) -> None:
    """So that a pacer's port stands beside one with tc; of a path also what enters it."""
    text = FILE.replace("shape: {at: near.p0, qdisc: tbf, rate: 1Mbit, burst: 8K, limit: 9K}", link)
    lab = Resolver(parse(text, "lab.yaml")).setup({}).lab
    seen = looks(lab, "near.p0")
    assert [one[0] for one in seen] == ["near.p0->far.p0", "far.p0->near.p0", *entering]
    assert not any(before_queue for *_, before_queue in seen)


def test_begins_of_frames_within_one_and_a_half_frame_times_of_the_line_are_a_train(lab: Lab) -> None:
    """Long frames back to back begin one frame time apart; what that is follows from line and MTU."""
    assert train_gap_ns(Watch(at="pair", line=10**7)) == 1_845_600
    assert train_gap_ns(Watch(at="pair", line=10**9), 9000) == 108_456
    assert train_gap_ns(Watch(at="pair", line=10**12)) == 1_000
    assert train_gap_ns(Watch(at="pair")) == 5_000
    assert train_gap_ns(Watch.model_validate({"at": "pair", "train_gap": "7ns"})) == 7


def test_a_watch_begins_and_leaves_nothing(lab: Lab) -> None:
    """The agent has it while it runs."""
    fake = FakeAgent()
    agent = Agent(fake)
    watch = WireWatch(
        lambda _: agent, Watch(at="pair", line=10**9), points_of(lab, make_topology(lab), "pair")
    )
    watch.start()
    (asked,) = fake.watches.running.values()
    assert [point["netns"] for point in asked["points"]] == ["iolab-far", "iolab-near"]
    seen = watch.stop()
    assert (seen.metrics, seen.warnings, fake.watches.running) == ((), (), {})
    watch.start()
    watch.abandon()
    assert fake.watches.running == {}


def test_a_watch_that_ended_by_itself_fails_the_trial_with_its_reason(lab: Lab) -> None:
    """It is no result without the figures that were asked for."""
    fake = FakeAgent()
    agent = Agent(fake)
    watch = WireWatch(lambda _: agent, Watch(at="pair"), points_of(lab, make_topology(lab), "pair"))
    watch.start()
    fake.watches.running.clear()
    with pytest.raises(TrialFailed, match="there is no watch"):
        watch.stop()
