"""What a path holds: by the delay of one way and of both, where all cells have the same path."""

import pytest

from iolab.analysis.path_product import PathProduct, path_product
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


@pytest.mark.parametrize(
    ("changes", "held"),
    [
        ({}, PathProduct(14_295_000, 28_590_000)),
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
    assert path_product("tcp", list(cells(experiment)), experiment) == held
