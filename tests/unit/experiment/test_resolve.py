"""Resolving cells: keys depend on content, not labels; each factor affects what its paths name; work is done once."""

import json
import subprocess
import sys
import tracemalloc

import pytest
from tests.work import counted

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.experiment import Experiment, Factor, Level

LAB = """\
lab:
  machines: {a: {kind: netns}, b: {kind: netns}, c: {kind: netns}}
  links:
    lan: {ends: [a.eth0, b.eth0]}
    san: {ends: [a.eth1, c.eth0]}
measure:
  tcp: {kind: stream, from: a, to: b}
  udp: {kind: stream, protocol: udp, rate: 1Gbit, from: a, to: b}
"""


def experiment(text: str, lab: str = LAB) -> Experiment:
    """Return an experiment on the lab above."""
    return parse(lab + text, "f.yaml")


def keys(text: str, lab: str = LAB) -> list[tuple[str, str, str]]:
    """Return the keys of every cell."""
    found = experiment(text, lab)
    resolver = Resolver(found)
    return [
        (resolver.lab_key(cell), resolver.measure_key(cell, "tcp"), resolver.measure_key(cell, "udp"))
        for cell in cells(found)
    ]


def test_cells_with_equal_content_have_equal_keys() -> None:
    """Ignore labels, the spelling of quantities, the order of keys, and explicit defaults."""
    plain = keys("")
    assert keys("factors: {links.lan.mtu: {x: 1500}}") == plain
    assert keys("factors: {links.lan.vlan: [none]}") == plain
    spelled = LAB.replace("{ends: [a.eth0, b.eth0]}", "{mtu: 1500, ends: [a.eth0, b.eth0], shape: none}")
    assert (
        keys(
            "",
            spelled.replace("1Gbit", "1000Mbit").replace("{kind: stream,", "{duration: 10s, kind: stream,"),
        )
        == plain
    )
    one, other = (
        keys(f"factors: {{x: {{y: {{machines.a.settings: {value}}}}}}}")
        for value in ("{p: 1, q: 2}", "{q: '2', p: '1'}")
    )
    assert one == other != plain


def test_cells_with_different_content_have_different_keys() -> None:
    """Change only the keys of affected sections."""
    (lab_1, tcp_1, udp_1), (lab_2, tcp_2, udp_2) = keys("factors: {links.lan.mtu: [1500, 9000]}")
    assert lab_1 != lab_2
    assert (tcp_1, udp_1) == (tcp_2, udp_2)
    (lab_1, tcp_1, udp_1), (lab_2, tcp_2, udp_2) = keys("factors: {tcp.window: [64K, 1M]}")
    assert (lab_1, udp_1) == (lab_2, udp_2)
    assert tcp_1 != tcp_2
    assert len({key for cell in keys("") for key in cell}) == 3
    one, other = keys("factors: {swap: {x: {links.lan.mtu: 9000}, y: {links.san.mtu: 9000}}}")
    assert one[0] != other[0]


def test_extending_an_experiment_keeps_the_keys_of_old_cells() -> None:
    """Find cells with equal content again after adding a level or a factor."""
    old = set(keys("factors: {links.lan.mtu: [1500, 9000]}"))
    new = keys("""\
factors:
  links.lan.mtu: [1500, 9000, 3000]
  links.san.vlan: [none, 7]
  more: {no: {}, yes: {machines.d: {kind: netns}}}
""")
    assert old < set(new)
    assert len(set(new)) == 12


def test_cell_keys_are_equal_across_processes_with_different_hash_seeds() -> None:
    """Compare two interpreters with different hash seeds."""
    text = LAB + "factors: {links.lan.offload: [{tso: on}, {tso: off, gro: on}]}"
    program = (
        "import sys; from iolab.experiment import Resolver, cells, parse\n"
        "from iolab.own_kinds import provide_own_kinds; provide_own_kinds()\n"
        "e = parse(sys.stdin.read(), 'f'); r = Resolver(e)\n"
        "print([(r.lab_key(c), r.measure_key(c, 'udp')) for c in cells(e)])"
    )
    seen = {
        subprocess.run(
            [sys.executable, "-c", program], input=text, env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(seen) == 1


def test_cell_keys_are_stable_across_versions() -> None:
    """Compare with stored keys; a change is a change of the format."""
    assert keys("") == [
        (
            "dd5020ddb2c1502790542b9ddfe482e6",
            "f6074f1cfed27fcecb1735a2e6059cb8",
            "f9cd58d884a3ef57f76a07fd18cd890e",
        ),
    ]


def test_factor_affects_exactly_the_measures_that_its_paths_name() -> None:
    """Check lab paths, measure paths, and factors with such a sub-factor."""
    found = experiment("""\
factors:
  links.lan.mtu: [1500]
  tcp.window: [64K]
  "*.direction": [one-way]
  machines.*.forward: [none]
  nested:
    x: {factors: {udp.rate: [1Mbit, 2Mbit]}}
    y: {}
""")
    resolver = Resolver(found)
    factors = ("links.lan.mtu", "tcp.window", "*.direction", "machines.*.forward", "nested", "udp.rate", "?")
    touched = {
        factor: [measure for measure in resolver.measures if resolver.touches(factor, measure)]
        for factor in factors
    }
    assert touched == {
        "links.lan.mtu": ["tcp", "udp"],
        "tcp.window": ["tcp"],
        "*.direction": ["tcp", "udp"],
        "machines.*.forward": ["tcp", "udp"],
        "nested": ["udp"],
        "udp.rate": ["udp"],
        "?": [],
    }


def test_cell_of_one_measure_is_resolved_without_the_other_measures() -> None:
    """Leave out a measure whose required key only a factor gives."""
    lab = LAB.replace("stream, protocol: udp, rate: 1Gbit, from: a, to: b}", "forwarding, from: a}")
    found = experiment("factors: {udp.to: [b, c]}", lab)
    resolver = Resolver(found)
    assert list(resolver.setup({}).measures) == ["tcp"]
    assert list(resolver.setup({"udp.to": "c"}).measures) == ["tcp", "udp"]


def test_conflicting_levels_raise_input_error() -> None:
    """Check an experiment that was built without a file's checks."""
    found = experiment("")
    wrong = Experiment(
        title="x", tree=found.tree, factors=(Factor("links.lan.mtu", (Level("x", {"links.lan.mtu": "big"}),)),),
        baseline={}, blocks=1, seed=1, text="", source="made up",
    )  # fmt: skip
    with pytest.raises(InputError, match="saw big; allowed: a whole number from 68"):
        Resolver(wrong).setup({"links.lan.mtu": "x"})
    with pytest.raises(InputError, match="saw big"):
        Resolver(wrong).lab_key({"links.lan.mtu": "x"})


def test_resolving_does_not_change_the_experiment() -> None:
    """Apply levels to copies."""
    found = experiment(
        "factors: {links.lan.offload.tso: [on, off], machines.a.settings.x: [1, 2], tcp.flows: {x: []}}"
    )
    before = json.dumps(found.tree)
    resolver = Resolver(found)
    assert {resolver.lab_key(cell) for cell in cells(found)} == {
        Resolver(found).lab_key(cell) for cell in cells(found)
    }
    assert json.dumps(found.tree) == before


def test_iterating_over_cells_and_keys_needs_bounded_work_and_memory_per_cell() -> None:
    """Check the worst case: all factors affect one section. benches/cost/plan_100k.py measures the time."""
    levels = {
        "links.lan.mtu": [*range(1000, 1010)], "links.lan.vlan": [*range(1, 11)],
        "links.lan.wire.delay": [f"{n}ms" for n in range(10)], "links.lan.wire.jitter": [f"{n}us" for n in range(10)],
    }  # fmt: skip
    found = experiment("factors: " + json.dumps(levels))

    def walk() -> int:
        resolver = Resolver(found)
        return len({(resolver.lab_key(cell), resolver.measure_key(cell, "tcp")) for cell in cells(found)})

    with counted() as work:
        assert walk() == 10_000
    assert work.calls < 300 * 10_000
    tracemalloc.start()
    walk()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000 * 10_000
