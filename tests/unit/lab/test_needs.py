"""What a cell needs of a host, and how that what is lacking is told."""

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from iolab.errors import AgentError, InputError
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.measures import DiskMeasure, Latency, Stream
from iolab.lab.cost import expensive
from iolab.lab.facts import Facts, decode_facts, encode_facts
from iolab.lab.lacking import lacking_of
from iolab.lab.needs import needs

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
CONTRACT = Path(__file__).parents[3] / "contract" / "agent-v1.md"


@pytest.fixture
def facts() -> Facts:
    """Give the facts of the contract's example, with ethtool installed."""
    lines = CONTRACT.read_text().splitlines()
    (line,) = [line for line in lines if '"result":{"hostname"' in line]
    decoded = decode_facts({"rootless": False, "uid": 0}, json.loads(line)["result"])
    return replace(decoded, programs={**decoded.programs, "ethtool": "ethtool version 6.1"})


@pytest.fixture
def reason(make_lab: MakeLab, facts: Facts) -> Callable[..., str | None]:
    """Give what is lacking for a stream between two machines, some of which is replaced."""

    def find(host: Facts = facts, machine: object = "none", **link: object) -> str | None:
        lab = make_lab({"a": "none", "b": machine}, {"x": {"ends": ["a.lab0", "b.eth0"], **link}})
        stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "b"})
        return lacking_of(needs(Setup(lab, {"tcp": stream})), host)

    return find


def test_facts_of_the_contract_are_read(facts: Facts) -> None:
    """The example of the protocol decodes, and encodes to itself."""
    assert (facts.hostname, facts.cpus, facts.interfaces[0].driver) == ("pc6", 2, "virtio_net")
    assert facts.features["link:vlan"] is False
    assert decode_facts(encode_facts(facts), encode_facts(facts)) == facts


def test_facts_of_another_shape_are_refused_in_words() -> None:
    """What is missing is named; there is no traceback of a parser."""
    with pytest.raises(AgentError, match=r"reading the host's facts: \w+: field required"):
        decode_facts({}, {"hostname": "pc6"})


def test_a_plain_lab_needs_nothing_that_debian_lacks(reason: Callable[..., str | None]) -> None:
    """veth, addresses, MTU and offloads."""
    assert reason(mtu=9000, offload={"tso": "off"}) is None


def test_a_missing_kernel_feature_says_what_to_do(reason: Callable[..., str | None]) -> None:
    """The kernel module is named, and the way out."""
    assert reason(vlan=100) == (
        "vlan 100 on link x: this kernel has no 8021q; load the module, or put `a` and `b` in a vm"
    )


def test_what_could_not_be_tried_is_not_refused(reason: Callable[..., str | None], facts: Facts) -> None:
    """A feature that is null in the facts may work."""
    assert reason(replace(facts, features={"link:vlan": None}), vlan=100) is None


def test_a_missing_program_is_told_with_its_package(reason: Callable[..., str | None], facts: Facts) -> None:
    """tc comes with iproute2; ethtool is needed for offloads only."""
    bare = replace(facts, programs={"iperf3": "3.12", "ip": "6.1", "tc": None, "ethtool": None})
    tc = "tc is not installed; install the package iproute2, or run `make setup`"
    assert reason(bare) == tc
    both = reason(bare, offload={"tso": "off"})
    assert both is not None
    assert "install the package ethtool" in both


@pytest.mark.parametrize(
    ("machine", "link", "what"),
    [
        (
            {"kind": "vm", "nic": "sr-iov"},
            {},
            "sr-iov (it needs a card with virtual functions on the parent)",
        ),
        (
            {"kind": "vm", "host": {"queues": 2}},
            {},
            "host (receive queues and interrupts of the parent's card)",
        ),
        ("none", {"wire": {"delay": "10ms"}}, "wire (the path emulator) (link x)"),
        (
            "none",
            {"shape": {"at": "a.lab0", "qdisc": "pacer", "rate": "1Mbit"}},
            "the pacer (shape on link x)",
        ),
    ],
)
def test_what_is_not_built_yet_says_so(
    reason: Callable[..., str | None], machine: object, link: Mapping[str, object], what: str
) -> None:
    """The part of the file is named."""
    told = reason(machine=machine, **link)
    assert told is not None
    assert told.startswith(f"not yet in this version of iolab: {what}")


def test_a_port_of_this_computer_needs_a_free_name(reason: Callable[..., str | None]) -> None:
    """A lab never takes over an interface that exists."""
    told = reason(machine={"kind": "host"})
    assert told == "port b.eth0: this computer has an interface eth0 already; rename the port"


def test_an_ordinary_user_may_not_change_the_whole_kernel(
    reason: Callable[..., str | None], facts: Facts
) -> None:
    """Settings of the network namespace are fine, others need root."""
    machine = {"kind": "netns", "settings": {"vm.swappiness": "1", "net.ipv4.tcp_sack": "0"}}
    assert reason(machine=machine) is None
    told = reason(replace(facts, rootless=True), machine=machine)
    assert told == "setting vm.swappiness of machine b: an ordinary user may not set it; run as root"


def test_other_measures_than_stream_come_later(make_lab: MakeLab, facts: Facts) -> None:
    """The kind is named with the measure."""
    lab = make_lab({"a": "none", "b": "none"}, {"x": ["a.eth0", "b.eth0"]})
    disk = DiskMeasure.model_validate({"kind": "disk", "on": "a", "program": "hdparm"})
    told = lacking_of(needs(Setup(lab, {"read": disk})), facts)
    assert told == "not yet in this version of iolab: measures of kind disk (measure read)"


def test_ends_that_no_link_joins_are_wrong_input(make_lab: MakeLab) -> None:
    """That is a mistake in the file, not a limit of the host."""
    lab = make_lab({"a": "none", "b": "none", "c": "none"}, {"x": ["a.eth0", "b.eth0"]})
    stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "c"})
    with pytest.raises(InputError, match="finding an end of a measurement"):
        needs(Setup(lab, {"tcp": stream}))


def test_machines_and_volumes_are_expensive_links_and_settings_are_cheap() -> None:
    """What is made anew decides the whole plots."""
    assert expensive("machines.dut.nic")
    assert expensive("machines.*.cpus")
    assert expensive("volumes.lun0.size")
    assert not expensive("machines.dut.settings")
    assert not expensive("links.lan.mtu")
    assert not expensive("*.direction")


def test_frames_between_two_kernels_are_refused(make_lab: MakeLab) -> None:
    """Their stamps would be read by another clock; both ports on one host are fine, whatever lies between."""
    hosts = {name: {"kind": "host", "ssh": name} for name in ("pc6", "pc7")}
    links = {name: {"ends": [f"pc6.{name}", f"pc7.{name}"], "cable": True} for name in ("eth1", "eth2")}

    def wanted(target: str, forward: str) -> Setup:
        lab = make_lab({**hosts, "pc7": {**hosts["pc7"], "forward": forward}}, links)
        said = {"kind": "latency", "from": "pc6.eth1", "to": target, "rate": "1kpps"}
        return Setup(lab, {"lat": Latency.model_validate(said)})

    with pytest.raises(
        InputError, match=r"pc6.eth1 on pc6, pc7.eth1 on pc7.*clocks of two are never compared"
    ):
        needs(wanted("pc7.eth1", "none"))
    assert needs(wanted("pc6.eth2", "bridge"))


def test_what_another_host_lacks_is_told_with_its_name(make_lab: MakeLab, facts: Facts) -> None:
    """Before it was reached nothing is said; then its interfaces, its programs and its rights are looked at."""
    hosts = {name: {"kind": "host", "ssh": f"root@{name}"} for name in ("pc6", "pc7")}
    lab = make_lab(hosts, {"x": {"ends": ["pc6.eth0", "pc7.eth1"], "cable": True}})
    stream = Stream.model_validate({"kind": "stream", "from": "pc6", "to": "pc7"})
    found = needs(Setup(lab, {"tcp": stream}))
    assert lacking_of(found, facts) is None
    reached = replace(facts, hosts={"pc6": replace(facts, rootless=True), "pc7": facts})
    told = lacking_of(found, reached) or ""
    assert "pc7: port pc7.eth1: it has no interface eth1; it has eth0" in told
    assert "pc6: cable of link x: an ordinary user may not set it; run as root" in told
