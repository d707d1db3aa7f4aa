"""Links over links in a file: checks, and the meaning of `none`."""

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse

FILE = """
lab:
  machines: {a: {kind: netns}, b: {kind: netns}, c: {kind: netns}}
  links:
    lan: {ends: [a.eth0, b.eth0]}
    two: {ends: [a.eth1, b.eth1]}
    side: {ends: [a.eth2, c.eth0]}
    tun: {TUN}
measure:
  tcp: {kind: stream, protocol: tcp, from: a.t0, to: b.t0, watch: [a.t0], duration: 1s}
"""
TUNNEL = "ends: [a.t0, b.t0], over: lan, tunnel: vxlan"


def problems(tun: str, rest: str = "") -> str:
    """Return the problems of a file."""
    with pytest.raises(InputError) as caught:
        parse(FILE.replace("TUN", tun) + rest, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("tun", "why"),
    [
        ("ends: [a.t0, b.t0], tunnel: vxlan", "saw `tunnel: vxlan` without `over`"),
        ("ends: [a.t0, b.t0], over: lam, tunnel: vxlan", "did you mean 'lan'?"),
        ("ends: [a.t0, b.t0], over: tun, tunnel: vxlan", "which itself runs over tun"),
        ("ends: [a.t0, b.t0], over: side, tunnel: vxlan", "a link that can carry b.t0 and has an end on b"),
        (f"{TUNNEL}, vlan: 5", "no `vlan` on a link with `over`"),
        (f"{TUNNEL}, wire: {{delay: 1ms}}", "no `wire` on a link with `over`"),
        (f"{TUNNEL}, bond: balance-rr", "saw `bond: balance-rr` with `tunnel: vxlan`"),
        (f"{TUNNEL}, id: 16777216", "a VXLAN network identifier"),
        (f"{TUNNEL}, mode: l2", "`mode` only with `join"),
        (
            "ends: [a.t0, b.t0], over: lan, tunnel: none, mtu: 1400",
            "set the key on the link that `over` names",
        ),
        ("ends: [a.t0, b.t0], over: [lan, side], bond: balance-rr", "links with exactly one end on b"),
        ("ends: [a.t0, b.t0], over: [lan, two], bond: balance-rr, hash: layer2", "saw `hash: layer2"),
        ("ends: [a.t0, b.t0], over: [lan, two], bond: 802.3ad, mtu: 1400", "whose MTU the bond inherits"),
        (
            "ends: [a.t0, b.t0], over: lan, tunnel: wireguard, id: 3",
            "WireGuard identifies peers by their keys",
        ),
    ],
)
def test_conflicting_tunnel_settings_are_refused(tun: str, why: str) -> None:
    """Report the allowed settings."""
    assert why in problems(tun)


def test_gre_tunnel_with_three_ends_is_refused() -> None:
    """Allow more ends for the other tunnel types."""
    three = "ends: [a.t0, b.t0, c.t0], over: [lan, side], tunnel: gre"
    assert "saw `tunnel: gre` with 3 ends" in problems(three)


def test_link_with_tunnel_none_uses_the_ports_of_the_link_below() -> None:
    """Keep port names in measures and instruments."""
    factor = "\nfactors: {links.tun.tunnel: [none, vxlan, wireguard]}\n"
    experiment = parse(FILE.replace("TUN", TUNNEL) + factor, "f.yaml")
    resolver = Resolver(experiment)
    labs = [resolver.setup(cell).lab for cell in cells(experiment)]
    assert ["tun" in lab.links for lab in labs] == [False, True, True]
    assert labs[0].aliases == {"tun": "lan", "a.t0": "a.eth0", "b.t0": "b.eth0"}
