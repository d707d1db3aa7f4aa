"""Links over links: what wraps packets, by which addresses, how large they may be, and what cannot be."""

import base64
from collections.abc import Callable, Mapping

import pytest
from tests.wording import in_words

from iolab.experiment.experiment import Lab, without_plain
from iolab.experiment.model.quantities import PortRef
from iolab.lab.actions import Run
from iolab.lab.compose import compose
from iolab.lab.links.link_topology import mac_of
from iolab.lab.links.overlays import mtu_of
from iolab.lab.links.tunnels import multiplied, private_key, public_key
from iolab.lab.readback.values import Lines, LinkData, value_shown
from iolab.lab.requirements.lab_needs import lab_needs
from iolab.lab.requirements.need import Need
from iolab.lab.resources import Resource
from iolab.lab.topology import make_topology
from iolab.messages.unmet import UnmetRequirement

MakeLab = Callable[[Mapping[str, object], Mapping[str, object]], Lab]


def over(make_lab: MakeLab, tunnel: str, lan_mtu: int | None = None, a: str = "none", **keys: object) -> Lab:
    """Return two namespaces, a link, and a tunnel over it."""
    lan = {"ends": ["a.eth0", "b.eth0"], "mtu": lan_mtu}
    tun = {"ends": ["a.t0", "b.t0"], "over": "lan", "tunnel": tunnel, **keys}
    return make_lab({"a": a, "b": "none"}, {"lan": lan, "tun": tun})


def made(lab: Lab) -> dict[str, Resource]:
    """Return the resources of a lab by key."""
    return {resource.key: resource for resource in compose(lab)}


def typed(resource: Resource) -> list[str]:
    """Return the commands of a resource."""
    return [" ".join(action.do.argv) for action in resource.actions if isinstance(action, Run)]


def said(lab: Lab) -> str:
    """Return what is lacking whatever a computer has."""
    return "; ".join(in_words(one) for one in lab_needs(lab) if isinstance(one, UnmetRequirement))


@pytest.mark.parametrize(
    ("tunnel", "number", "command"),
    [
        (
            "vxlan",
            None,
            "type vxlan id 2 dev eth0 local 198.18.0.1 remote 198.18.0.2 dstport 4789",
        ),
        (
            "vxlan",
            77,
            "type vxlan id 77 dev eth0 local 198.18.0.1 remote 198.18.0.2 dstport 4789",
        ),
        ("gre", None, "type gre local 198.18.0.1 remote 198.18.0.2 ttl 64"),
        ("gretap", 5, "type gretap local 198.18.0.1 remote 198.18.0.2 ttl 64 key 5"),
    ],
)
def test_a_tunnel_is_what_an_engineer_would_type(
    make_lab: MakeLab, tunnel: str, number: int | None, command: str
) -> None:
    """Between the addresses of the link below, which stand before it; with its own Ethernet address if it has one."""
    lab = over(make_lab, tunnel, id=number)
    end = made(lab)["tunnel:a.t0"]
    own = "" if tunnel == "gre" else f"address {mac_of(lab, PortRef('a.t0'))} "
    assert typed(end) == [f"ip link add dev t0 {own}{command}", "ip link set dev t0 up"]
    assert end.needs == ("netns:a", "address:a.eth0")


def test_the_ends_of_wireguard_know_each_other_by_keys_of_the_lab(make_lab: MakeLab) -> None:
    """The same in every run, and read back: whose key, where to, and for which addresses."""
    end = made(over(make_lab, "wireguard"))["tunnel:a.t0"]
    add, keys, _ = typed(end)
    assert add == "ip link add dev t0 type wireguard"
    assert f"peer {public_key('b.t0')} endpoint 198.18.0.2:51821 allowed-ips 0.0.0.0/0,::/0" in keys
    expected = {one.what: one.expected for one in end.expect}
    assert expected["endpoints of a.t0"] == f"{public_key('b.t0')} 198.18.0.2:51821"
    assert expected["public-key of a.t0"] == public_key("a.t0")


def test_keys_are_those_of_the_curve() -> None:
    """A vector of RFC 7748, 5.2, and one made with another implementation."""
    scalar = bytes.fromhex("a546e36bf0527c9d3b16154b82465edd62144c0ac1fc5a18506a2244ba449ac4")
    clamped = bytes([scalar[0] & 248, *scalar[1:31], (scalar[31] & 127) | 64])
    point = int.from_bytes(
        bytes.fromhex("e6db6867583030db3594c1a424b15f7c726624ec26b3353b10a903a6d0ab1c4c"), "little"
    )
    wanted = "c3da55379de9c6908e94ea4df28d084f32eccf03491c71f754b4075577a28552"
    assert multiplied(clamped, point & (1 << 255) - 1).hex() == wanted
    assert private_key("a.t0") == "CJGpiWGVGW6hly26mgjAbqakdMXGWfSl5XgugXDDLnc="
    assert public_key("a.t0") == "U4MTyV2BCpegFn4LzRShkm1PcOi/zvF/b29NunPbihA="
    assert len(base64.b64decode(public_key("b.t0"))) == 32


@pytest.mark.parametrize(
    ("keys", "mtu"),
    [
        ({"tunnel": "vxlan"}, 1450),
        ({"tunnel": "gre"}, 1476),
        ({"tunnel": "gre", "id": 1}, 1472),
        ({"tunnel": "gretap"}, 1462),
        ({"tunnel": "wireguard"}, 1440),
        ({"tunnel": "vxlan", "lan_mtu": 9000}, 8950),
        ({"tunnel": "wireguard", "mtu": 1380}, 1380),
    ],
)
def test_a_tunnel_carries_what_the_link_below_leaves(
    make_lab: MakeLab, keys: dict[str, object], mtu: int
) -> None:
    """Unless the file says otherwise; it is set after that of the link below."""
    lab = over(make_lab, **keys)  # type: ignore[arg-type]
    assert mtu_of(lab, "tun") == mtu
    resource = made(lab)["mtu:tun"]
    assert f"ip link set dev t0 mtu {mtu}" in typed(resource)
    assert "mtu:lan" in resource.needs


def test_tunnels_in_tunnels_add_up(make_lab: MakeLab) -> None:
    """A vxlan over wireguard: 60 and 50 bytes less, by the addresses of the tunnel."""
    lab = make_lab(
        {"a": "none", "b": "none"},
        {
            "lan": ["a.eth0", "b.eth0"],
            "wg": {"ends": ["a.w0", "b.w0"], "over": "lan", "tunnel": "wireguard"},
            "vx": {"ends": ["a.v0", "b.v0"], "over": "wg", "tunnel": "vxlan"},
        },
    )
    assert mtu_of(lab, "vx") == 1390
    assert "dev w0 local 198.18.1.1 remote 198.18.1.2" in typed(made(lab)["tunnel:a.v0"])[0]


def test_with_nothing_between_its_ports_are_those_of_the_link_below(make_lab: MakeLab) -> None:
    """The names stand for them: what measures there needs no other words."""
    lab = without_plain(over(make_lab, "none"))
    assert list(lab.links) == ["lan"]
    topology = make_topology(lab)
    assert topology.endpoint("a.t0", "b.t0").ref == "a.eth0"
    assert lab.aliases == {"tun": "lan", "a.t0": "a.eth0", "b.t0": "b.eth0"}


def test_machines_with_a_tunnel_send_through_it(make_lab: MakeLab) -> None:
    """And through the link below where its ports are named; gateways route through it too, but never it itself."""
    lab = over(make_lab, "gre")
    topology = make_topology(lab)
    assert topology.endpoint("a", "b").ref == "a.t0"
    assert topology.endpoint("a.eth0", "b.eth0").ref == "a.eth0"
    site = make_topology(
        make_lab(
            {"x": "none", "a": "route", "mid": "route", "b": "route", "y": "none"},
            {
                "home": ["x.e", "a.h"],
                "west": ["a.w", "mid.w"],
                "east": ["mid.e", "b.e"],
                "away": ["b.h", "y.e"],
                "tun": {"ends": ["a.t", "b.t"], "over": ["west", "east"], "tunnel": "gre"},
            },
        )
    )
    routes = {(route.machine, route.destination): route.via_port.port for route in site.routes()}
    networks = {segment.name: segment.network for segment in site.segments}
    assert routes["a", networks["away"]] == "t"
    assert routes["a", networks["east"]] == "w", "what carries the tunnel is not reached by it"
    assert routes["b", networks["west"]] == "e"


def test_several_ends_flood_to_each_other(make_lab: MakeLab) -> None:
    """Each knows where all the others are."""
    machines = dict.fromkeys("abc", "none")
    tun = {"ends": ["a.t0", "b.t0", "c.t0"], "over": "lan", "tunnel": "vxlan"}
    lab = make_lab(machines, {"lan": ["a.e", "b.e", "c.e"], "tun": tun})
    _, *flood, _ = typed(made(lab)["tunnel:a.t0"])
    assert [words.split()[-1] for words in flood] == ["198.18.0.2", "198.18.0.3"]
    tun["tunnel"] = "wireguard"
    (keys,) = [
        words
        for words in typed(
            made(make_lab(machines, {"lan": ["a.e", "b.e", "c.e"], "tun": tun}))["tunnel:a.t0"]
        )
        if words.startswith("sh")
    ]
    assert "endpoint 198.18.0.3:51821 allowed-ips 198.18.1.3/32" in keys


def test_a_bond_is_made_of_ports_without_addresses(make_lab: MakeLab) -> None:
    """What an engineer would type; all parts are read back."""
    bond = {"ends": ["a.b0", "b.b0"], "over": ["one", "two"], "bond": "802.3ad", "hash": "layer3+4"}
    links = {"one": ["a.e1", "b.e1"], "two": ["a.e2", "b.e2"], "trunk": bond}
    lab = make_lab({"a": "none", "b": "none"}, links)
    end = made(lab)["bond:a.b0"]
    assert typed(end) == [
        (
            f"ip link add dev b0 address {mac_of(lab, PortRef('a.b0'))} type bond mode 802.3ad miimon 100 "
            "xmit_hash_policy layer3+4 lacp_rate fast"
        ),
        "ip link set dev e1 down",
        "ip link set dev e1 master b0",
        "ip link set dev e2 down",
        "ip link set dev e2 master b0",
        "ip link set dev b0 up",
    ]
    assert {point.ref for segment in make_topology(lab).segments for point in segment.endpoints} == {
        "a.b0",
        "b.b0",
    }
    assert "link:bond" in {need.name for need in lab_needs(lab) if isinstance(need, Need)}
    differing = {**links, "two": {"ends": ["a.e2", "b.e2"], "mtu": 9000}}
    assert "one, two have different MTUs" in said(make_lab({"a": "none", "b": "none"}, differing))


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"tunnel": "vxlan", "mtu": 1500}, "at most 1450 bytes"),
        ({"tunnel": "gre", "a": "bridge"}, "the tunnel carries packets without Ethernet headers"),
        ({"tunnel": "vxlan", "a": "bridge"}, "would be on the same bridge"),
    ],
)
def test_what_cannot_be_is_said(make_lab: MakeLab, keys: dict[str, object], why: str) -> None:
    """Before anything is made."""
    assert why in said(over(make_lab, **keys))  # type: ignore[arg-type]


def test_two_tunnels_between_the_same_ports_are_told_apart(make_lab: MakeLab) -> None:
    """By an id; vxlans have one each."""
    first = {"ends": ["a.t0", "b.t0"], "over": "lan", "tunnel": "gre"}
    second = {"ends": ["a.t1", "b.t1"], "over": "lan", "tunnel": "gre"}
    machines = {"a": "none", "b": "none"}
    lan = ["a.eth0", "b.eth0"]
    assert "link t1" in said(make_lab(machines, {"lan": lan, "t1": first, "t2": second}))
    assert said(make_lab(machines, {"lan": lan, "t1": first, "t2": {**second, "id": 3}})) == ""


def test_what_ip_and_wg_show_is_read() -> None:
    """Keys of IPv6 have another name; lines come in any order."""
    shown = '[{"ifname": "t0", "linkinfo": {"info_data": {"id": 5, "remote6": "2001:2::1"}}}]'
    assert value_shown(LinkData("t0", ("id", "remote")), shown) == "id 5 remote 2001:2::1"
    assert value_shown(LinkData("t1", ("id",)), shown) is None
    assert value_shown(Lines(), "b\t2\na\t1\n") == "a 1 b 2"
    table = "33:33 self\n00:00 dst 198.18.0.3 self\n00:00 dst 198.18.0.2 self"
    assert value_shown(Lines("00:00", (2,)), table) == "198.18.0.2 198.18.0.3"
