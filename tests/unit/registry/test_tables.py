"""The tables of NICs, qdiscs and searches are complete, and agree with the language and the agent."""

from pathlib import Path
from pkgutil import resolve_name
from typing import get_args

import pytest

from iolab.errors import InputError
from iolab.experiment import Resolver, cells, parse
from iolab.experiment.model.links import Shape
from iolab.experiment.references import link_references
from iolab.lab.actions import Run
from iolab.lab.links import shaping
from iolab.lab.topology import make_topology
from iolab.registry.images import FEATURE_MODULES
from iolab.registry.nics import NICS, NicKind
from iolab.registry.qdiscs import QDISCS, Discipline, QdiscKind
from iolab.registry.searches import SEARCHES, SearchKind
from iolab.results.search import Goal
from iolab.trial.search.types import LoadTrial

FEATURES_RS = Path(__file__).parents[3] / "crates/agent/src/facts/features.rs"


def test_every_nic_kind_has_a_row() -> None:
    """Compare the language with the table."""
    assert set(NICS) == set(get_args(NicKind))


def test_every_qdisc_kind_has_a_row() -> None:
    """Compare its keys with the language, too."""
    assert set(QDISCS) == set(get_args(QdiscKind))
    for row in QDISCS.values():
        assert set(row.keys) <= set(Shape.model_fields)


def test_guest_image_facts_cover_every_nic_and_qdisc() -> None:
    """Check by kernel module."""
    assert {row.feature for row in NICS.values()} <= set(FEATURE_MODULES)
    assert FEATURE_MODULES["nic:rtl8139"] == "8139cp"
    assert FEATURE_MODULES["qdisc:fq"] == "sch_fq"


@pytest.mark.parametrize("name", [name for name, row in QDISCS.items() if row.module is not None])
def test_agent_probes_every_qdisc_of_the_kernel(name: str) -> None:
    """Prevent planning from assuming an unavailable qdisc."""
    assert f'("qdisc:{name}", "qdisc replace' in FEATURES_RS.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", get_args(SearchKind))
def test_every_search_row_creates_a_working_strategy(name: SearchKind) -> None:
    """Create it with a goal and the arguments of its row."""
    row, more = SEARCHES[name], {"start_fps": 2e5, "searches": 2}
    goal = Goal(loss_ratio=1e-4, relative_width=0.01, min_fps=1e3, max_fps=1e6)
    strategy = resolve_name(row.strategy)(goal=goal, **{key: more[key] for key in row.takes})
    assert isinstance(strategy.propose([]), LoadTrial)
    assert (
        row.duration_ns(1_000_000_000, 2) > row.duration_ns(1_000_000_000, 1) or "searches" not in row.takes
    )


def test_qdisc_without_a_rate_is_set_and_read_back_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse a rate in a file."""
    rows = {**QDISCS, "fq": Discipline(module="sch_fq", takes_rate=False)}
    for module in (link_references, shaping):
        monkeypatch.setattr(module, "QDISCS", rows)
    lab = """title: x
lab:
  machines: {a: {kind: netns}, b: {kind: netns}}
  links: {l: {ends: [a.p, b.p], shape: {at: a.p, qdisc: fq}}}
measure: {tcp: {kind: stream, from: a, to: b}}
"""
    with pytest.raises(
        InputError,
        match="saw `rate` with the qdisc fq; allowed: `rate` with the qdisc htb or tbf or etf or pacer",
    ):
        parse(lab.replace("qdisc: fq", "qdisc: fq, rate: 1Mbit"), "x.yaml")
    read = parse(lab, "x.yaml")
    setup = Resolver(read).setup(next(cells(read)))
    (found,) = shaping.shape_resources(setup.lab, make_topology(setup.lab), "l")
    assert [action.do.argv[-3:] for action in found.actions if isinstance(action, Run)] == [
        ("handle", "1:", "fq")
    ]
    assert [one.expected for one in found.expect] == ["fq"]
