"""Every published figure of the studies names a metric and a cell that its lab produces: without running the lab."""

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from tests.unit.trial.instruments.on_wire import EVEN, STARTED, packed, point, watched_points

from iolab.analysis.published_file import PublishedFigure, parse_published, with_dimensions
from iolab.experiment import Resolver, cells, load
from iolab.experiment.experiment import Cell, Experiment, Setup
from iolab.experiment.model.instruments import Watch
from iolab.experiment.model.measures import DiskMeasure, Measure, Stream
from iolab.experiment.model.packets import Packets
from iolab.lab.topology import make_topology
from iolab.measures.packets import FORWARDING
from iolab.results.dimensions import Dimensions, Quantity
from iolab.trial.disk.figures import BY_OPERATIONS, OPERATIONS, RATE
from iolab.trial.instruments.watch import points_of
from iolab.trial.instruments.watched import Point, watched
from iolab.trial.streams.figures import flow_metrics
from iolab.trial.streams.iperf3 import place_pairs
from iolab.trial.streams.iperf3_report import FlowReport

LABS = Path(__file__).parents[3] / "labs"
STUDIES = ("xen-vlan", "kvm-forwarding", "rate-control", "iscsi", "long-path")
NOT_VARIED = {
    "kvm-forwarding": {"trial"},
    "iscsi": {"engine"},
    "long-path": {"nic"},
}
"""Published differences that no lab varies: `compare` shows them with each row."""
DISK_PHASES = {
    "hdparm": (("cached", 1 << 21), ("buffered", 1 << 21)),
    "thput-fsys": tuple((phase, 512 << step) for phase in ("write", "read") for step in range(12)),
    "bonnie++": (("put-byte", 1), ("put-block", 8192), ("get-byte", 1), ("get-block", 8192), ("seeks", 8192)),
}
"""Phases with their blocks; tests of crates/disk prove them of the programs."""


@pytest.mark.parametrize("name", STUDIES)
def test_every_published_figure_names_a_metric_and_a_cell_that_its_lab_produces(name: str) -> None:
    """Else `compare` would leave its row out."""
    experiment = load(LABS / f"{name}.yaml")
    every = tuple(cells(experiment))
    factors = {factor.name for factor in experiment.factors}
    path = LABS / "published" / f"{name}.csv"
    absent = [
        figure
        for figure in figures_of(path, factors)
        if not _produced(figure, experiment, every, factors, NOT_VARIED.get(name, set()))
    ]
    assert absent == []


def figures_of(path: Path, factors: set[str]) -> list[PublishedFigure]:
    """Read a file of published figures as a run with these factors reads it."""
    return [with_dimensions(one, factors) for one in parse_published(path.read_text(), path.name)]


def _produced(
    figure: PublishedFigure,
    experiment: Experiment,
    every: tuple[Cell, ...],
    factors: set[str],
    spare: set[str],
) -> bool:
    assert figure.cell.keys() - factors <= spare, f"factors that the lab does not have: {figure.cell}"
    assert not figure.over or figure.over in factors
    wanted = {name: label for name, label in figure.cell.items() if name in factors}
    cell = next((one for one in every if wanted.items() <= one.items()), None)
    if cell is None:
        return False
    setup = Resolver(experiment).setup(cell)
    produced = dict(_quantities(setup, setup.measures[figure.measure]))
    return figure.metric in produced and figure.unit in (None, produced[figure.metric])


def _quantities(setup: Setup, measure: Measure) -> Iterator[tuple[Quantity, str]]:
    """Yield what a measure gives, with units."""
    if isinstance(measure, Packets):
        yield from ((Quantity(name), "frame/s") for name in FORWARDING.leading)
    if isinstance(measure, DiskMeasure):
        for part, block in DISK_PHASES[measure.program]:
            name, unit = (OPERATIONS, "op/s") if part in BY_OPERATIONS else (RATE, "byte/s")
            yield Quantity(name, Dimensions(part=part, block_bytes=block)), unit
    if isinstance(measure, Stream):
        pairs = place_pairs(measure, make_topology(setup.lab))
        reports = [
            FlowReport(
                src=one.client, dst=one.server, sent_bps=1.0, received_bps=1.0, delivered_bytes=1, datagrams=1,
                lost_datagrams=0, jitter_ns=1.0, retransmits=1, rtt_mean_ns=1.0, cpu_src_ratio=0.1,
                cpu_dst_ratio=0.1,
            )
            for one in pairs
        ]  # fmt: skip
        yield from ((one.quantity, one.unit) for one in flow_metrics(measure.protocol, reports))
    for asked in measure.watch:
        found = points_of(setup.lab, make_topology(setup.lab), asked.at)
        yield from _of_watch(tuple(each.point.about.direction or "" for each in found))


@cache
def _of_watch(directions: tuple[str, ...]) -> tuple[tuple[Quantity, str], ...]:
    seen = watched_points(*(point(EVEN, (12_000, 1_000_000)) for _ in directions))
    points = [Point(Dimensions(direction=name)) for name in directions]
    found = watched(
        Watch(at="x"), points, seen, STARTED, lambda *at: packed(EVEN, (12_000, 1_000_000)[at[1]])
    )
    return tuple((one.quantity, one.unit) for one in found.metrics)
