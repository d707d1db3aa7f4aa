"""Experiments in one line: the resulting file, the place of its keys, and refused lines."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Setup
from iolab.experiment.one_line import OneLine, experiment_of, short_forms

PROGRAM = "ping -c 3 '{b}' \"two words\""


def text_of(kind: str, *ends: str, program: str = "", **levels: tuple[str, ...]) -> str:
    """Return the file of a line; two underscores in key names become a dot."""
    first, second = ends or ("a", "b")
    dotted = {name.replace("__", "."): given for name, given in levels.items()}
    return experiment_of(OneLine(kind, (first, second), program, dotted))


def setups(text: str) -> list[Setup]:
    """Return each cell of a file resolved."""
    experiment = parse(text, "line")
    resolver = Resolver(experiment)
    return [resolver.setup(cell) for cell in cells(experiment)]


@pytest.mark.parametrize("kind", short_forms())
def test_every_short_form_makes_a_valid_file(kind: str) -> None:
    """Check each kind with nothing but its ends."""
    (setup,) = setups(text_of(kind, program=PROGRAM if short_forms()[kind][1].program else ""))
    assert setup.measures[kind].kind == short_forms()[kind][0].name


def test_options_set_measure_or_link_keys_and_several_values_become_levels() -> None:
    """Use the first level of each as the baseline."""
    text = text_of("tcp", mtu=("1500", "9000"), window=("16K",), wire__delay=("0ms", "10ms"))
    seen = [(one.lab.links["lan"].mtu, one.lab.links["lan"].wire) for one in setups(text)]
    assert [mtu for mtu, _ in seen] == [1500, 1500, 9000, 9000]
    experiment = parse(text, "line")
    assert experiment.baseline == {"links.lan.mtu": "1500", "links.lan.wire.delay": "0ms"}
    assert "window: 16K" in text


def test_key_that_exists_for_both_measure_and_link_applies_to_the_measure() -> None:
    """Apply `rate` to a UDP stream; `wire.rate` is the line's."""
    assert "udp.rate: [1Mbit, 2Mbit]" in text_of("udp", rate=("1Mbit", "2Mbit"))


def test_shape_is_placed_on_the_first_end_of_the_link_by_default() -> None:
    """Use it until a different end is given."""
    assert "at: a.eth0" in text_of("tcp", shape__qdisc=("tbf",), shape__rate=("1Mbit",), shape__burst=("4K",))


def test_short_form_of_forwarding_adds_a_third_machine_as_dut() -> None:
    """Check the forwarding modes of the device under test."""
    forwards = [
        setup.lab.machines["dut"].forward for setup in setups(text_of("forwarding", forward=("route", "xdp")))
    ]
    assert forwards == ["route", "xdp"]


def test_two_hosts_are_joined_by_a_cable_between_the_named_interfaces() -> None:
    """Take the interfaces from the line."""
    (setup,) = setups(text_of("tcp", "root@alpha:eth1", "root@beta:ens2f0"))
    assert [str(end) for end in setup.lab.links["lan"].ends] == ["one.eth1", "other.ens2f0"]
    assert setup.lab.links["lan"].cable


def test_command_line_of_a_program_is_split_into_words_as_by_a_shell() -> None:
    """Run it without a shell."""
    (setup,) = setups(text_of("command", program=PROGRAM))
    assert setup.measures["command"].run == ("ping", "-c", "3", "{b}", "two words")  # type: ignore[attr-defined]


def test_generated_file_begins_with_the_command_that_generates_it() -> None:
    """Include all options on which the file depends."""
    assert text_of("tcp", mtu=("1500", "9000")).startswith(
        "# iolab quick tcp a b --mtu 1500,9000 --blocks 5\n"
    )


HOSTILE = "1500}\nlab: {machines: {x: {kind: host, ssh: root@evil}}}\n"


def test_level_text_cannot_inject_yaml_into_the_file() -> None:
    """Treat the level as one value, which is refused like any other."""
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
        ("forwarding", ("root@a:eth1", "root@b:eth1"), "", {}, "the names of two machines after forwarding"),
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
def test_invalid_one_line_experiment_is_refused(
    kind: str, ends: tuple[str, str], program: str, levels: dict[str, tuple[str, ...]], said: str
) -> None:
    """Report the value and the allowed ones."""
    with pytest.raises(InputError) as caught:
        text_of(kind, *ends, program=program, **levels)
    assert said in str(caught.value)
