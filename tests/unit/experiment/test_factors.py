"""Factors: levels and their labels, named factors, sub-factors, selection; cells are their product."""

import json
from functools import cache
from itertools import islice, product
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Experiment, Factor
from iolab.experiment.factors.product import MOST_CELLS, count, names, sample
from iolab.experiment.model.measures import Stream

LAB = """\
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {lan: {ends: [a.eth0, b.eth0]}}
measure:
  tcp: {kind: stream, from: a, to: b}
"""


def experiment(text: str) -> Experiment:
    """Return an experiment on a small lab."""
    return parse(LAB + text, "f.yaml")


def labels(text: str) -> list[str]:
    """Return the labels of the first factor."""
    return [level.label for level in experiment(text).factors[0].levels]


def test_level_of_a_list_is_labelled_by_its_text() -> None:
    """Keep the spelling of the file, for numbers as well."""
    assert labels("factors: {tcp.window: [64K, 65536, 0x30000, 128.50K]}") == [
        "64K",
        "65536",
        "0x30000",
        "128.50K",
    ]
    assert labels("factors: {links.lan.wire.loss: [0.10, 1e-1, 5%, 0]}") == ["0.10", "1e-1", "5%", "0"]
    assert labels("factors: {links.lan.offload.tso: [on, off, none]}") == ["on", "off", "none"]
    assert labels("factors: {links.lan.offload: [{tso: on, gro: on}]}") == ["{tso: on, gro: on}"]
    assert labels("factors: {links.lan.cable: [true, false]}") == ["true", "false"]


def test_level_of_a_mapping_is_labelled_by_its_key() -> None:
    """Read keys as text, even if they look like numbers or switches."""
    found = experiment("""\
factors: {links.lan.mtu: {on: 1500, 6.10: 3000, 9000: 9000}}
baseline: {links.lan.mtu: 6.10}
only: {links.lan.mtu: [on, 6.10]}
""")
    assert [level.label for level in found.factors[0].levels] == ["on", "6.10", "9000"]
    assert found.baseline == {"links.lan.mtu": "6.10"}
    assert [cell["links.lan.mtu"] for cell in cells(found)] == ["on", "6.10"]


def test_sub_factors_exist_only_under_their_level() -> None:
    """Leave the factor out of other cells."""
    found = experiment("""\
factors:
  links.lan.shape:
    none: none
    tbf:
      value: {at: a.eth0, qdisc: tbf, rate: 1Gbit}
      factors:
        links.lan.shape.burst: [10K, 100K]
  tuning:
    plain: {}
    big: {tcp.window: 1M, factors: {tcp.parallel: [1, 4]}}
""")
    shape, burst, parallel = "links.lan.shape", "links.lan.shape.burst", "tcp.parallel"
    seen = [(cell[shape], cell.get(burst), cell["tuning"], cell.get(parallel)) for cell in cells(found)]
    assert seen == [
        (one, two, three, four)
        for one, two in (("none", None), ("tbf", "10K"), ("tbf", "100K"))
        for three, four in (("plain", None), ("big", "1"), ("big", "4"))
    ]
    resolver = Resolver(found)
    last = resolver.setup({shape: "tbf", burst: "100K", "tuning": "big", parallel: "4"})
    assert last.lab.links["lan"].shape is not None
    assert last.lab.links["lan"].shape.burst == 100 * 1024
    assert isinstance(last.measures["tcp"], Stream)
    assert (last.measures["tcp"].window, last.measures["tcp"].parallel) == (2**20, 4)
    assert names(found.factors) == {
        shape: ("none", "tbf"), burst: ("10K", "100K"), "tuning": ("plain", "big"), parallel: ("1", "4"),
    }  # fmt: skip


def test_sub_factor_may_have_different_levels_under_each_parent_level() -> None:
    """Check different levels under each."""
    found = experiment("""\
factors:
  network:
    slow: {links.lan.mtu: 1500, factors: {size: {small: {tcp.length: 1K}, large: {tcp.length: 2K}}}}
    fast: {links.lan.mtu: 9000, factors: {size: {small: {tcp.length: 4K}, large: {tcp.length: 8K}}}}
""")
    resolver = Resolver(found)
    measures = [resolver.setup(cell).measures["tcp"] for cell in cells(found)]
    assert [one.length for one in measures if isinstance(one, Stream)] == [1024, 2048, 4096, 8192]


def test_more_specific_factor_path_takes_precedence() -> None:
    """Apply a deeper path after a wider one, and a name after *, in any order of the file."""
    found = experiment("""\
factors:
  exact: {x: {tcp.window: 2K, links.lan.wire.delay: 2ms}}
  wide: {x: {"*.window": 1K, links.lan.wire: {delay: 1ms, rate: 1Gbit}}}
""")
    setup = Resolver(found).setup(next(iter(cells(found))))
    assert isinstance(setup.measures["tcp"], Stream)
    assert setup.measures["tcp"].window == 2048
    assert setup.lab.links["lan"].wire is not None
    assert (setup.lab.links["lan"].wire.delay, setup.lab.links["lan"].wire.rate) == (
        2_000_000,
        "1000000000bit",
    )


def test_star_within_a_factor_path_matches_every_key() -> None:
    """Match all classes of a shape, and all items of a list."""
    found = experiment("""\
factors:
  links.lan.shape.classes.*.rate: [2Mbit]
  rest:
    x:
      links.lan.shape: {at: a.eth0, qdisc: htb, rate: 1Gbit, classes: {g: {rate: 1Mbit}, h: {rate: 3Mbit}}}
      tcp.capture: [{at: a.eth0}, {at: b.eth0}]
  tcp.capture.*.snaplen: [96]
""")
    setup = Resolver(found).setup(next(iter(cells(found))))
    shape = setup.lab.links["lan"].shape
    assert shape is not None
    assert {one.rate for one in shape.classes.values()} == {2_000_000}
    assert [each.snaplen for each in setup.measures["tcp"].capture] == [96, 96]


def test_star_in_a_factor_path_skips_sections_without_the_key() -> None:
    """Vary streams by *.rate without a disk measure, and virtual machines by machines.*.nic."""
    found = parse(
        """\
lab:
  machines: {a: {kind: netns}, b: {kind: vm}, c: {kind: vm}}
  links: {lan: {ends: [a.eth0, b.eth0, c.eth0]}}
measure:
  udp: {kind: stream, protocol: udp, from: a, to: b}
  disk: {kind: disk, program: fio, on: a}
factors:
  "*.rate": [1Mbit, 2Mbit]
  machines.*.nic: [e1000, vhost-net]
""",
        "f",
    )
    resolver = Resolver(found)
    assert resolver.touches("*.rate", "udp")
    assert not resolver.touches("*.rate", "disk")
    setup = resolver.setup({"*.rate": "2Mbit", "machines.*.nic": "vhost-net"})
    nics = [getattr(machine, "nic", None) for machine in setup.lab.machines.values()]
    assert nics == [None, "vhost-net", "vhost-net"]


def test_level_may_add_or_remove_a_machine_and_a_link() -> None:
    """Vary the number of machines."""
    found = experiment("""\
factors:
  crowd:
    two: {}
    three: {machines.c: {kind: netns}, links.more: {ends: [b.eth1, c.eth0]}, tcp.to: c}
    one link less: {links.lan: none, links.other: {ends: [a.x, b.y]}}
""")
    resolver = Resolver(found)
    seen = [resolver.setup(cell) for cell in cells(found)]
    assert [list(setup.lab.machines) for setup in seen] == [["a", "b"], ["a", "b", "c"], ["a", "b"]]
    assert [sorted(setup.lab.links) for setup in seen] == [["lan"], ["lan", "more"], ["other"]]


def test_machine_kind_may_be_a_factor() -> None:
    """Allow keys of the other kind below it."""
    found = experiment("""\
factors: {machines.b.kind: {netns: netns, vm: {value: vm, factors: {machines.b.cpus: [1, 2]}}}}
""")
    resolver = Resolver(found)
    machines = [resolver.setup(cell).lab.machines["b"] for cell in cells(found)]
    seen = [(machine.kind, getattr(machine, "cpus", None)) for machine in machines]
    assert seen == [("netns", None), ("vm", 1), ("vm", 2)]


def test_keys_that_contain_dots_can_be_factors() -> None:
    """Check kernel settings and addresses."""
    found = experiment("""\
factors:
  machines.a.settings.net.ipv4.tcp_rmem: [4096 131072 6291456, '1 2 3']
  links.lan.addresses.a.eth0: [198.18.9.1/24]
""")
    setup = Resolver(found).setup(next(iter(cells(found))))
    assert setup.lab.machines["a"].settings == {"net.ipv4.tcp_rmem": "4096 131072 6291456"}
    assert setup.lab.links["lan"].addresses == {"a.eth0": "198.18.9.1/24"}


PATHS = [
    "links.lan.mtu",
    "links.lan.vlan",
    "tcp.parallel",
    "tcp.window",
    "links.lan.wire.delay",
    "tcp.length",
]


def value_at(path: str, number: int) -> object:
    """Return the n-th value that fits a path."""
    if path == "links.lan.wire.delay":
        return f"{number}ms"
    return 1000 + number if path == "links.lan.mtu" else number


@st.composite
def factor_trees(draw: st.DrawFn, depth: int = 2, free: tuple[str, ...] = tuple(PATHS)) -> dict[str, object]:
    """Generate factors over distinct paths, some levels with sub-factors over the remaining paths."""
    chosen = draw(st.lists(st.sampled_from(free), unique=True, max_size=3)) if free else []
    left = tuple(path for path in free if path not in chosen)
    found: dict[str, object] = {}
    for path in chosen:
        levels: dict[str, object] = {}
        for number in range(1, draw(st.integers(1, 3)) + 1):
            value: object = value_at(path, number)
            if depth and draw(st.booleans()):
                inner = draw(factor_trees(depth - 1, left[:2] if path == chosen[0] else ()))
                value = {"value": value, "factors": inner}
            levels[f"l{number}"] = value
        found[path] = levels
    return found


def expected_count(tree: dict[str, Any]) -> int:
    """Count cells from the text, independently of the code."""
    total = 1
    for levels in tree.values():
        total *= sum(
            expected_count(level["factors"]) if isinstance(level, dict) else 1 for level in levels.values()
        )
    return total


@settings(max_examples=150, deadline=None)
@given(factor_trees())
def test_cells_are_the_product_of_the_levels(tree: dict[str, Any]) -> None:
    """Check their number, that all differ, and that every one resolves."""
    found = experiment("factors: " + json.dumps(tree))
    walked = list(cells(found))
    assert len(walked) == expected_count(tree) == count(found.factors)
    assert len({tuple(sorted(cell.items())) for cell in walked}) == len(walked)
    resolver = Resolver(found)
    for cell in walked:
        assert resolver.setup(cell).measures.keys() == {"tcp"}


@cache
def walk(text: str) -> set[tuple[str, ...]]:
    """Return the levels of every cell, cached, because tests use the whole and many parts of it repeatedly."""
    return {tuple(cell.values()) for cell in cells(experiment(text))}


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(PATHS[:3]), st.lists(st.sampled_from("123"), min_size=1, unique=True), min_size=1
    ),
    st.dictionaries(
        st.sampled_from(PATHS[:3]), st.lists(st.sampled_from("123"), min_size=1, unique=True), min_size=1
    ),
)
def test_only_and_except_keys_select_cells_by_set_operations(
    one: dict[str, list[str]], other: dict[str, list[str]]
) -> None:
    """Check that only A, B is the union of only A and only B, and that except is the complement of only."""
    factors = {path: {number: value_at(path, int(number)) for number in "123"} for path in PATHS[:3]}
    base = "factors: " + json.dumps(factors)

    def walked(**selectors: object) -> set[tuple[str, ...]]:
        text = "".join(f"\n{key.removesuffix('_')}: {json.dumps(value)}" for key, value in selectors.items())
        return walk(base + text)

    everything = set(product("123", repeat=3))
    left, right = walked(only=one), walked(only=other)
    assert walked() == everything
    assert walked(only=[one, other]) == left | right
    assert everything - left == (walked(except_=one) if left != everything else set())
    if left - right:
        assert walked(only=one, except_=other) == left - right


def test_sample_of_cells_contains_every_level() -> None:
    """Bound the check without leaving out a level."""
    levels = {path: {f"l{number}": value_at(path, number) for number in range(1, 11)} for path in PATHS}
    found = experiment("factors: " + json.dumps(levels))
    seen = list(sample(found, PATHS, limit=100))
    assert len(seen) == 100
    shown = {pair for cell in seen for pair in cell.items()}
    assert shown == {(path, label) for path in PATHS for label in levels[path]}
    assert list(sample(found, PATHS[:2], limit=100)) == [
        dict(zip(PATHS[:2], pair, strict=True)) for pair in product(levels[PATHS[0]], levels[PATHS[1]])
    ]


def test_cells_are_generated_lazily() -> None:
    """Return the first of ten million at once."""
    ten = {f"l{number}": number for number in range(1, 11)}
    paths = [f"tcp.{key}" for key in ("parallel", "window", "length", "rate")]
    paths += ["links.lan.vlan", "machines.a.settings.x", "machines.b.settings.x"]
    found = experiment("factors: " + json.dumps(dict.fromkeys(paths, ten)))
    assert count(found.factors) == MOST_CELLS
    assert len(list(islice(cells(found), 5))) == 5
    assert isinstance(found.factors[0], Factor)
