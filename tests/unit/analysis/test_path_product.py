"""What a path holds: by the delay of one way and of both, where all cells have the same path."""

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
def test_a_path_holds_its_rate_times_its_delay(changes: dict[str, str], held: PathProduct | None) -> None:
    """The published 14.3 MB are of one way; nothing is said of a stream that does not cross the path."""
    text = TEXT
    for word, value in ({"RATE": "1Gbit", "TO": "far", "DELAYS": "114.36ms"} | changes).items():
        text = text.replace(word, value)
    experiment = parse(text, "file.yaml")
    found = path_product("tcp", list(cells(experiment)), experiment)
    assert found == held
    if found is not None:
        assert (found.one_way_bytes, found.round_trip_bytes) == (14_295_000, 28_590_000)


def test_a_cable_whose_path_is_declared_holds_what_was_declared() -> None:
    """Nobody emulates it: rate and round-trip time are those that the user knows."""
    experiment = parse(CABLE, "file.yaml")
    found = path_product("tcp", list(cells(experiment)), experiment)
    assert found == PathProduct(10_000_000_000, 20_000_000, 40_000_000)
    assert found.round_trip_bytes == 50_000_000


def test_a_declared_path_of_a_link_that_is_made_is_an_error() -> None:
    """What iolab makes has the rate and the delay of its wire."""
    with pytest.raises(InputError, match="`path` on a link that iolab creates"):
        parse(
            CABLE.replace("cable: true, ", "").replace("host, ssh: far", "netns").replace("host}", "netns}"),
            "f",
        )
