"""Hosts of a run: their agents, and the connections that control them."""

import pytest

from iolab.errors import InputError
from iolab.experiment import parse
from iolab.experiment.experiment import Experiment
from iolab.run.hosts.host_agent import Ends, carrying, parse_ends
from iolab.run.hosts.hosts import hosts_of


def experiment(machines: str, factors: str = "") -> Experiment:
    """Return an experiment on these machines."""
    links = "links: {lan: {ends: [a.eth1, b.eth1], cable: true}}"
    text = f"lab:\n  machines: {machines}\n  {links}\nmeasure:\n  tcp: {{kind: stream, from: a, to: b}}\n{factors}"
    return parse(text, "lab.yaml")


def test_remote_hosts_of_an_experiment_are_found() -> None:
    """Exclude the local host and namespaces; ignore unrelated factors."""
    machines = "{a: {kind: host, ssh: root@pc6}, b: {kind: host}, c: {kind: netns, on: a}}"
    factors = "factors:\n  machines.a.settings: [{net.ipv4.tcp_sack: 0}, {net.ipv4.tcp_sack: 1}]\n"
    assert hosts_of(experiment(machines, factors)) == {"a": "root@pc6"}


def test_machine_with_a_varying_host_is_refused() -> None:
    """Name both hosts."""
    found = experiment(
        "{a: {kind: host, ssh: pc6}, b: {kind: host}}", "factors:\n  machines.a.ssh: [pc6, pc7]\n"
    )
    with pytest.raises(InputError, match=r"machines.a.ssh.*saw pc6, pc7.*one host per machine"):
        hosts_of(found)


def test_two_machines_on_one_host_are_refused() -> None:
    """Suggest namespaces, because one agent works on a host at a time."""
    with pytest.raises(InputError, match=r"pc6, which is already the host of a.*netns with `on: a`"):
        hosts_of(experiment("{a: {kind: host, ssh: pc6}, b: {kind: host, ssh: pc6}}"))


ADDRESSES = [
    {"ifname": "lo", "addr_info": [{"local": "127.0.0.1"}]},
    {"ifname": "eth0", "master": "bond0", "addr_info": []},
    {"ifname": "eth1", "addr_info": [{"local": "198.18.5.1"}, {"local": "fe80::5"}]},
    {"ifname": "eth2", "master": "bond0", "addr_info": []},
    {"ifname": "bond0", "master": "br0", "addr_info": []},
    {"ifname": "br0", "addr_info": [{"local": "198.18.4.1"}]},
    {"ifname": "eth3", "addr_info": []},
    {
        "ifname": "eth3.7",
        "link": "eth3",
        "linkinfo": {"info_kind": "vlan"},
        "addr_info": [{"local": "198.18.7.1"}],
    },
    {"ifname": "v0", "link": "v1", "linkinfo": {"info_kind": "veth"}, "addr_info": [{"local": "198.18.8.1"}]},
]


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("198.18.4.9 50122 198.18.4.1 22", Ends("198.18.4.9", "198.18.4.1")),
        ("fe80::9%eth1 50122 fe80::5%eth1 22", Ends("fe80::9%eth1", "fe80::5%eth1")),
        ("UNKNOWN 65535 UNKNOWN 65535", None),
        ("", None),
    ],
)
def test_endpoints_of_an_ssh_login_are_parsed(text: str, ends: Ends | None) -> None:
    """Parse sshd's variables; return nothing for a session outside the network."""
    assert parse_ends(text) == ends


def test_interface_of_the_ssh_address_and_its_lower_devices_carry_the_connection() -> None:
    """Include a bridge on a bond on two NICs, and a VLAN on its NIC; exclude the peer of a veth."""
    assert carrying(ADDRESSES, [], ["198.18.4.1"]) == ["br0", "bond0", "eth0", "eth2"]
    assert carrying(ADDRESSES, [], ["198.18.7.1"]) == ["eth3.7", "eth3"]
    assert carrying(ADDRESSES, [], ["198.18.8.1"]) == ["v0"]


def test_interface_of_the_route_to_the_client_carries_the_connection() -> None:
    """Include a route through an interface without the address."""
    assert carrying(ADDRESSES, [{"dst": "198.18.7.7", "dev": "eth1"}], ["198.18.5.1"]) == ["eth1"]
    assert carrying(ADDRESSES, [{"dst": "198.18.7.7", "dev": "eth1"}], ["198.18.8.1"]) == ["eth1", "v0"]


def test_ipv6_zone_of_the_ssh_address_is_ignored() -> None:
    """Strip the zone that sshd appends; exclude the loopback interface."""
    assert carrying(ADDRESSES, [{"dev": "lo"}], ["fe80::5%eth1"]) == ["eth1"]
