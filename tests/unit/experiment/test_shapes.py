"""Impossible shapes: each is a clear error at check, with its line."""

import pytest

from iolab.errors import InputError
from iolab.experiment.check import parse
from iolab.experiment.model.links import Shape

TEXT = """\
lab:
  machines: {{a: {{kind: netns}}, b: {{kind: netns}}}}
  links:
    x:
      ends: [a.eth0, b.eth0]
      shape: {shape}
measure: {{tcp: {{kind: stream, protocol: tcp, from: a, to: b, duration: 1s}}}}
"""


def problems(shape: str) -> list[str]:
    """Return the problems of a shape on a.eth0."""
    try:
        parse(TEXT.format(shape=shape), "file.yaml")
    except InputError as error:
        return [str(problem) for problem in error.problems]
    return []


def classes(text: str, qdisc: str = "htb", more: str = "") -> str:
    """Return a shape of 600 Mbit/s with these classes."""
    return f"{{at: a.eth0, qdisc: {qdisc}, rate: 600Mbit, classes: {{{text}}}{more}}}"


@pytest.mark.parametrize(
    ("shape", "seen"),
    [
        (classes("g: {rate: 400Mbit, ceil: 300Mbit}"), "a ceil of 300000000 bit/s"),
        (classes("g: {rate: 700Mbit}"), "at most the maximum rate of the port, 600000000 bit/s"),
        (
            classes("g: {rate: 400Mbit, ceil: 700Mbit}"),
            "at most the maximum rate of the port, 600000000 bit/s",
        ),
        (
            classes("g: {rate: 400Mbit}, h: {rate: 300Mbit}"),
            "a total rate of 700000000 bit/s for the classes g, h",
        ),
        (classes("g: {rate: 400Mbit}, h: {rate: 300Mbit}", "pacer"), "at most the rate of the port"),
        (classes("g: {rate: 100Mbit}, h: {rate: 200Mbit, parent: g}"), "at most the maximum rate of g"),
        (classes("g: {rate: 100Mbit, parent: i}"), "a class:"),
        (
            classes("g: {rate: 1Mbit, parent: h}, h: {rate: 1Mbit, parent: g}"),
            "classes without a cycle in `parent`",
        ),
        (classes("g: {rate: 1Mbit, from: c}"), "a machine"),
        (
            classes("g: {rate: 2Mbit, from: a}, h: {rate: 1Mbit, parent: g}"),
            "g, which has the child classes h",
        ),
        (
            classes("g: {rate: 2Mbit}, h: {rate: 1Mbit, parent: g}", more=", default: g"),
            "without child classes",
        ),
        (classes("g: {rate: 2Mbit, burst: 10K}", "pacer"), "`burst` with the qdisc pacer"),
        (
            "{at: a.eth0, qdisc: pacer, rate: 10Mbit, burst: 1K}",
            "at least the size of one frame on this link",
        ),
        (
            "{at: a.eth0, qdisc: pacer, rate: 10Mbit, burst: 4K}\n      wire: {delay: 1ms}",
            "the pacer with `burst` on a link with `wire`",
        ),
        (
            classes("g: {rate: 2Mbit, leaf: {qdisc: codel}}", more=", limit: 1M"),
            "`leaf` on a class, and `limit` on the shape",
        ),
        ("{at: a.eth0, qdisc: pacer, rate: 0}", "rate"),
        ("{at: a.eth0, qdisc: htb, rate: 7}", "at least 8 bit/s"),
        ("{at: a.eth0, qdisc: tbf, rate: 1Mbit, burst: 1500}", "one frame on this link (1514 bytes)"),
        ("{at: a.eth0, qdisc: tbf, rate: 1Mbit, burst: 10K, limit: 5K}", "at least the size of the burst"),
        ("{at: a.eth0, qdisc: pacer, rate: 1Mbit, limit: 100}", "a queue of 100 bytes"),
        ("{at: a.eth0, qdisc: pacer, rate: 1Gbit, gso_max_segs: 1}", "`gso_max_segs` with the qdisc pacer"),
    ],
)
def test_invalid_shape_is_refused_with_one_problem(shape: str, seen: str) -> None:
    """Report it at the line of the shape."""
    (problem,) = problems(shape)
    assert seen in problem, problem


@pytest.mark.parametrize(
    "shape",
    [
        classes(
            "g: {rate: 400Mbit, ceil: 600Mbit, from: a}, h: {rate: 200Mbit, ceil: 600Mbit, from: b}", "pacer"
        ),
        classes(
            "all: {rate: 500Mbit, ceil: 600Mbit}, g: {parent: all, rate: 400Mbit, quantum: 1514, from: a}, "
            "h: {parent: all, rate: 100Mbit, ceil: 550Mbit, leaf: {qdisc: fq_codel, frames: 100}}",
            more=", default: h, gso_max_segs: 2",
        ),
        "{at: a.eth0, qdisc: fq, rate: 100Mbit, gso_max_segs: 4}",
    ],
)
def test_valid_shape_is_accepted(shape: str) -> None:
    """Check trees, borrowing, and queues of leaves."""
    assert problems(shape) == []


def test_shape_gives_a_flow_the_rate_of_the_port_and_of_the_classes_for_its_machines() -> None:
    """Use the ceil of a class, and leave out classes of other machines."""
    classes = {
        "g0": {"rate": "400Mbit", "ceil": "600Mbit", "from": "a"},
        "g1": {"rate": "100Mbit", "from": "c.eth1"},
        "g2": {"rate": "50Mbit", "from": "a", "to": "b"},
    }
    shape = Shape.model_validate({"at": "a.eth0", "qdisc": "pacer", "rate": "700Mbit", "classes": classes})
    assert shape.rates_between("a", "b") == [700_000_000, 600_000_000, 50_000_000]
    assert shape.rates_between("a", "d") == [700_000_000, 600_000_000]
