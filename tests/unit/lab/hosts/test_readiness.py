"""Host readiness: conditions that disturb figures, the order of CPUs, and settings of the lab."""

from dataclasses import replace

import pytest
from tests.unit.lab.hosts.computers import CARD, READY, SERVER, facts
from tests.wording import in_words

from iolab.experiment import Resolver, parse
from iolab.experiment.experiment import Setup
from iolab.lab.actions import PinGuest, Run, TuneProcessors
from iolab.lab.compose import compose
from iolab.lab.hosts.facts import ProcessorFacts
from iolab.lab.hosts.readiness import cards_of, concerns, cpu_order, node_of
from iolab.lab.packets.placement import placement_of
from iolab.lab.readback.values import CardSettings, value_shown
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import lacking
from iolab.plan.support import ANY_HOST
from iolab.report.locale import EN
from iolab.trial.host_warnings import host_warnings

LAB = """
lab:
  machines:
    tester: {kind: host, ssh: t, host: HOST, processors: PROCESSORS}
    dut: {kind: host, ssh: d, forward: bridge}
  links:
    west: {ends: [tester.enp1s0f0, dut.eth1], cable: true}
    east: {ends: [tester.enp1s0f1, dut.eth2], cable: true}
measure: {rate: {kind: latency, from: tester.enp1s0f0, to: tester.enp1s0f1, rate: 1kpps}}
"""


def setup(host: str = "{}", processors: str = "{}") -> Setup:
    """Return a lab of two hosts."""
    return Resolver(parse(LAB.replace("HOST", host).replace("PROCESSORS", processors), "lab.yaml")).setup({})


def test_conditions_that_disturb_measurements_are_reported_with_advice() -> None:
    """Report frequency, C-states, moving interrupts, a managing daemon, pause frames, and the remote node."""
    found = concerns(facts(SERVER, CARD, daemons=("irqbalance",)), ["enp1s0f0"], [1, 2])
    said = in_words(found)
    for text in (
        "the powersave governor changes the frequency of CPUs 0-7",
        "turbo is on, so the CPU frequency varies",
        "the deepest C-state is C6, with an exit latency of 133 µs",
        "irqbalance is running and moves the interrupts of enp1s0f0",
        "NetworkManager manages enp1s0f0",
        "enp1s0f0 has pause frames enabled (rx, tx)",
        "enp1s0f0 is on NUMA node 1 (CPUs 1,3,5,7), but CPUs 2 are on a different node",
    ):
        assert text in said
    assert all(EN.said.advise(one) for one in found)


def test_host_without_nics_in_the_lab_has_no_interrupt_issue() -> None:
    """Report nothing for a well-configured lab of namespaces."""
    assert [one.subject for one in concerns(facts(SERVER, CARD, daemons=("irqbalance",)), [])] == [
        "cpu-frequency",
        "turbo",
        "idle-states",
    ]
    assert concerns(facts(READY), []) == ()
    assert concerns(facts(ProcessorFacts(online="0-1")), ["eth0"]) == ()


def test_cpus_on_the_numa_node_of_the_nic_come_first_and_sibling_threads_last() -> None:
    """List one thread per core of the NIC's node, their second threads, then the other node likewise."""
    assert cpu_order(SERVER, 1) == (1, 3, 5, 7, 0, 2, 4, 6)
    assert cpu_order(SERVER, None) == (0, 1, 2, 3, 4, 5, 6, 7)
    assert cpu_order(ProcessorFacts(online="0,2-3", cores=("0,2", "3")), None) == (0, 3, 2)
    assert cpu_order(ProcessorFacts(), None) == ()
    assert node_of(facts(SERVER, CARD), "enp1s0f0") == 1
    assert node_of(facts(replace(SERVER, nodes={"0": "0-7"}), CARD), "enp1s0f0") is None


def test_sender_and_receiver_run_on_the_numa_node_of_their_nic() -> None:
    """Give the best CPUs to the generator first."""
    found = placement_of(setup(), "rate", cpu_order(SERVER, 1))
    assert found is not None
    assert (found.senders, found.receivers) == ({"tester.enp1s0f0": 1}, {"tester.enp1s0f1": 3})


def test_trial_gets_one_warning_per_unready_host_except_about_settings_of_the_lab() -> None:
    """Name the host; ignore what the lab itself sets."""
    known = {"tester": facts(SERVER, replace(CARD, manager=None, pause={})), "dut": facts(READY)}
    placement = placement_of(setup(), "rate", (0, 1))
    (warning,) = host_warnings(setup().lab, known, placement)
    assert warning.code == "host-unready"
    assert in_words(warning).startswith("tester: the powersave governor")
    assert "CPUs 0 are on a different node" in in_words(warning)
    tuned = setup(processors="{governor: performance, turbo: off}").lab
    (warning,) = host_warnings(tuned, known, placement)
    assert "governor" not in in_words(warning)
    assert "turbo" not in in_words(warning)
    assert host_warnings(tuned, {}, placement) == ()


def test_coalescing_and_pause_frames_are_set_read_back_and_restored() -> None:
    """Use ethtool, keep the original of each setting, and wait for the carrier."""
    lab = setup("{coalesce: {rx_usecs: 0, adaptive_rx: off}, pause: {autoneg: off, rx: off, tx: off}}").lab
    made = {resource.key: resource for resource in compose(lab)}
    coalesce, pause = made["coalesce:tester.enp1s0f0"], made["pause:tester.enp1s0f0"]
    (run,) = coalesce.actions
    assert isinstance(run, Run)
    assert run.do.argv == ("ethtool", "-C", "enp1s0f0", "rx-usecs", "0", "adaptive-rx", "off")
    assert run.undo is not None
    assert run.undo.argv == ("ethtool", "-C", "enp1s0f0", "{original}")
    assert coalesce.expect[0].expected == "rx-usecs 0 adaptive-rx off"
    assert pause.expect[0].expected == "autoneg off rx off tx off"
    assert all(one.expect[1].expected == "up" and one.kernel == "tester" for one in (coalesce, pause))
    assert "pause:tester.enp1s0f1" in made


def test_ethtool_output_is_parsed_into_the_arguments_that_set_the_same_values() -> None:
    """Parse the line with two settings, too; return nothing for a NIC without a setting."""
    shown = "Coalesce parameters for eth0:\nAdaptive RX: on  TX: off\nrx-usecs: 3\nrx-frames: n/a\n"
    words = ("rx-usecs", "adaptive-rx", "adaptive-tx")
    how = CardSettings(tuple((word, word) for word in words))
    assert value_shown(how, shown) == "rx-usecs 3 adaptive-rx on adaptive-tx off"
    assert value_shown(CardSettings((("rx-frames", "rx-frames"),)), shown) is None
    paused = "Pause parameters for eth0:\nAutonegotiate:\toff\nRX:\t\ton\nTX:\t\toff\n"
    assert value_shown(CardSettings((("rx", "RX"), ("tx", "TX"))), paused) == "rx on tx off"


def test_governor_and_turbo_are_set_by_the_hosts_own_agent() -> None:
    """Set them by the host's own agent, and restart no guest."""
    made = {
        resource.key: resource
        for resource in compose(setup(processors="{governor: performance, turbo: off}").lab)
    }
    assert made["governor:tester"].actions == (TuneProcessors("governor", "performance"),)
    assert made["turbo:tester"].kernel == "tester"
    assert "governor:dut" not in made


@pytest.mark.parametrize(
    ("host", "processors", "said"),
    [
        (
            "{}",
            "{governor: performance}",
            "governor of machine tester: the governor cannot be set to performance on tester",
        ),
        ("{}", "{turbo: off}", "turbo of machine tester: turbo cannot be set on tester"),
        (
            "{coalesce: {tx_usecs: 3}}",
            "{}",
            "enp1s0f0 on tester does not support tx-usecs; it supports rx-usecs, adaptive-rx",
        ),
        ("{pause: {rx: off}}", "{}", "enp1s0f0 on tester does not support pause frames"),
    ],
)
def test_unsupported_host_setting_is_reported_before_the_run(host: str, processors: str, said: str) -> None:
    """Report that a virtual machine sets no frequency, and that a NIC lacks a setting."""
    there = facts(
        ProcessorFacts(online="0-1"), replace(CARD, pause={}), replace(CARD, name="enp1s0f1", pause={})
    )
    here = replace(ANY_HOST, hosts={"tester": there})
    reasons = [lacking(need, here) for need in lab_needs(setup(host, processors).lab)]
    assert said in in_words([reason for reason in reasons if reason])


def test_supported_governor_and_nic_settings_are_not_reported_as_unmet() -> None:
    """Check turbo, a NIC setting and pause frames, too."""
    here = replace(ANY_HOST, hosts={"tester": facts(SERVER, CARD, replace(CARD, name="enp1s0f1"))})
    lab = setup("{coalesce: {rx_usecs: 3}, pause: {rx: off}}", "{governor: performance, turbo: off}").lab
    kinds = ("governor", "turbo", "coalescing", "pause")
    assert [lacking(need, here) for need in lab_needs(lab) if getattr(need, "kind", "") in kinds] == [
        None
    ] * 6


def test_guest_with_automatic_pins_runs_on_cpus_near_the_nic_of_its_host() -> None:
    """Place `pin: auto` on CPUs of the NIC's node, its own ones first."""
    text = """
lab:
  machines:
    pc1: {kind: host, ssh: p}
    pc2: {kind: host, ssh: q}
    dut: {kind: vm, on: pc1, cpus: 2, pin: auto}
  links:
    lan: {ends: [pc2.eth1, pc1.enp1s0f0], cable: true}
    card: {ends: [pc1.enp1s0f0, dut.eth0]}
measure: {tcp: {kind: stream, from: pc2, to: dut}}
"""
    lab = Resolver(parse(text, "lab.yaml")).setup({}).lab
    assert cards_of(lab, "pc1") == ("enp1s0f0",)
    orders = {"pc1": cpu_order(SERVER, 1)}
    made = {one.key: one for one in compose(lab, other_cpus={"pc1": 8}, orders=orders)}
    (pin,) = made["pin:dut"].actions
    assert isinstance(pin, PinGuest)
    assert pin.vcpus == (1, 3)
