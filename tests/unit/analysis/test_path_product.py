"""Bandwidth-delay product of a path: one way and round trip, if all cells have the same path."""

import pytest

from iolab.analysis.path_product import PathProduct, path_product
from iolab.errors import InputError
from iolab.experiment import cells, parse

TEXT = """
lab:
  machines: {near: {kind: netns}, mid: {kind: netns, forward: bridge}, far: {kind: netns}}
  links:
    in: {ends: [near.eth0, mid.v0]}
    path: {ends: [mid.eth0, far.eth0], wire: {rate: RATE, delay: 114.36ms}}
measure:
  tcp: {kind: stream, from: near, to: TO, window: 64K, duration: 1s}
factors:
  tcp.window: [64K, 1M, 256M]
  links.path.wire.delay: [DELAYS]
"""
CABLE = """
lab:
  machines: {near: {kind: host}, far: {kind: host, ssh: far}}
  links:
    long: {ends: [near.eth1, far.eth1], cable: true, path: {rate: 10Gbit, rtt: 40ms}}
measure:
  tcp: {kind: stream, from: near, to: far, window: 64K, duration: 1s}
factors:
  tcp.window: [64K, 1M, 64M]
"""


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({}, PathProduct(1_000_000_000, 114_360_000, 228_720_000)),
        ({"DELAYS": "114.36ms, 1ms"}, None),
        ({"TO": "mid"}, None),
        ({"RATE": "100kpps"}, None),
    ],
)
def test_bandwidth_delay_product_is_given_one_way_and_round_trip(
    changes: dict[str, str], held: PathProduct | None
) -> None:
    """Give 14.3 MB one way, as published; nothing for a stream outside the path."""
    text = TEXT
    for word, value in ({"RATE": "1Gbit", "TO": "far", "DELAYS": "114.36ms"} | changes).items():
        text = text.replace(word, value)
    experiment = parse(text, "file.yaml")
    found = path_product("tcp", list(cells(experiment)), experiment)
    assert found == held
    if found is not None:
        assert (found.one_way_bytes, found.round_trip_bytes) == (14_295_000, 28_590_000)


def test_declared_path_of_a_cable_gives_its_bandwidth_delay_product() -> None:
    """Use the rate and the round-trip time that the user declared."""
    experiment = parse(CABLE, "file.yaml")
    found = path_product("tcp", list(cells(experiment)), experiment)
    assert found == PathProduct(10_000_000_000, 20_000_000, 40_000_000)
    assert found.round_trip_bytes == 50_000_000


def test_declared_path_on_a_link_that_iolab_creates_is_refused() -> None:
    """Refuse it: a link of iolab has the rate and the delay of its wire."""
    with pytest.raises(InputError, match="`path` on a link that iolab creates"):
        parse(
            CABLE.replace("cable: true, ", "").replace("host, ssh: far", "netns").replace("host}", "netns}"),
            "f",
        )
