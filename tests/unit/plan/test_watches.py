"""Where a watch looks for the frames that iolab sends itself, and which watches a plan refuses."""

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
    """Plan a measure of own frames; return direction, port and hook of each point of its watch."""
    experiment = parse(text, "lab.yaml")
    make_plan(experiment, facts)
    setup = Resolver(experiment).setup({})
    placement = placement_of(setup, "rate", (0, 1))
    assert placement is not None
    (watch,) = setup.measures["rate"].watch
    points = points_of(setup.lab, make_topology(setup.lab), watch.at, placement.past_stack)
    return [(each.point.about.direction or "", str(each.port.ref), each.hook) for each in points]


def test_own_frames_that_an_xdp_program_takes_are_watched_where_the_device_sends_them(facts: Facts) -> None:
    """The program runs before anything in the stack at the receiving port; the other way is seen on arrival."""
    assert forwarded(facts) == [("dut.p1->t.b", "dut.p1", "egress"), ("t.b->dut.p1", "dut.p1", "ingress")]
    assert forwarded(facts, FORWARDED.replace("[east]", "[west]"))[0] == ("t.a->dut.p0", "dut.p0", "ingress")


def test_own_frames_by_af_packet_are_watched_on_arrival(facts: Facts) -> None:
    """They go on into the stack of the receiver."""
    text = FORWARDED.replace("rate: 1kpps", "rate: 1kpps, path: af_packet")
    assert forwarded(facts, text)[0] == ("dut.p1->t.b", "t.b", "ingress")


def test_on_an_emulated_path_that_ends_at_a_receiver_the_watch_sees_what_enters_it(facts: Facts) -> None:
    """What leaves the path is taken by an XDP program, and is not what entered it."""
    text = FORWARDED.replace("[dut.p1, t.b]}", "[dut.p1, t.b], wire: {delay: 1ms}}")
    assert forwarded(facts, text) == [
        ("t.b->dut.p1", "dut.p1", "ingress"), ("dut.p1->", "dut.p1", "egress"), ("t.b->", "t.b", "egress"),
    ]  # fmt: skip


@pytest.mark.parametrize("at", ["east", "dut.p1", "t.b"])
def test_a_watch_that_could_see_none_of_the_frames_is_refused_by_the_plan(facts: Facts, at: str) -> None:
    """An XDP program sends them past the stack, and another takes them before it."""
    text = FORWARDED.replace("forward: bridge", "forward: xdp").replace("[east]", f"[{at}]")
    with pytest.raises(InputError, match=r"where frames dut\.p1->t\.b bypass the kernel's network stack"):
        forwarded(facts, text)


@pytest.mark.parametrize(("at", "seen_at"), [("t.b", "dut.p1"), ("t.a", "dut.p0")])
def test_a_capture_where_no_packet_of_the_stack_carries_the_frames_is_refused(
    facts: Facts, at: str, seen_at: str
) -> None:
    """It would end with an empty file; the other end of the cable sees them."""
    text = FORWARDED.replace("watch: [east]", f"capture: [{at}]")
    with pytest.raises(
        InputError,
        match=rf"a capture on {at}, where frames .* a port where the stack handles these frames: {seen_at}",
    ):
        make_plan(parse(text, "lab.yaml"), facts)


@pytest.mark.parametrize("at", ["dut.p0", "dut.p1", "east", "west"])
def test_a_capture_of_which_one_port_sees_the_frames_is_planned(facts: Facts, at: str) -> None:
    """Of a link both ends are captured, and one of them is the device's."""
    make_plan(parse(FORWARDED.replace("watch: [east]", f"capture: [{at}]"), "lab.yaml"), facts)


def test_a_capture_at_the_receiver_of_frames_by_af_packet_is_planned(facts: Facts) -> None:
    """They go on into the stack of the receiver."""
    text = FORWARDED.replace("rate: 1kpps, watch: [east]", "rate: 1kpps, path: af_packet, capture: [t.b]")
    make_plan(parse(text, "lab.yaml"), facts)
