"""Host settings for a guest's traffic: the NIC of the parent, the order, and impossible cases."""

from collections.abc import Callable, Mapping

import pytest
from tests.wording import in_words

from iolab.errors import InputError
from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import HostTuning
from iolab.lab.actions import Run, SpreadInterrupts
from iolab.lab.compose import compose
from iolab.lab.hosts.tuning import cpu_ranges, traffic_cards, tuned_cards, tunings
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need
from iolab.lab.resources import Resource, difference
from iolab.messages.conflicts import Conflict
from iolab.messages.places import ForMachine, KeyOf

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
GUESTS = {"lan": ["near.p0", "outer.eth0"], "down": ["outer.eth0", "inner.eth0"]}
CABLE = {"lan": {"ends": ["here.eth7", "there.eth8"], "cable": True}, "down": ["here.eth7", "inner.eth0"]}


def on_a_guest(make_lab: MakeLab, host: object, **outer: object) -> Lab:
    """Return a lab whose guest has a guest, whose frames pass the NIC of the first."""
    machines = {
        "near": "none",
        "outer": {"kind": "vm", "cpus": 4, **outer},
        "inner": {"kind": "vm", "on": "outer", "host": host},
    }
    return make_lab(machines, GUESTS)


def on_this_computer(make_lab: MakeLab, host: object) -> Lab:
    """Return a lab with a guest behind a cabled NIC of the local host."""
    machines = {
        "here": {"kind": "host"},
        "there": {"kind": "host", "ssh": "root@there"},
        "inner": {"kind": "vm", "on": "here", "host": host},
    }
    return make_lab(machines, CABLE)


def made(lab: Lab) -> dict[str, Resource]:
    """Return the resources of a lab by key."""
    return {resource.key: resource for resource in compose(lab)}


def senses(lab: Lab) -> list[str]:
    """Return the conflicting settings of a lab."""
    return [in_words(each) for each in lab_needs(lab) if isinstance(each, Conflict)]


@pytest.mark.parametrize(("make", "card"), [(on_a_guest, "outer.eth0"), (on_this_computer, "here.eth7")])
def test_interrupt_affinity_of_the_parents_nic_is_set_after_its_queues(
    make_lab: MakeLab, make: Callable[..., Lab], card: str
) -> None:
    """Set them last, because a change of queues moves interrupts."""
    lab = make(make_lab, {"queues": 4, "irq_cpus": [2, 3]})
    assert traffic_cards(lab, "inner") == (card,)
    interrupts = made(lab)[f"interrupts:{card}"]
    assert interrupts.kernel == {"outer": "outer", "here": ""}[card.partition(".")[0]]
    assert interrupts.needs[-1] == f"queues:{card}"
    assert interrupts.actions == (SpreadInterrupts(card.partition(".")[2], (2, 3), 4),)
    assert interrupts.expect[0].expected == "2-3"
    assert senses(lab) == []


def test_queues_of_an_existing_nic_are_restored_to_their_original_number(make_lab: MakeLab) -> None:
    """Read the original before the first change, and keep it at later levels."""
    two, four = (made(on_this_computer(make_lab, {"queues": n}))["queues:here.eth7"] for n in (2, 4))
    (run,) = two.actions
    assert isinstance(run, Run)
    assert run.undo is not None
    assert " ".join(run.undo.argv) == "ethtool -L eth7 {original}"
    assert difference((two,), (four,)).in_place == {"queues:here.eth7"}


def test_queue_change_restarts_no_guest_and_resets_the_interrupt_affinity(make_lab: MakeLab) -> None:
    """Change only held resources."""
    before, after = (
        compose(on_a_guest(make_lab, {"queues": queues, "irq_cpus": [1]}, cpus=4)) for queues in (2, 4)
    )
    change = difference(before, after)
    assert {one.key for one in change.do} == {"queues:outer.eth0", "interrupts:outer.eth0"}
    assert change.undo == ()


def test_host_settings_of_a_guest_with_only_a_tap_are_refused(make_lab: MakeLab) -> None:
    """Report that the port of a namespace is the tap itself."""
    machines = {"near": "none", "dut": {"kind": "vm", "host": {"irq_cpus": [0]}}}
    lab = make_lab(machines, {"lan": ["near.p0", "dut.eth0"]})
    (seen,) = senses(lab)
    assert seen.startswith("host of machine dut: no NIC of the parent carries the frames of dut")
    assert not any(key.startswith("interrupts:") for key in made(lab))


def test_more_queues_than_the_nic_of_the_parent_has_are_refused(make_lab: MakeLab) -> None:
    """Report the remedy: the parent's NIC is created with the queues of its machine."""
    (seen,) = senses(on_a_guest(make_lab, {"queues": 4}, cpus=1))
    told = "4 queue pairs are requested, but outer.eth0 has only 1; increase `queues` of outer"
    assert seen == f"host of machine inner: {told}"


def test_two_guests_behind_one_nic_need_the_same_host_settings(make_lab: MakeLab) -> None:
    """Accept a guest without the setting."""
    machines = {
        "near": "none",
        "outer": {"kind": "vm", "cpus": 2},
        "a": {"kind": "vm", "on": "outer", "host": {"queues": 1}},
        "b": {"kind": "vm", "on": "outer", "host": {"queues": 2}},
        "c": {"kind": "vm", "on": "outer"},
    }
    links = {"lan": ["near.p0", "outer.eth0"], "down": ["outer.eth0", "a.eth0", "b.eth0", "c.eth0"]}
    with pytest.raises(InputError, match=r"a `host\.queues` that differs from that of a"):
        tunings(make_lab(machines, links))
    machines["b"] = {"kind": "vm", "on": "outer"}
    assert tunings(make_lab(machines, links)) == {"outer.eth0": HostTuning(queues=1)}


def test_cpu_lists_are_written_as_ranges_as_in_the_kernel() -> None:
    """Use the kernel's form, so that the read-back is comparable."""
    assert cpu_ranges((5, 1, 0, 2, 2)) == "0-2,5"


def sending_host(make_lab: MakeLab, host: object, inner: object = None, *, cable: bool = True) -> Lab:
    """Return a lab in which a remote host sends by a cable to the local one, behind whose NIC a guest is."""
    machines = {
        "there": {"kind": "host", "ssh": "root@there"},
        "here": {"kind": "host", "host": host},
        "inner": {"kind": "vm", "on": "here", "host": inner or {}},
    }
    links = CABLE if cable else {"down": ["here.eth7", "inner.eth0"]}
    return make_lab(machines, links)


def test_host_settings_apply_to_the_cabled_nics_of_a_host(make_lab: MakeLab) -> None:
    """Set, read back and restore them; leave the other end alone."""
    lab = sending_host(make_lab, {"queues": 4, "irq_cpus": [0, 1]})
    assert tuned_cards(lab, "here") == ("here.eth7",)
    found = made(lab)
    (queues,) = found["queues:here.eth7"].actions
    assert isinstance(queues, Run)
    assert queues.do.argv == ("ethtool", "-L", "eth7", "combined", "4")
    assert queues.undo is not None
    assert found["interrupts:here.eth7"].actions == (SpreadInterrupts("eth7", (0, 1), 4),)
    assert [one.expected for key in ("queues", "interrupts") for one in found[f"{key}:here.eth7"].expect] == [
        "combined 4", "0-1",
    ]  # fmt: skip
    assert not any(key.endswith("there.eth8") and key.startswith(("queues", "interrupts")) for key in found)
    tuned = KeyOf(key="host", part=ForMachine(machine="here"))
    assert {("ethtool", ""), ("host", "")} <= {
        (need.name, need.where) for need in lab_needs(lab) if isinstance(need, Need) and need.purpose == tuned
    }


def test_host_settings_without_a_cable_are_refused_with_a_remedy(make_lab: MakeLab) -> None:
    """Report the missing NIC and the remedy."""
    (told,) = senses(sending_host(make_lab, {"queues": 2}, cable=False))
    assert told.startswith(
        "host of machine here: no cabled link ends at here, so it has no NIC in this lab; add a link"
    )


def test_host_and_guest_behind_one_nic_need_the_same_settings(make_lab: MakeLab) -> None:
    """Refuse different values for the same NIC."""
    lab = sending_host(make_lab, {"queues": 2}, {"queues": 2})
    assert tunings(lab) == {"here.eth7": HostTuning(queues=2)}
    with pytest.raises(
        InputError, match=r"differs from that of here, whose frames also pass the NIC here.eth7"
    ):
        tunings(sending_host(make_lab, {"queues": 2}, {"queues": 4}))


def test_queues_of_a_host_and_interrupts_of_its_guest_are_combined(make_lab: MakeLab) -> None:
    """Set queues of all machines by one factor, and interrupts of the forwarder by another."""
    lab = sending_host(make_lab, {"queues": 4}, {"queues": 4, "irq_cpus": [0]})
    assert tunings(lab) == {"here.eth7": HostTuning(queues=4, irq_cpus=(0,))}
    assert made(lab)["interrupts:here.eth7"].actions == (SpreadInterrupts("eth7", (0,), 4),)
