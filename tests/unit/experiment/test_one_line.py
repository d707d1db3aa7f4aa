"""Experiments in one line: the file that comes of one, where its keys go, and what is refused."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Setup
from iolab.experiment.one_line import OneLine, experiment_of, short_forms

PROGRAM = "ping -c 3 '{b}' \"two words\""


def text_of(kind: str, *ends: str, program: str = "", **levels: tuple[str, ...]) -> str:
    """Return the file of a line; in names of keys two underscores stand for a dot."""
    first, second = ends or ("a", "b")
    dotted = {name.replace("__", "."): given for name, given in levels.items()}
    return experiment_of(OneLine(kind, (first, second), program, dotted))


def setups(text: str) -> list[Setup]:
    """Return what each cell of a file is."""
    experiment = parse(text, "line")
    resolver = Resolver(experiment)
    return [resolver.setup(cell) for cell in cells(experiment)]


@pytest.mark.parametrize("kind", short_forms())
def test_each_kind_makes_a_file_that_is_correct(kind: str) -> None:
    """With nothing but its ends."""
    (setup,) = setups(text_of(kind, program=PROGRAM if short_forms()[kind][1].program else ""))
    assert setup.measures[kind].kind == short_forms()[kind][0].name


def test_keys_go_to_the_measure_or_to_the_link_and_their_levels_are_factors() -> None:
    """The first level of each is the baseline."""
    text = text_of("tcp", mtu=("1500", "9000"), window=("16K",), wire__delay=("0ms", "10ms"))
    seen = [(one.lab.links["lan"].mtu, one.lab.links["lan"].wire) for one in setups(text)]
    assert [mtu for mtu, _ in seen] == [1500, 1500, 9000, 9000]
    experiment = parse(text, "line")
    assert experiment.baseline == {"links.lan.mtu": "1500", "links.lan.wire.delay": "0ms"}
    assert "window: 16K" in text


def test_a_key_of_both_is_the_measures() -> None:
    """`rate` of a UDP stream is its own; the line's is `wire.rate`."""
    assert "udp.rate: [1Mbit, 2Mbit]" in text_of("udp", rate=("1Mbit", "2Mbit"))


def test_a_shape_stands_at_the_first_end() -> None:
    """Until another is given."""
    assert "at: a.eth0" in text_of("tcp", shape__qdisc=("tbf",), shape__rate=("1Mbit",), shape__burst=("4K",))


def test_frames_are_passed_on_by_a_third_machine() -> None:
    """Which is the device under test."""
    forwards = [
        setup.lab.machines["dut"].forward for setup in setups(text_of("forwarding", forward=("route", "xdp")))
    ]
    assert forwards == ["route", "xdp"]


def test_two_computers_are_joined_by_their_cable() -> None:
    """By the interfaces that the line names."""
    (setup,) = setups(text_of("tcp", "root@alpha:eth1", "root@beta:ens2f0"))
    assert [str(end) for end in setup.lab.links["lan"].ends] == ["one.eth1", "other.ens2f0"]
    assert setup.lab.links["lan"].cable


def test_a_program_is_taken_apart_as_a_shell_does() -> None:
    """And no shell reads it."""
    (setup,) = setups(text_of("command", program=PROGRAM))
    assert setup.measures["command"].run == ("ping", "-c", "3", "{b}", "two words")  # type: ignore[attr-defined]


def test_the_file_begins_with_the_line_that_makes_it_again() -> None:
    """With all that the file depends on."""
    assert text_of("tcp", mtu=("1500", "9000")).startswith(
        "# iolab quick tcp a b --mtu 1500,9000 --blocks 5\n"
    )


HOSTILE = "1500}\nlab: {machines: {x: {kind: host, ssh: root@evil}}}\n"


def test_a_level_cannot_write_another_part_of_the_file() -> None:
    """It is one value, which is then refused as any other."""
    with pytest.raises(InputError) as caught:
        parse(text_of("tcp", mtu=(HOSTILE,)), "line")
    assert "mtu" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "ends", "program", "levels", "said"),
    [
        ("tcp", ("a", "a"), "", {}, "saw a twice; allowed: two different names"),
        ("tcp", ("a]", "b"), "", {}, "saw a]; allowed: at most 40 letters, digits"),
        ("tcp", ("a", "root@b:eth1"), "", {}, "two names, or user@host:interface for both ends"),
        ("tcp", ("root@a", "root@b:eth1"), "", {}, "saw root@a; allowed: user@host:interface"),
        ("forwarding", ("root@a:eth1", "root@b:eth1"), "", {}, "two machine names for forwarding"),
        (
            "tcp",
            ("a", "b"),
            "",
            {"mut": ("1500",)},
            "saw mut; allowed: a setting of the measure (capture, congestion",
        ),
        ("tcp", ("a", "b"), "", {"from": ("x",)}, "saw from; allowed"),
        ("forwarding", ("a", "b"), "", {"mtu": ("1500",)}, "of the lab (forward)"),
        (
            "tcp",
            ("a", "b"),
            "",
            {"wire": ("x",), "wire.delay": ("1ms",)},
            "wire or keys below wire, not both",
        ),
        ("command", ("a", "b"), "", {}, "saw none; allowed: a quoted program after the two ends"),
        ("command", ("a", "b"), "it's", {}, "saw it's; allowed: a command that a shell can split"),
        ("tcp", ("a", "b"), "ping", {}, "saw ping; allowed: no program"),
    ],
)
def test_what_a_line_cannot_say_is_refused(
    kind: str, ends: tuple[str, str], program: str, levels: dict[str, tuple[str, ...]], said: str
) -> None:
    """With what was seen and what is allowed."""
    with pytest.raises(InputError) as caught:
        text_of(kind, *ends, program=program, **levels)
    assert said in str(caught.value)
