"""Settings of a guest's kernel, read by its own tools and restored: queues and interrupts of a NIC, and qdiscs,
including those that the local kernel may lack.
"""

import json
from collections.abc import Callable, Iterator

import pytest
from pydantic import TypeAdapter

from iolab.experiment.experiment import Lab
from iolab.experiment.model.links import Link
from iolab.experiment.model.machines import Machine
from iolab.lab.compose import compose
from iolab.lab.resources import Resource
from iolab.registry.qdiscs import QDISCS
from iolab.run.agents import Agents
from iolab.run.lab.standing_lab import StandingLab

INNER = {"kind": "vm", "on": "outer"}
OUTER = {"kind": "vm", "image": "linux", "cpus": 2, "accel": "tcg"}
LEAVES = ("pfifo", "sfq", "codel", "fq_codel")
CLASSES = {
    leaf: {"rate": "10Mbit", "to": f"b{number}", "leaf": {"qdisc": leaf, "frames": 100 + number}}
    for number, leaf in enumerate(LEAVES)
}


@pytest.fixture(scope="module")
def standing(lasting_agents: Agents) -> Iterator[StandingLab]:
    """Provide a lab whose guest `outer` runs from test to test."""
    made = StandingLab(lasting_agents, lambda _: None)
    yield made
    made.take_down()


def lab(**inner: object) -> tuple[Resource, ...]:
    """Return the parent of a guest, its NIC, and its host settings; but not the guest."""
    machines = {
        "near": {"kind": "netns"},
        "outer": OUTER,
        "inner": INNER | inner,
    }
    links = {"lan": ["near.p0", "outer.eth0"], "down": ["outer.eth0", "inner.eth0"]}
    read = TypeAdapter[Machine](Machine).validate_python
    made = compose(
        Lab(
            {name: read(one) for name, one in machines.items()},
            {name: Link.model_validate({"ends": ends}) for name, ends in links.items()},
            {},
        )
    )
    wanted = {"interrupts:outer.eth0", "queues:outer.eth0"}
    for resource in reversed(made):
        wanted |= set(resource.needs) if resource.key in wanted else set()
    return tuple(resource for resource in made if resource.key in wanted)


def shaped(shape: dict[str, object]) -> tuple[Resource, ...]:
    """Return a lab in which the guest has namespaces, and one of them shapes its traffic."""
    machine, link = TypeAdapter[Machine](Machine).validate_python, Link.model_validate
    far = [f"b{number}" for number in range(len(LEAVES))]
    inside = {name: machine({"kind": "netns", "on": "outer"}) for name in ("a", *far)}
    ends = ["a.p0", *(f"{name}.p0" for name in far)]
    links = {"lan": link({"ends": ends, "shape": {"at": "a.p0", **shape}})}
    return compose(Lab({"outer": machine(OUTER), **inside}, links, {}))


def shown(agents: Agents) -> tuple[str, Callable[[], set[str]]]:
    """Return the number of used queues of the NIC, and a reader of its interrupts' CPUs by name."""
    agent = agents.of("outer")
    queues = agent.run(("ethtool", "-l", "eth0")).stdout.rsplit("Combined:", 1)[1].split()[0]

    def cpus() -> set[str]:
        rows = agent.run(("cat", "/proc/interrupts")).stdout.splitlines()
        own = [row.split(":")[0].strip() for row in rows if "virtio" in row and "put." in row]
        lists = (agent.run(("cat", f"/proc/irq/{number}/smp_affinity_list")).stdout.strip() for number in own)
        return {one for one in lists if one}

    return queues, cpus


def test_parent_nic_gets_the_queues_and_interrupt_affinities_configured_for_its_guest(
    standing: StandingLab, lasting_agents: Agents
) -> None:
    """Restore the original for a guest without the setting."""
    agents = lasting_agents
    standing.change_to(lab())
    queues, before = shown(agents)
    had = before()
    assert queues == "1"
    assert had != {"1"}
    standing.change_to(lab(host={"irq_cpus": [1]}))
    assert standing.mismatches() == []
    queues, cpus = shown(agents)
    assert (queues, cpus()) == ("1", {"1"})
    standing.change_to(lab(host={"queues": 2, "irq_cpus": [1]}))
    assert standing.mismatches() == []
    queues, cpus = shown(agents)
    assert (queues, cpus()) == ("2", {"1"})
    standing.change_to(lab())
    queues, cpus = shown(agents)
    assert queues == "1"
    assert cpus() != {"1"}


@pytest.mark.parametrize(
    ("shape", "kinds"),
    [
        pytest.param({"qdisc": "fq", "rate": "10Mbit"}, {"fq"}, id="fq"),
        pytest.param({"qdisc": "tbf", "rate": "10Mbit"}, {"tbf"}, id="tbf"),
        pytest.param({"qdisc": "htb", "rate": "90Mbit", "classes": CLASSES}, {"htb", *CLASSES}, id="htb"),
    ],
)
def test_every_qdisc_is_read_back_as_set_on_a_kernel_that_supports_all_qdiscs(
    standing: StandingLab, lasting_agents: Agents, shape: dict[str, object], kinds: set[str]
) -> None:
    """Compare rates, class queues and limits, and the kinds that tc shows."""
    standing.change_to(shaped(shape))
    assert standing.mismatches() == []
    told = lasting_agents.of("outer").run(("tc", "-j", "qdisc", "show", "dev", "p0"), netns="iolab-a").stdout
    assert {one["kind"] for one in json.loads(told)} == kinds


def test_read_back_test_covers_every_qdisc() -> None:
    """Exclude the pacer, with separate tests, and etf, which planning refuses."""
    assert set(QDISCS) - {"pacer", "etf"} == {"fq", "tbf", "htb"}
