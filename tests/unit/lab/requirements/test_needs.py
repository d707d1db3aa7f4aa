"""Requirements of a cell on a host, and messages on unmet ones."""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from tests.unit.lab.conftest import missing, needs
from tests.wording import in_words

from iolab.errors import AgentError, InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Lab, Setup
from iolab.experiment.model.machines import Vm
from iolab.experiment.model.measures import DiskMeasure, Stream
from iolab.experiment.model.packets import Latency
from iolab.lab.actions import StartGuest
from iolab.lab.compose import compose
from iolab.lab.hosts.facts import CONGESTION_LOADED, ONLINE_CPUS, Facts, ImageFact, UsedNetwork, decode_facts
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need, NeedKind, lacking
from iolab.lab.requirements.part_needs import ring_trouble
from iolab.messages.places import ForMachine
from iolab.messages.unmet import UnmetRequirement
from iolab.plan.durations import expensive, start_ns
from iolab.units import format_bytes

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]
Reason = Callable[..., str]
"""The unmet requirement of a stream between two machines, in words; empty if all are met."""
TOOLS = ("ethtool", "qemu-system-x86_64", "taskset", "ps", "xl", "qemu 8")
CONTRACT = Path(__file__).parents[4] / "contract" / "agent-v1.md"


@pytest.fixture
def facts() -> Facts:
    """Return the facts of the contract's example, with ethtool installed."""
    lines = CONTRACT.read_text().splitlines()
    (line,) = [line for line in lines if '"result":{"hostname"' in line]
    decoded = decode_facts(
        {"rootless": False, "uid": 0, "capabilities": ["netns", "macvtap"]}, json.loads(line)["result"]
    )
    return replace(decoded, programs={**decoded.programs, **dict.fromkeys(TOOLS, "1")})


@pytest.fixture
def reason(make_lab: MakeLab, facts: Facts) -> Reason:
    """Provide a function that returns the unmet requirement of a stream with some replaced parts."""

    def find(host: Facts = facts, machine: object = "none", **link: object) -> str:
        lab = make_lab({"a": "none", "b": machine}, {"x": {"ends": ["a.lab0", "b.eth0"], **link}})
        stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "b"})
        return missing(needs(Setup(lab, {"tcp": stream})), host) or ""

    return find


def test_host_without_the_right_to_create_namespaces_is_reported_once(reason: Reason, facts: Facts) -> None:
    """Report the remedy for an unprivileged container, and for a user without the right."""
    container = replace(facts, capabilities=("command", "process"))
    assert reason(replace(facts, capabilities=())) == "", "nobody asked the agent"
    assert reason(container).count("docker run --cap-add NET_ADMIN --cap-add SYS_ADMIN") == 1
    assert reason(container).startswith("machines a, b together: ")
    assert "sysctl user.max_user_namespaces" in reason(replace(container, uid=1000))
    without_ip = replace(container, programs={**facts.programs, "ip": None})
    assert "install the package iproute2" in reason(without_ip)


def test_host_facts_example_in_the_contract_is_decoded(facts: Facts) -> None:
    """Decode the example of the protocol, and encode it again."""
    assert (facts.hostname, facts.cpus, facts.interfaces[0].driver) == ("pc6", 2, "virtio_net")
    assert facts.features["link:vlan"] is False
    assert decode_facts(asdict(facts), asdict(facts)) == facts


def test_malformed_host_facts_are_refused_with_the_missing_field() -> None:
    """Show no traceback of a parser."""
    with pytest.raises(AgentError, match=r"reading the host's facts failed at \w+: field required"):
        decode_facts({}, {"hostname": "pc6"})


def test_plain_lab_has_no_unmet_requirement_on_debian(reason: Reason) -> None:
    """Check veth, addresses, MTU and offloads."""
    assert reason(mtu=9000, offload={"tso": "off"}) == ""


def test_missing_kernel_feature_is_reported_with_module_and_remedy(reason: Reason) -> None:
    """Name the kernel module and the way out."""
    assert reason(vlan=100) == (
        "`vlan: 100` on link x: module 8021q is not available in the kernel of this host; load the module, or put "
        "a and b in a VM"
    )


def test_untested_kernel_feature_is_not_refused(reason: Reason, facts: Facts) -> None:
    """Accept a feature that is null in the facts."""
    assert reason(replace(facts, features={"link:vlan": None}), vlan=100) == ""


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("cubic", None),
        ("bbr3", None),
        ("vegas", "module tcp_vegas is not available"),
        (
            "cubicc",
            "the kernel of this host does not have congestion control cubicc; the kernel has bbr3, cubic",
        ),
    ],
)
def test_congestion_control_must_be_loadable_or_loaded(
    make_lab: MakeLab, facts: Facts, asked: str, said: str | None
) -> None:
    """Accept a loaded algorithm of a third party; treat an unknown name as a mistake."""
    tried = {"congestion:cubic": True, "congestion:reno": True, "congestion:vegas": False}
    host = replace(
        facts, features={**facts.features, **tried}, settings={CONGESTION_LOADED: "reno cubic bbr3\n"}
    )
    lab = make_lab({"a": "none", "b": "none"}, {"x": {"ends": ["a.lab0", "b.eth0"]}})
    stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "b", "congestion": asked})
    told = missing(needs(Setup(lab, {"tcp": stream})), host)
    assert told is None if said is None else said in str(told)


def test_congestion_control_that_is_not_permitted_is_not_reported_as_a_missing_module(
    make_lab: MakeLab, facts: Facts
) -> None:
    """Name tcp_allowed_congestion_control, which limits an unprivileged container."""
    refused = {"congestion:cubic": False}
    host = replace(
        facts, features={**facts.features, **refused}, settings={CONGESTION_LOADED: "reno cubic\n"}
    )
    lab = make_lab({"a": "none", "b": "none"}, {"x": {"ends": ["a.lab0", "b.eth0"]}})
    stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "b", "congestion": "cubic"})
    found = missing(needs(Setup(lab, {"tcp": stream})), host)
    assert "net.ipv4.tcp_allowed_congestion_control" in str(found)
    assert "module" not in str(found)


def test_unknown_congestion_control_is_refused_in_a_guest(make_lab: MakeLab, facts: Facts) -> None:
    """Refuse it, because the image's kernel is known."""
    image = ImageFact(flavour="linux", features={"congestion:bbr": True})
    lab = make_lab({"a": {"kind": "vm"}, "b": "none"}, {"x": {"ends": ["a.eth0", "b.eth0"]}})
    for asked, lacks in (("bbr", False), ("cubic", False), ("bbrr", True)):
        stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "b", "congestion": asked})
        told = missing(needs(Setup(lab, {"tcp": stream})), replace(facts, images=(image,)))
        assert ("bbrr" in str(told)) is lacks


def test_missing_program_is_reported_with_its_package(reason: Reason, facts: Facts) -> None:
    """Name iproute2 for tc; require ethtool for offloads only."""
    bare = replace(facts, programs={"iperf3": "3.12", "ip": "6.1", "tc": None, "ethtool": None})
    tc = "tc is not installed on this host; install the package iproute2"
    assert reason(bare) == tc
    both = reason(bare, offload={"tso": "off"})
    assert "install the package ethtool" in both


@pytest.mark.parametrize(
    ("machine", "link", "what"),
    [
        (
            "none",
            {"shape": {"at": "a.lab0", "qdisc": "etf", "rate": "1Mbit"}},
            "shape of link x: the qdisc etf",
        ),
    ],
)
def test_unsupported_feature_is_reported_with_its_location(
    reason: Reason, machine: object, link: Mapping[str, object], what: str
) -> None:
    """Name the part of the file."""
    assert reason(machine=machine, **link).startswith(f"{what} is not yet supported by this version of iolab")


def test_port_name_of_an_existing_interface_is_refused_on_the_local_host(reason: Reason) -> None:
    """Refuse an existing interface."""
    assert (
        reason(machine={"kind": "host"})
        == "port b.eth0: this host already has an interface eth0; rename the port"
    )


def test_address_that_overlaps_a_network_of_the_local_host_is_refused(reason: Reason, facts: Facts) -> None:
    """Refuse an address whose route would take the host's own traffic; a namespace has separate routes."""
    used = UsedNetwork(network="192.0.2.0/24", interface="eno1")
    free = replace(facts, interfaces=(), networks=(used,))
    address = {"addresses": {"b.eth0": "192.0.2.2/25"}}
    assert reason(free, machine={"kind": "host"}, **address) == (
        "link x: lab network 192.0.2.0/25 overlaps 192.0.2.0/24, which this host already uses on eno1; choose other "
        "addresses for the link"
    )
    assert reason(free, machine={"kind": "host"}) == ""
    assert reason(free, **address) == ""
    own = replace(free, networks=(replace(used, interface="eth0"),))
    assert reason(own, machine={"kind": "host"}, **address) == "", "a card's own address is no other's"


def test_route_that_overlaps_a_network_of_the_local_host_is_refused(make_lab: MakeLab, facts: Facts) -> None:
    """Check the network behind a router, which is routed in the host's table."""
    lab = make_lab({"me": {"kind": "host"}, "r": "route", "far": "none"}, {
        "one": ["me.lab0", "r.p0"],
        "two": {"ends": ["r.p1", "far.p0"], "addresses": {"far.p0": "192.0.2.2/24"}},
    })  # fmt: skip
    used = UsedNetwork(network="192.0.2.128/25", interface="eno1")
    told = missing(needs(Setup(lab, {})), replace(facts, networks=(used,)))
    assert told is not None
    assert "overlaps 192.0.2.128/25, which this host already uses on eno1" in told, told


def test_setting_outside_the_network_namespace_needs_root(reason: Reason, facts: Facts) -> None:
    """Allow settings of the network namespace."""
    machine = {"kind": "netns", "settings": {"vm.swappiness": "1", "net.ipv4.tcp_sack": "0"}}
    assert reason(machine=machine) == ""
    told = reason(replace(facts, rootless=True), machine=machine)
    assert told == "setting vm.swappiness on machine b: this requires root on this host; run iolab as root"


def test_dangerous_kernel_setting_needs_allow_setting_except_in_a_guest(
    reason: Reason, facts: Facts, imaged: Facts
) -> None:
    """Refuse core_pattern, which would run a file as root; in a guest it does not affect the host."""
    settings = {"kernel.core_pattern": "|/tmp/x"}
    machine = {"kind": "netns", "settings": settings}
    assert reason(machine=machine) == (
        "setting kernel.core_pattern on machine b: this setting affects more than the host's networking; to permit it, "
        "add --allow-setting kernel.core_pattern"
    )
    assert reason(replace(facts, permitted_settings=("kernel.core_pattern",)), machine=machine) == ""
    assert reason(machine={"kind": "netns", "settings": {"kernel/core_pattern": "x"}}) != ""
    hardened = {"kind": "netns", "settings": {"net.core.bpf_jit_harden": "0"}}
    assert "--allow-setting net.core.bpf_jit_harden" in reason(machine=hardened)
    assert reason(imaged, machine={"kind": "vm", "settings": settings}) == ""


def test_disk_measure_without_a_disk_is_refused(make_lab: MakeLab) -> None:
    """Report it as a mistake in the file."""
    lab = make_lab({"a": "none", "b": "none"}, {"x": ["a.eth0", "b.eth0"]})
    disk = DiskMeasure.model_validate({"kind": "disk", "on": "a", "program": "hdparm"})
    with pytest.raises(InputError, match="saw 0 disks"):
        needs(Setup(lab, {"read": disk}))


def test_measure_between_unconnected_machines_is_refused(make_lab: MakeLab) -> None:
    """Report it as a mistake in the file, not a limit of the host."""
    lab = make_lab({"a": "none", "b": "none", "c": "none"}, {"x": ["a.eth0", "b.eth0"]})
    stream = Stream.model_validate({"kind": "stream", "from": "a", "to": "c"})
    with pytest.raises(InputError, match="looking up an endpoint of the measure"):
        needs(Setup(lab, {"tcp": stream}))


@pytest.fixture
def imaged(facts: Facts) -> Facts:
    """Return that host with guest images: linux without vlans, nested with."""
    images = (
        ImageFact(flavour="linux", features={"link:vlan": False, "nic:e1000": True}),
        ImageFact(flavour="nested", features={"link:vlan": True, "device:vhost-net": False}),
    )
    return replace(facts, images=images)


def test_missing_guest_image_is_reported_with_the_build_command(
    reason: Reason, facts: Facts, imaged: Facts
) -> None:
    """Report nothing else if the image exists."""
    told = reason(facts, machine={"kind": "vm"})
    assert told == "there is no guest image linux yet; `iolab run` or `iolab image build linux` builds it"
    assert reason(imaged, machine={"kind": "vm"}) == ""


def test_features_of_a_guest_are_required_of_its_image_and_not_of_the_host(
    make_lab: MakeLab, imaged: Facts
) -> None:
    """Check a vlan between two guests against the image, which may lack it, not against the host."""

    def told(image: str) -> str | None:
        machines = {name: {"kind": "vm", "image": image} for name in ("a", "b")}
        lab = make_lab(machines, {"x": {"ends": ["a.eth0", "b.eth0"], "vlan": 100}})
        return missing(needs(Setup(lab, {})), imaged)

    assert imaged.features["link:vlan"] is False
    assert told("nested") is None
    seen = "`vlan: 100` on link x: the kernel of guest image linux has no module 8021q; use a different image"
    assert told("linux") == seen


def test_vm_is_suggested_only_if_its_image_has_the_missing_feature(reason: Reason, facts: Facts) -> None:
    """Suggest no image that lacks the module, too."""
    without = (ImageFact(flavour="linux", features={"link:vlan": False}),)
    assert (
        reason(replace(facts, images=without), vlan=100)
        == "`vlan: 100` on link x: module 8021q is not available in the kernel of this host; load the module"
    )


@pytest.mark.parametrize(
    ("machine", "what"),
    [
        ({"nic": "e1000", "queues": 2},
         "queues of machine b: e1000 has only one queue; set `queues: 1`, or use a virtio NIC"),
        ({"ring": {"rx": 300}}, "ring of machine b: virtio-net does not support `rx: 300`; it supports 256, 512, 1024"),
        ({"ring": {"tx": 512}}, "ring of machine b: virtio-net does not support `tx: 512`; it supports 256"),
        ({"nic": "rtl8139", "ring": {"rx": 64}}, "ring of machine b: the ring size of rtl8139 is fixed"),
    ],
)  # fmt: skip
def test_unsupported_nic_of_a_guest_is_left_out_with_the_reason(
    reason: Reason, imaged: Facts, machine: dict[str, object], what: str
) -> None:
    """Leave out the cell, because other levels may work."""
    assert reason(imaged, machine={"kind": "vm", **machine}).startswith(what)


def test_rings_of_emulated_nics_may_have_any_size(reason: Reason, imaged: Facts) -> None:
    """Accept any size, which their driver sets."""
    assert reason(imaged, machine={"kind": "vm", "nic": "e1000", "ring": {"rx": 300}}) == ""


def test_macvtap_needs_the_kernel_module_and_permission_to_open_it(reason: Reason, imaged: Facts) -> None:
    """Allow an ordinary user to create one; opening it needs root or a sudo rule."""
    machine = {"kind": "vm", "nic": "macvtap"}
    told = reason(replace(imaged, rootless=True, capabilities=()), machine=machine)
    assert told.startswith(
        "`nic: macvtap` on machine b: an ordinary user of this host cannot open the macvtap device; run iolab as root, "
        "or let sudo"
    )
    assert "`iolab doctor` explains" in told
    assert reason(replace(imaged, rootless=True, capabilities=("netns", "macvtap")), machine=machine) == ""
    told = reason(replace(imaged, features={"link:macvtap": False}), machine=machine)
    assert "module macvtap is not available in the kernel of this host" in told


def test_parent_without_a_hypervisor_is_reported_and_an_image_with_one_is_named(
    make_lab: MakeLab, imaged: Facts
) -> None:
    """Name the image that can start guests of the engine."""
    machines = {"h": {"kind": "vm", "image": "linux"}, "g": {"kind": "vm", "on": "h"}}
    told = missing(needs(Setup(make_lab(machines, {"x": ["h.eth0", "g.eth0"]}), {})), imaged)
    assert told is not None
    assert "image linux of the parent h cannot run guests of engine qemu; set `image: nested` on h" in told


def test_xen_domain_needs_a_dom0_on_any_host(make_lab: MakeLab, imaged: Facts) -> None:
    """Require the same of the local host and of a remote one; a Dom0 needs only the image."""
    for parent in ({"kind": "host"}, {"kind": "host", "ssh": "h"}):
        machines = {"h": parent, "d": {"kind": "vm", "engine": "xen", "on": "h"}}
        setup = Setup(make_lab(machines, {"x": ["h.p0", "d.eth0"]}), {})
        found = {name: replace(imaged, features={**imaged.features, "xen:dom0": name == "with"},
                               programs={**imaged.programs, "xl": "" if name == "with" else None})
                 for name in ("with", "without")}  # fmt: skip
        with_xen, without = (replace(one, hosts={"h": one}) for one in found.values())
        told = missing(needs(setup), without)
        assert told is not None
        host = "h" if "ssh" in parent else "this host"
        assert f"{host} does not run Xen, or is not its Dom0" in told
        assert f"xl is not installed on {host}; install the package xen-utils" in told
        assert missing(needs(setup), with_xen) is None


def test_nic_of_a_nested_guest_is_required_of_its_parents_image(make_lab: MakeLab, imaged: Facts) -> None:
    """Check vhost-net of a nested guest in the parent's image."""
    machines = {"h": {"kind": "vm"}, "g": {"kind": "vm", "on": "h", "nic": "vhost-net"}}
    told = missing(needs(Setup(make_lab(machines, {"x": ["h.eth0", "g.eth0"]}), {})), imaged)
    assert told is not None
    assert "the kernel of guest image nested has no module vhost_net" in told


def test_guest_with_more_memory_than_its_parent_is_refused(
    reason: Reason, make_lab: MakeLab, imaged: Facts
) -> None:
    """Compare with the real memory of a host, and with `memory` of a guest."""
    assert reason(imaged, {"kind": "vm", "memory": "4G"}) == ""
    told = reason(imaged, {"kind": "vm", "memory": "16T"})
    seen = format_bytes(imaged.memory_bytes)
    assert told == f"memory of machine b: this host has only {seen} of memory; request less memory"
    machines = {"outer": {"kind": "vm"}, "inner": {"kind": "vm", "on": "outer", "memory": "1G"}}
    nested = Setup(make_lab(machines, {"x": {"ends": ["outer.p0", "inner.eth0"]}}), {})
    told = missing(needs(nested), imaged) or ""
    assert "memory of machine inner: the parent outer has only 512 MiB of memory; give outer more memory" in (
        told or ""
    )


def test_guests_with_more_total_memory_than_their_parent_are_refused(
    make_lab: MakeLab, imaged: Facts
) -> None:
    """Compare their sum, too, although each alone fits."""
    each = imaged.memory_bytes // 2
    machines = {name: {"kind": "vm", "memory": each} for name in ("a", "b", "c")}
    told = missing(needs(Setup(make_lab(machines, {"x": ["a.eth0", "b.eth0", "c.eth0"]}), {})), imaged) or ""
    seen = format_bytes(imaged.memory_bytes)
    assert (
        f"memory of machines a, b, c together: this host has only {seen} of memory; request less memory"
        in (told or "")
    )
    inner = {name: {"kind": "vm", "on": "outer", "memory": "300M"} for name in ("a", "b")}
    nested = {"outer": {"kind": "vm"}, **inner}
    told = missing(needs(Setup(make_lab(nested, {"x": ["a.eth0", "b.eth0"]}), {})), imaged) or ""
    assert "memory of machines a, b together: the parent outer has only 512 MiB of memory" in told


def test_guest_can_be_pinned_only_to_online_cpus_of_its_parent(
    reason: Reason, make_lab: MakeLab, imaged: Facts
) -> None:
    """Check a host's CPU numbers with gaps, and a guest's `cpus`; accept unknown ones."""
    guest = {"kind": "vm", "cpus": 2, "pin": [4, 6]}
    every_other = replace(imaged, settings={ONLINE_CPUS: "0,2,4,6\n"})
    assert reason(every_other, guest) == ""
    assert reason(imaged, guest) == ""
    told = reason(every_other, guest | {"pin": [4, 5]})
    assert told == "pin of machine b: this host has no CPU 5; its online CPUs are 0,2,4,6"
    assert (
        reason(every_other, {"kind": "vm", "pin_io": [3]})
        == "pin_io of machine b: this host has no CPU 3; its online CPUs are 0,2,4,6"
    )
    machines = {"outer": {"kind": "vm", "cpus": 2}, "inner": {"kind": "vm", "on": "outer", "pin": [2]}}
    nested = make_lab(machines, {"x": {"ends": ["outer.p0", "inner.eth0"]}})
    stream = Stream.model_validate({"kind": "stream", "from": "outer", "to": "inner"})
    found = missing(needs(Setup(nested, {"tcp": stream})), imaged)
    assert (
        "pin of machine inner: the parent outer has no CPU 2, because it has only 2 CPUs; increase `cpus` of outer"
        in (found or "")
    )


def test_cable_to_a_namespace_is_refused(reason: Reason) -> None:
    """Refuse it, because a namespace has no socket."""
    told = reason(cable=True)
    assert told.startswith(
        "cable of link x: a is of kind netns, but a cable connects interfaces of machines of kind host"
    )


def test_factors_that_change_machines_or_volumes_are_expensive_and_those_of_links_are_cheap() -> None:
    """Define which factors are grouped into whole plots."""
    assert expensive("machines.dut.nic")
    assert expensive("machines.*.cpus")
    assert expensive("volumes.lun0.size")
    assert expensive("machines.dut.ring.rx")
    assert expensive("links.lan.ends")
    assert not any(
        expensive(f"machines.dut.{hot}") for hot in ("settings", "pin", "pin_io", "queues", "host.queues")
    )
    assert not expensive("links.lan.mtu")
    assert not expensive("*.direction")


def test_test_frames_between_two_kernels_are_refused(make_lab: MakeLab) -> None:
    """Refuse them, because different clocks would read the stamps; accept both ports on one host."""
    hosts = {name: {"kind": "host", "ssh": name} for name in ("pc6", "pc7")}
    links = {name: {"ends": [f"pc6.{name}", f"pc7.{name}"], "cable": True} for name in ("eth1", "eth2")}

    def wanted(target: str, forward: str) -> Setup:
        lab = make_lab({**hosts, "pc7": {**hosts["pc7"], "forward": forward}}, links)
        said = {"kind": "latency", "from": "pc6.eth1", "to": target, "rate": "1kpps"}
        return Setup(lab, {"lat": Latency.model_validate(said)})

    with pytest.raises(
        InputError, match=r"pc6.eth1 on pc6, pc7.eth1 on pc7.*timestamps of two clocks cannot be compared"
    ):
        needs(wanted("pc7.eth1", "none"))
    assert needs(wanted("pc6.eth2", "bridge"))


def test_unmet_requirement_of_a_different_host_is_reported_with_its_name(
    make_lab: MakeLab, facts: Facts
) -> None:
    """Check its interfaces, programs and rights after it is reached, not before."""
    hosts = {name: {"kind": "host", "ssh": f"root@{name}"} for name in ("pc6", "pc7")}
    lab = make_lab(hosts, {"x": {"ends": ["pc6.eth0", "pc7.eth1"], "cable": True}})
    stream = Stream.model_validate({"kind": "stream", "from": "pc6", "to": "pc7"})
    found = needs(Setup(lab, {"tcp": stream}))
    assert missing(found, facts) is None
    reached = replace(facts, hosts={"pc6": replace(facts, rootless=True), "pc7": facts})
    told = missing(found, reached) or ""
    assert "port pc7.eth1: pc7 has no interface eth1; it has eth0" in told
    assert "cable of link x: this requires root on pc6; run iolab as root" in told


def test_estimated_start_time_of_parallel_guests_is_close_to_that_of_one_guest(make_lab: MakeLab) -> None:
    """Add nested guests after their parents, and more time for Xen."""
    one = make_lab({"a": {"kind": "vm"}, "n": "none"}, {})
    two = make_lab({"a": {"kind": "vm"}, "b": {"kind": "vm"}}, {})
    nested = make_lab({"a": {"kind": "vm"}, "g": {"kind": "vm", "on": "a"}}, {})
    xen = make_lab({"a": {"kind": "vm"}, "g": {"kind": "vm", "on": "a", "engine": "xen"}}, {})
    assert start_ns(make_lab({"n": "none"}, {})) == 0
    assert 2e9 < start_ns(one) < start_ns(two) < 2 * start_ns(one)
    assert start_ns(two) < start_ns(nested) < start_ns(xen)


def test_igb_nic_needs_a_newer_qemu(reason: Reason, imaged: Facts) -> None:
    """Name the command that fetches Debian's backport."""
    without = replace(imaged, programs={**imaged.programs, "qemu 8": None})
    assert (
        reason(without, machine={"kind": "vm", "nic": "igb"})
        == "`nic: igb` on machine b: this host has no QEMU 8 or later; run `iolab image build qemu`"
    )
    having = replace(imaged, programs={**imaged.programs, "qemu 8": "10.0"})
    assert reason(having, machine={"kind": "vm", "nic": "igb"}) == ""


def test_vhost_user_nic_needs_the_switch_program_and_a_newer_qemu(reason: Reason, imaged: Facts) -> None:
    """Name both with their installation commands."""
    able = replace(imaged, programs={**imaged.programs, "qemu 8": "10.0"})
    machine = {"kind": "vm", "nic": "vhost-user"}
    assert reason(able, machine=machine) == ""
    without = replace(able, features={**able.features, "switch:vhost-user": False})
    told = reason(without, machine=machine)
    card = "`nic: vhost-user` on machine b"
    assert told == f"{card}: dpdk-testpmd is not installed on this host; install the package dpdk-dev"
    older = replace(able, programs={**imaged.programs, "qemu 8": None})
    assert reason(older, machine=machine).startswith(f"{card}: this host has no QEMU 8 or later")


def test_offloads_and_jumbo_frames_are_refused_on_a_vhost_user_nic(reason: Reason, imaged: Facts) -> None:
    """Refuse them, because it neither completes checksums nor segments frames."""
    able = replace(imaged, programs={**imaged.programs, "qemu 8": "10.0"})
    machine = {"kind": "vm", "nic": "vhost-user"}
    told = reason(able, machine=machine, offload={"tx_checksum": "on", "tso": "on", "gro": "on"})
    assert told.endswith("cannot forward frames that still need checksums or segmentation; remove tx, tso")
    assert reason(able, machine=machine, offload={"tso": "off"}) == ""
    assert "an MTU of at most 1500 bytes" in reason(able, machine=machine, mtu=9000)


def test_long_transmit_ring_is_accepted_only_by_vhost_user() -> None:
    """Refuse it for other NICs, as QEMU does."""
    ring, ring_of = {"rx": 1024, "tx": 1024}, ForMachine(machine="b")
    assert (
        list(ring_trouble(ring_of, Vm.model_validate({"kind": "vm", "nic": "vhost-user", "ring": ring})))
        == []
    )
    assert (
        list(ring_trouble(ring_of, Vm.model_validate({"kind": "vm", "nic": "vhost-net", "ring": ring}))) != []
    )


LAB = """
lab:
  machines:
    tester: {kind: host, ssh: tester}
    pc1: {kind: host, ssh: pc1}
    dut: {kind: vm, on: pc1, nic: NIC, pin: auto}
  links:
    lan: {ends: [tester.eth1, pc1.eth1], cable: true}
    card: {ends: [pc1.eth1, dut.eth0]}
measure:
  tcp: {kind: stream, from: tester, to: dut}
"""


def lab_of(nic: str) -> Lab:
    """Return the lab with a kind of NIC."""
    experiment = parse(LAB.replace("NIC", nic), "lab.yaml")
    return Resolver(experiment).setup(next(cells(experiment))).lab


@pytest.mark.parametrize("nic", ["virtio-net", "macvtap"])
def test_guest_on_a_remote_host_needs_the_image_locally_and_the_hypervisor_remotely(nic: str) -> None:
    """Copy the image to the host, which has its own QEMU; a macvtap needs its agent's permission there."""
    found = lab_needs(lab_of(nic))
    assert Need(NeedKind.IMAGE, "linux", ForMachine(machine="dut")) in found
    assert Need(NeedKind.PROGRAM, "qemu-system-x86_64", ForMachine(machine="dut"), "host:pc1") in found
    assert not [each for each in found if isinstance(each, UnmetRequirement)]
    opened = [
        need.where
        for need in found
        if isinstance(need, Need) and (need.kind, need.name) == (NeedKind.CAPABILITY, "macvtap")
    ]
    assert opened == (["host:pc1"] if nic == "macvtap" else [])


def test_guest_on_a_remote_host_is_pinned_to_cpus_of_that_host() -> None:
    """Use any CPU if the number of CPUs is unknown."""
    for cpus, chosen in (({"pc1": 4}, (1,)), ({}, ())):
        resources = {one.key: one for one in compose(lab_of("virtio-net"), cpus=16, other_cpus=cpus)}
        assert resources["vm:dut"].kernel == "pc1"
        assert isinstance(resources["vm:dut"].actions[0], StartGuest)
        assert resources["member:pc1.eth1"].kernel == "pc1"
        (pin,) = resources["pin:dut"].actions
        assert getattr(pin, "vcpus", None) == chosen


def test_host_of_a_different_architecture_than_the_images_is_refused() -> None:
    """Name both architectures; accept an equal host, and one that is not reached yet."""
    own = Facts(
        hostname="here", kernel="6.1.0", architecture="x86_64", os="Debian", cpu_model="any", cpus=2,
        memory_bytes=1 << 30, clocksource="tsc", load_1min_milli=0,
    )  # fmt: skip
    (need,) = [
        one for one in lab_needs(lab_of("virtio-net")) if getattr(one, "kind", None) is NeedKind.ARCHITECTURE
    ]
    assert lacking(need, own) is None
    assert lacking(need, replace(own, hosts={"pc1": own})) is None
    told = in_words(lacking(need, replace(own, hosts={"pc1": replace(own, architecture="aarch64")})))
    assert told.startswith(
        "machine dut: the local guest images are for x86_64, but the architecture of pc1 is aarch64; put the guest on"
    )
