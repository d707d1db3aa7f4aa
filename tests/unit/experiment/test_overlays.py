"""Links over links in a file: what is checked, and what `none` means."""

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
    """Return what is wrong with a file."""
    with pytest.raises(InputError) as caught:
        parse(FILE.replace("TUN", tun) + rest, "f.yaml")
    return str(caught.value)


@pytest.mark.parametrize(
    ("tun", "why"),
    [
        ("ends: [a.t0, b.t0], tunnel: vxlan", "saw tunnel: vxlan without `over`"),
        ("ends: [a.t0, b.t0], over: lam, tunnel: vxlan", "did you mean 'lan'?"),
        ("ends: [a.t0, b.t0], over: tun, tunnel: vxlan", "which itself runs over tun"),
        ("ends: [a.t0, b.t0], over: side, tunnel: vxlan", "a link with an end on b that can carry b.t0"),
        (f"{TUNNEL}, vlan: 5", "no `vlan` on a link with `over`"),
        (f"{TUNNEL}, wire: {{delay: 1ms}}", "no `wire` on a link with `over`"),
        (f"{TUNNEL}, bond: balance-rr", "saw bond: balance-rr with tunnel: vxlan"),
        (f"{TUNNEL}, id: 16777216", "a VXLAN network identifier"),
        (f"{TUNNEL}, mode: l2", "`mode` only with join"),
        ("ends: [a.t0, b.t0], over: lan, tunnel: none, mtu: 1400", "set the key on the link in `over`"),
        ("ends: [a.t0, b.t0], over: [lan, side], bond: balance-rr", "links with exactly one end on b"),
        ("ends: [a.t0, b.t0], over: [lan, two], bond: balance-rr, hash: layer2", "saw hash: layer2"),
        ("ends: [a.t0, b.t0], over: [lan, two], bond: 802.3ad, mtu: 1400", "whose MTU the bond inherits"),
        (
            "ends: [a.t0, b.t0], over: lan, tunnel: wireguard, id: 3",
            "WireGuard identifies peers by their keys",
        ),
    ],
)
def test_what_does_not_go_together_is_told(tun: str, why: str) -> None:
    """With what is allowed."""
    assert why in problems(tun)


def test_three_ends_are_more_than_gre_has() -> None:
    """The others have as many as they like."""
    three = "ends: [a.t0, b.t0, c.t0], over: [lan, side], tunnel: gre"
    assert "saw tunnel: gre with 3 ends" in problems(three)


def test_none_is_a_level_and_leaves_the_link_below() -> None:
    """Its ports are named as before, in measures and by what looks at them."""
    factor = "\nfactors: {links.tun.tunnel: [none, vxlan, wireguard]}\n"
    experiment = parse(FILE.replace("TUN", TUNNEL) + factor, "f.yaml")
    resolver = Resolver(experiment)
    labs = [resolver.setup(cell).lab for cell in cells(experiment)]
    assert ["tun" in lab.links for lab in labs] == [False, True, True]
    assert labs[0].aliases == {"tun": "lan", "a.t0": "a.eth0", "b.t0": "b.eth0"}
