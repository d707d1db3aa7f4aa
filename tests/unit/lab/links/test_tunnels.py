"""Links over links: encapsulation, addresses, MTU, and conflicts."""

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
    """Return the requirements that no computer can meet."""
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
def test_tunnel_commands_use_the_addresses_of_the_underlay(
    make_lab: MakeLab, tunnel: str, number: int | None, command: str
) -> None:
    """Use them in the commands after they exist; set an Ethernet address if the type has one."""
    lab = over(make_lab, tunnel, id=number)
    end = made(lab)["tunnel:a.t0"]
    own = "" if tunnel == "gre" else f"address {mac_of(lab, PortRef('a.t0'))} "
    assert typed(end) == [f"ip link add dev t0 {own}{command}", "ip link set dev t0 up"]
    assert end.needs == ("netns:a", "address:a.eth0")


def test_wireguard_ends_use_deterministic_keys_that_are_read_back(make_lab: MakeLab) -> None:
    """Use the same keys in every run; read back peer, endpoint and allowed addresses."""
    end = made(over(make_lab, "wireguard"))["tunnel:a.t0"]
    add, keys, _ = typed(end)
    assert add == "ip link add dev t0 type wireguard"
    assert f"peer {public_key('b.t0')} endpoint 198.18.0.2:51821 allowed-ips 0.0.0.0/0,::/0" in keys
    expected = {one.what: one.expected for one in end.expect}
    assert expected["endpoints of a.t0"] == f"{public_key('b.t0')} 198.18.0.2:51821"
    assert expected["public-key of a.t0"] == public_key("a.t0")


def test_wireguard_public_keys_follow_rfc_7748() -> None:
    """Check a vector of RFC 7748, 5.2, and one of a different implementation."""
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
def test_mtu_of_a_tunnel_is_the_underlays_mtu_minus_the_overhead(
    make_lab: MakeLab, keys: dict[str, object], mtu: int
) -> None:
    """Keep an MTU of the file; set it after the underlay's."""
    lab = over(make_lab, **keys)  # type: ignore[arg-type]
    assert mtu_of(lab, "tun") == mtu
    resource = made(lab)["mtu:tun"]
    assert f"ip link set dev t0 mtu {mtu}" in typed(resource)
    assert "mtu:lan" in resource.needs


def test_overheads_of_nested_tunnels_are_added(make_lab: MakeLab) -> None:
    """Subtract 60 and 50 bytes for a vxlan over wireguard, with the tunnel's addresses."""
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


def test_overlay_without_a_tunnel_uses_the_ports_of_the_underlay(make_lab: MakeLab) -> None:
    """Map the names, so that measures need no change."""
    lab = without_plain(over(make_lab, "none"))
    assert list(lab.links) == ["lan"]
    topology = make_topology(lab)
    assert topology.endpoint("a.t0", "b.t0").ref == "a.eth0"
    assert lab.aliases == {"tun": "lan", "a.t0": "a.eth0", "b.t0": "b.eth0"}


def test_machines_and_gateways_route_through_their_tunnel(make_lab: MakeLab) -> None:
    """Use the underlay if its ports are named; never route the tunnel through itself."""
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


def test_tunnel_with_several_ends_floods_to_all_remote_ends(make_lab: MakeLab) -> None:
    """Add every remote end to each table."""
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


def test_bond_is_made_of_ports_without_addresses(make_lab: MakeLab) -> None:
    """Compare the commands with manual ones, and read all parts back."""
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
    assert "the links one and two have different MTUs" in said(
        make_lab({"a": "none", "b": "none"}, differing)
    )


@pytest.mark.parametrize(
    ("keys", "why"),
    [
        ({"tunnel": "vxlan", "mtu": 1500}, "at most 1450 bytes"),
        ({"tunnel": "gre", "a": "bridge"}, "the tunnel carries packets without Ethernet headers"),
        ({"tunnel": "vxlan", "a": "bridge"}, "would be on the same bridge"),
    ],
)
def test_invalid_tunnel_is_refused_before_the_lab_is_built(
    make_lab: MakeLab, keys: dict[str, object], why: str
) -> None:
    """Report it before anything is created."""
    assert why in said(over(make_lab, **keys))  # type: ignore[arg-type]


def test_two_tunnels_between_the_same_ports_need_different_ids(make_lab: MakeLab) -> None:
    """Give each vxlan a separate id."""
    first = {"ends": ["a.t0", "b.t0"], "over": "lan", "tunnel": "gre"}
    second = {"ends": ["a.t1", "b.t1"], "over": "lan", "tunnel": "gre"}
    machines = {"a": "none", "b": "none"}
    lan = ["a.eth0", "b.eth0"]
    assert "link t1" in said(make_lab(machines, {"lan": lan, "t1": first, "t2": second}))
    assert said(make_lab(machines, {"lan": lan, "t1": first, "t2": {**second, "id": 3}})) == ""


def test_tunnel_settings_are_parsed_from_ip_and_wg_output() -> None:
    """Accept IPv6's different key names, and lines in any order."""
    shown = '[{"ifname": "t0", "linkinfo": {"info_data": {"id": 5, "remote6": "2001:2::1"}}}]'
    assert value_shown(LinkData("t0", ("id", "remote")), shown) == "id 5 remote 2001:2::1"
    assert value_shown(LinkData("t1", ("id",)), shown) is None
    assert value_shown(Lines(), "b\t2\na\t1\n") == "a 1 b 2"
    table = "33:33 self\n00:00 dst 198.18.0.3 self\n00:00 dst 198.18.0.2 self"
    assert value_shown(Lines("00:00", (2,)), table) == "198.18.0.2 198.18.0.3"
