"""Watch points for iolab's test frames, and watches that a plan refuses."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.experiment.factors.resolve import Resolver
from iolab.lab.hosts.facts import Facts
from iolab.lab.packets.placement import placement_of
from iolab.lab.topology import make_topology
from iolab.plan.planning import make_plan
from iolab.trial.instruments.watch import points_of

FORWARDED = """
lab:
  machines:
    t: {kind: netns}
    dut: {kind: netns, forward: bridge}
  links:
    west: {ends: [t.a, dut.p0]}
    east: {ends: [dut.p1, t.b]}
measure:
  rate: {kind: latency, from: t.a, to: t.b, rate: 1kpps, watch: [east]}
"""


def forwarded(facts: Facts, text: str = FORWARDED) -> list[tuple[str, str, str]]:
    """Plan a packet measure; return direction, port and hook of each point of its watch."""
    experiment = parse(text, "lab.yaml")
    make_plan(experiment, facts)
    setup = Resolver(experiment).setup({})
    placement = placement_of(setup, "rate", (0, 1))
    assert placement is not None
    (watch,) = setup.measures["rate"].watch
    points = points_of(setup.lab, make_topology(setup.lab), watch.at, placement.past_stack)
    return [(each.point.about.direction or "", str(each.port.ref), each.hook) for each in points]


def test_test_frames_forwarded_by_xdp_are_watched_on_egress(facts: Facts) -> None:
    """Watch there, because the program runs before the stack of the receiving port."""
    assert forwarded(facts) == [("dut.p1->t.b", "dut.p1", "egress"), ("t.b->dut.p1", "dut.p1", "ingress")]
    assert forwarded(facts, FORWARDED.replace("[east]", "[west]"))[0] == ("t.a->dut.p0", "dut.p0", "ingress")


def test_test_frames_over_af_packet_are_watched_on_arrival(facts: Facts) -> None:
    """Watch there, because the frames continue into the receiver's stack."""
    text = FORWARDED.replace("rate: 1kpps", "rate: 1kpps, path: af_packet")
    assert forwarded(facts, text)[0] == ("dut.p1->t.b", "t.b", "ingress")


def test_watch_on_an_emulated_link_to_a_receiver_sees_the_ingress(facts: Facts) -> None:
    """Watch the entry, because an XDP program consumes frames that leave the link."""
    text = FORWARDED.replace("[dut.p1, t.b]}", "[dut.p1, t.b], wire: {delay: 1ms}}")
    assert forwarded(facts, text) == [
        ("t.b->dut.p1", "dut.p1", "ingress"), ("dut.p1->", "dut.p1", "egress"), ("t.b->", "t.b", "egress"),
    ]  # fmt: skip


@pytest.mark.parametrize("at", ["east", "dut.p1", "t.b"])
def test_watch_that_cannot_see_any_test_frame_is_refused(facts: Facts, at: str) -> None:
    """Refuse it, because XDP programs bypass the stack on both ends."""
    text = FORWARDED.replace("forward: bridge", "forward: xdp").replace("[east]", f"[{at}]")
    with pytest.raises(
        InputError, match=r"where frames from dut\.p1 to t\.b bypass the kernel's network stack"
    ):
        forwarded(facts, text)


@pytest.mark.parametrize(("at", "seen_at"), [("t.b", "dut.p1"), ("t.a", "dut.p0")])
def test_capture_on_a_port_that_bypasses_the_stack_is_refused(facts: Facts, at: str, seen_at: str) -> None:
    """Suggest the other end of the cable instead of an empty file."""
    text = FORWARDED.replace("watch: [east]", f"capture: [{at}]")
    with pytest.raises(
        InputError,
        match=rf"a capture on {at}, where frames .* a port where the stack handles these frames: {seen_at}",
    ):
        make_plan(parse(text, "lab.yaml"), facts)


@pytest.mark.parametrize("at", ["dut.p0", "dut.p1", "east", "west"])
def test_capture_of_a_link_is_accepted_if_one_port_sees_the_frames(facts: Facts, at: str) -> None:
    """Capture both ends of a link, one of which is the device's."""
    make_plan(parse(FORWARDED.replace("watch: [east]", f"capture: [{at}]"), "lab.yaml"), facts)


def test_capture_at_an_af_packet_receiver_is_accepted(facts: Facts) -> None:
    """Capture there, because the frames continue into the receiver's stack."""
    text = FORWARDED.replace("rate: 1kpps, watch: [east]", "rate: 1kpps, path: af_packet, capture: [t.b]")
    make_plan(parse(text, "lab.yaml"), facts)
