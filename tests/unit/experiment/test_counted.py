"""Machines by number: how many there are, what `[*]` stands for, levels of a count, and what is refused."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Setup
from iolab.experiment.model.measures import Stream

BASE = """\
lab:
  machines:
    server: {kind: netns}
    node: {kind: netns, count: 3}
  links:
    lan: {ends: [server.eth0, "node[*].eth0"]}
measure:
  tcp: {kind: stream, flows: [{from: "node[*]", to: server}], duration: 1s}
"""
COUNTS = "factors:\n  machines.node.count: [1, 3, 5]\nbaseline: {machines.node.count: 1}\n"


def setups(text: str) -> list[Setup]:
    """Return what each cell is."""
    experiment = parse(text, "f.yaml")
    resolver = Resolver(experiment)
    return [resolver.setup(cell) for cell in cells(experiment)]


def ends(setup: Setup, link: str = "lan") -> list[str]:
    """Return the ends of a link."""
    return [str(end) for end in setup.lab.links[link].ends]


def sources(setup: Setup) -> list[str]:
    """Return where the flows of the measure begin."""
    measure = setup.measures["tcp"]
    assert isinstance(measure, Stream)
    return [flow.src for flow in measure.flows]


def problems(text: str) -> str:
    """Return what is said of a text."""
    with pytest.raises(InputError) as caught:
        setups(text)
    return str(caught.value)


def test_a_count_makes_machines_and_a_star_stands_for_each() -> None:
    """In lists of links and of measures; other items stay where they are."""
    (setup,) = setups(BASE)
    assert list(setup.lab.machines) == ["server", "node1", "node2", "node3"]
    assert ends(setup) == ["server.eth0", "node1.eth0", "node2.eth0", "node3.eth0"]
    assert sources(setup) == ["node1", "node2", "node3"]


def test_a_machine_of_them_has_a_name_of_its_own() -> None:
    """By which a measure can name it."""
    text = BASE.replace('flows: [{from: "node[*]", to: server}]', "from: node2, to: node3")
    (setup,) = setups(text)
    assert setup.measures["tcp"].src == "node2"  # type: ignore[attr-defined]


def test_a_link_named_with_a_star_is_one_for_each() -> None:
    """Its other stars have the same number."""
    text = BASE.replace("  links:\n", '  links:\n    up[*]: {ends: ["node[*].up", "server.p[*]"]}\n')
    (setup,) = setups(text)
    assert ends(setup, "up2") == ["node2.up", "server.p2"]
    assert list(setup.lab.links) == ["up1", "up2", "up3", "lan"]


def test_a_level_of_a_count_has_so_many() -> None:
    """Fewer and more than the base document, with all that depends on it."""
    found = setups(BASE + COUNTS)
    assert [len(setup.lab.machines) for setup in found] == [2, 4, 6]
    assert [len(ends(setup)) for setup in found] == [2, 4, 6]
    assert [sources(setup)[-1] for setup in found] == ["node1", "node3", "node5"]


def test_a_count_varies_with_other_things() -> None:
    """Under a level's name, and for every machine by number."""
    factors = """factors:
  size:
    small: {machines.node.count: 1}
    large: {machines.node.count: 4, "machines.node[*].forward": route}
  machines.node[*].program_cpus: {any: [], first: [0]}
"""
    found = setups(BASE + factors)
    assert [len(setup.lab.machines) for setup in found] == [2, 2, 5, 5]
    assert {one.forward for one in found[2].lab.machines.values()} == {"none", "route"}
    last = found[3].lab.machines["node4"]
    assert last.program_cpus == (0,)  # type: ignore[union-attr]


def test_the_stored_text_is_as_it_was_written() -> None:
    """It is read again when a run is resumed."""
    experiment = parse(BASE + COUNTS, "f.yaml")
    assert experiment.text == BASE + COUNTS
    assert experiment.baseline == {"machines.node.count": "1"}


def test_a_wrong_word_in_a_counted_machine_is_said_once_with_its_line() -> None:
    """Not once for each machine."""
    said = problems(BASE.replace("netns, count: 3", "netns, cuont: 3, count: 2")).splitlines()
    assert len([line for line in said if "cuont" in line]) >= 1
    assert all(line.startswith("f.yaml:4:") for line in said if "cuont" in line)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("count: 3", "count: 0", "saw 0; allowed: a whole number from 1 to 1000"),
        ("count: 3", "count: many", "saw many; allowed: a whole number from 1 to 1000"),
        ("count: 3", "count: 1001", "saw 1001; allowed: a whole number from 1 to 1000"),
        (
            "server: {kind: netns}",
            "node2: {kind: netns}",
            "saw node2; allowed: a name other than node1, node2",
        ),
        ("node[*].eth0", "nodes[*].eth0", "saw nodes[*].eth0; allowed: node[*] in a list"),
        ("to: server}]", "to: server}], on: 'node[*]'", "saw node[*]; allowed: node[*] in a list"),
        ("[1, 3, 5]", "[1, x]", "saw x; allowed: a whole number from 1 to 1000"),
        ("machines.node.count: [1", "machines.server.count: [1", "add count: 1 to lab.machines.server"),
    ],
)
def test_what_cannot_be_counted_is_refused(old: str, new: str, said: str) -> None:
    """With what was seen and what is allowed."""
    assert old in BASE + COUNTS
    assert said in problems((BASE + COUNTS).replace(old, new, 1))


def test_a_count_is_not_for_a_machine_that_a_level_makes() -> None:
    """It would count nothing."""
    assert "saw the key `count` in a level" in problems(
        BASE + "factors: {x: {y: {machines.z: {kind: netns, count: 2}}, n: {}}}\n"
    )
