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


def test_machines_that_are_other_hosts_are_found() -> None:
    """This computer and namespaces are none; a factor that touches a machine otherwise does not matter."""
    machines = "{a: {kind: host, ssh: root@pc6}, b: {kind: host}, c: {kind: netns, on: a}}"
    factors = "factors:\n  machines.a.settings: [{net.ipv4.tcp_sack: 0}, {net.ipv4.tcp_sack: 1}]\n"
    assert hosts_of(experiment(machines, factors)) == {"a": "root@pc6"}


def test_a_machine_that_moves_between_hosts_is_refused() -> None:
    """Both places are named."""
    found = experiment(
        "{a: {kind: host, ssh: pc6}, b: {kind: host}}", "factors:\n  machines.a.ssh: [pc6, pc7]\n"
    )
    with pytest.raises(InputError, match=r"machines.a.ssh.*saw pc6, pc7.*one host per machine"):
        hosts_of(found)


def test_two_machines_on_one_host_are_refused() -> None:
    """One agent works on a host at a time; namespaces on it are the way."""
    with pytest.raises(InputError, match=r"pc6, already the host of a.*netns with `on: a`"):
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
def test_the_ends_of_a_login_are_read(text: str, ends: Ends | None) -> None:
    """As sshd tells them; a session over something else than the network has none."""
    assert parse_ends(text) == ends


def test_what_has_the_address_carries_the_connection_and_so_does_all_that_it_stands_on() -> None:
    """A bridge on a bond on two cards, a VLAN on its card: each of them cuts it; the peer of a veth is another end."""
    assert carrying(ADDRESSES, [], ["198.18.4.1"]) == ["br0", "bond0", "eth0", "eth2"]
    assert carrying(ADDRESSES, [], ["198.18.7.1"]) == ["eth3.7", "eth3"]
    assert carrying(ADDRESSES, [], ["198.18.8.1"]) == ["v0"]


def test_the_way_back_to_the_client_carries_it_too() -> None:
    """It may leave by another interface than the one with the address."""
    assert carrying(ADDRESSES, [{"dst": "198.18.7.7", "dev": "eth1"}], ["198.18.5.1"]) == ["eth1"]
    assert carrying(ADDRESSES, [{"dst": "198.18.7.7", "dev": "eth1"}], ["198.18.8.1"]) == ["eth1", "v0"]


def test_an_address_of_one_line_only_is_known_without_its_lines_name() -> None:
    """sshd writes the zone behind it, ip does not; nothing is carried by the loopback interface."""
    assert carrying(ADDRESSES, [{"dev": "lo"}], ["fe80::5%eth1"]) == ["eth1"]
