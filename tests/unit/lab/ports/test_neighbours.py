"""Who knows whom before a trial: the ends of emulated links, so that no first packet waits for an answer."""

from collections.abc import Mapping

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Netns
from iolab.lab.actions import Run
from iolab.lab.compose import compose
from iolab.lab.ports.neighbours import MOST_ENDPOINTS
from iolab.lab.resources import Resource


def entries(links: Mapping[str, Mapping[str, object]], **machines: dict[str, object]) -> dict[str, Resource]:
    """Return the entries of a lab of namespaces."""
    made = {name: Netns.model_validate({"kind": "netns"} | one) for name, one in machines.items()}
    lab = Lab(made, {name: Link.model_validate(one) for name, one in links.items()}, {})
    found = {resource.key: resource for resource in compose(lab)}
    return {key: one for key, one in found.items() if key.startswith("neighbour:")}


WIRE = {"loss": "1%"}
NETEM = {"loss": "1%", "emulator": "netem"}


def test_both_ends_of_an_emulated_link_know_each_other_for_good() -> None:
    """Without a question; nothing is read back for it in each trial."""
    found = entries({"path": {"ends": ["a.eth0", "b.eth0"], "wire": WIRE}}, a={}, b={})
    assert set(found) == {"neighbour:a.eth0:b.eth0", "neighbour:b.eth0:a.eth0"}
    for entry in found.values():
        (action,) = entry.actions
        assert isinstance(action, Run)
        assert action.do.argv[:3] == ("ip", "neigh", "replace")
        assert "permanent" in action.do.argv
        assert entry.expect == ()


def test_netem_loses_questions_too() -> None:
    """So its ends know each other as well."""
    assert entries({"path": {"ends": ["a.eth0", "b.eth0"], "wire": NETEM}}, a={}, b={})


def test_ends_of_other_links_ask() -> None:
    """Nothing that the file does not say is done to them, also beside an emulated link."""
    links: dict[str, dict[str, object]] = {
        "path": {"ends": ["a.eth0", "r.eth0"], "wire": WIRE},
        "lan": {"ends": ["r.eth1", "b.eth0"]},
    }
    found = entries(links, a={}, r={"forward": "route"}, b={})
    assert set(found) == {"neighbour:a.eth0:r.eth0", "neighbour:r.eth0:a.eth0"}


def test_who_is_reached_through_a_bridge_behind_an_emulated_link_is_known() -> None:
    """The question would pass the link."""
    links: dict[str, dict[str, object]] = {
        "path": {"ends": ["a.eth0", "s.eth0"], "wire": WIRE},
        "lan": {"ends": ["s.eth1", "b.eth0"]},
    }
    found = entries(links, a={}, s={"forward": "bridge"}, b={})
    assert {"neighbour:a.eth0:b.eth0", "neighbour:b.eth0:a.eth0"} <= set(found)


def test_in_a_large_segment_they_ask() -> None:
    """Each knows each other: entries grow with the square of the endpoints."""

    def star(clients: int) -> dict[str, Resource]:
        links: dict[str, dict[str, object]] = {
            f"l{n}": {"ends": [f"c{n}.eth0", f"s.eth{n}"], "wire": WIRE} for n in range(clients)
        }
        return entries(links, s={"forward": "bridge"}, **{f"c{n}": {} for n in range(clients)})

    assert len(star(3)) >= 6
    assert star(MOST_ENDPOINTS + 1) == {}
