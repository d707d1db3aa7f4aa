"""Counted machines: their number, the expansion of `[*]`, levels of a count, and refused counts."""

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
    """Return each cell resolved."""
    experiment = parse(text, "f.yaml")
    resolver = Resolver(experiment)
    return [resolver.setup(cell) for cell in cells(experiment)]


def ends(setup: Setup, link: str = "lan") -> list[str]:
    """Return the ends of a link."""
    return [str(end) for end in setup.lab.links[link].ends]


def sources(setup: Setup) -> list[str]:
    """Return the source machines of the measure's flows."""
    measure = setup.measures["tcp"]
    assert isinstance(measure, Stream)
    return [flow.src for flow in measure.flows]


def problems(text: str) -> str:
    """Return the problems of a text."""
    with pytest.raises(InputError) as caught:
        setups(text)
    return str(caught.value)


def test_count_key_creates_machines_and_a_star_expands_to_each_of_them() -> None:
    """Expand in lists of links and of measures; keep other items in place."""
    (setup,) = setups(BASE)
    assert list(setup.lab.machines) == ["server", "node1", "node2", "node3"]
    assert ends(setup) == ["server.eth0", "node1.eth0", "node2.eth0", "node3.eth0"]
    assert sources(setup) == ["node1", "node2", "node3"]


def test_machine_created_by_count_can_be_named_by_its_number() -> None:
    """Use the name in a measure."""
    text = BASE.replace('flows: [{from: "node[*]", to: server}]', "from: node2, to: node3")
    (setup,) = setups(text)
    assert setup.measures["tcp"].src == "node2"  # type: ignore[attr-defined]


def test_link_with_a_star_in_its_name_is_created_once_per_machine() -> None:
    """Give its other stars the same number."""
    text = BASE.replace("  links:\n", '  links:\n    up[*]: {ends: ["node[*].up", "server.p[*]"]}\n')
    (setup,) = setups(text)
    assert ends(setup, "up2") == ["node2.up", "server.p2"]
    assert list(setup.lab.links) == ["up1", "up2", "up3", "lan"]


def test_level_of_a_count_creates_that_number_of_machines() -> None:
    """Check fewer and more than in the base document, with everything that depends on it."""
    found = setups(BASE + COUNTS)
    assert [len(setup.lab.machines) for setup in found] == [2, 4, 6]
    assert [len(ends(setup)) for setup in found] == [2, 4, 6]
    assert [sources(setup)[-1] for setup in found] == ["node1", "node3", "node5"]


def test_count_varies_together_with_other_settings() -> None:
    """Vary it under a level's name, and for every machine by number."""
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


def test_stored_text_of_an_experiment_is_unchanged_by_counts() -> None:
    """Keep the text for resuming a run."""
    experiment = parse(BASE + COUNTS, "f.yaml")
    assert experiment.text == BASE + COUNTS
    assert experiment.baseline == {"machines.node.count": "1"}


def test_wrong_key_in_a_machine_with_a_count_is_reported_once_with_its_line() -> None:
    """Report it once, not per machine."""
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
        ("node[*].eth0", "nodes[*].eth0", "saw nodes[*].eth0; allowed: node[*] as a list item"),
        ("to: server}]", "to: server}], on: 'node[*]'", "saw node[*]; allowed: node[*] as a list item"),
        ("[1, 3, 5]", "[1, x]", "saw x; allowed: a whole number from 1 to 1000"),
        ("machines.node.count: [1", "machines.server.count: [1", "add count: 1 to lab.machines.server"),
    ],
)
def test_invalid_count_is_refused_with_the_allowed_values(old: str, new: str, said: str) -> None:
    """Report the value and the allowed ones."""
    assert old in BASE + COUNTS
    assert said in problems((BASE + COUNTS).replace(old, new, 1))


def test_count_on_a_machine_that_a_level_adds_is_refused() -> None:
    """Refuse it, because it would have no effect."""
    assert "saw the key `count` in a level" in problems(
        BASE + "factors: {x: {y: {machines.z: {kind: netns, count: 2}}, n: {}}}\n"
    )
