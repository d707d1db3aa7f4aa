"""Published figures compared with a run."""

from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from tests.unit.analysis.conftest import make_run
from tests.unit.trial.instruments.on_wire import EVEN, STARTED, packed, point, watched_points

from iolab.analysis import analyse
from iolab.analysis.published import lay_beside, wanted_summaries
from iolab.analysis.published_file import PublishedFigure, parse_published, with_dimensions
from iolab.errors import InputError
from iolab.experiment import Resolver, cells, load
from iolab.experiment.experiment import Cell, Experiment, Setup
from iolab.experiment.model.instruments import Watch
from iolab.experiment.model.measures import DiskMeasure, Measure, Stream
from iolab.experiment.model.packets import Packets
from iolab.lab.topology import make_topology
from iolab.measures.packets import FORWARDING
from iolab.messages.warnings import Emulated
from iolab.plan.types import Plan
from iolab.results.metric import Dimensions, Quantity
from iolab.store.records import TrialRecord
from iolab.trial.disk.figures import BY_OPERATIONS, OPERATIONS, RATE
from iolab.trial.instruments.watch import points_of
from iolab.trial.instruments.watched import Point, watched
from iolab.trial.streams.figures import flow_metrics
from iolab.trial.streams.iperf3 import place_pairs
from iolab.trial.streams.iperf3_report import FlowReport

ROOT = Path(__file__).parents[3]
HEAD = "measure,nic,metric,statistic,value,unit\n"
TWO = HEAD + "rate,e1000,forwarded_fps,mean,20000,frame/s\nrate,virtio,forwarded_fps,mean,50000,frame/s\n"
CARDS = (100.0, 400.0)
STUDIES = ROOT / "tests" / "unit" / "experiment" / "studies"
DIFFERENT = {"rate-control": {"links.wire.shape"}}
"""Factors with published levels that the lab does not have."""


def run_of_two_cards() -> tuple[list[TrialRecord], Plan]:
    """Return a run that forwards 100 pps with e1000, 400 pps with virtio."""
    return make_run(
        {"nic": ["e1000", "virtio"], "direction": ["one-way", "both-ways"]},
        1,
        lambda _, levels, __: {"forwarded_fps": (CARDS[levels[0]], "frame/s")},
        measures=("rate",),
        baseline={"nic": "e1000"},
    )


def test_each_cell_of_a_published_figure_gets_a_row_with_both_ratios() -> None:
    """Leave a factor free that the file does not name; compare published 50 : 20 with measured 400 : 100."""
    records, plan = run_of_two_cards()
    found = lay_beside(parse_published(TWO, "x.csv"), "x.csv", "run", plan, analyse(records, plan))
    assert [(row.cell["nic"], row.cell["direction"]) for row in found.rows] == [
        ("e1000", "one-way"), ("e1000", "both-ways"), ("virtio", "one-way"), ("virtio", "both-ways"),
    ]  # fmt: skip
    assert (found.rows[2].published, found.rows[2].measured) == (50_000, 400)
    assert (found.rows[2].published_ratio, found.rows[2].measured_ratio) == (2.5, 4.0)
    assert found.without == ()


def test_published_units_are_converted_to_those_of_the_run() -> None:
    """Convert 639 Mbit/s to 639e6 bit/s, and 7.1 % to 0.071."""
    text = HEAD + "tcp,a,received_bps,mean,639,Mbit/s\nudp,a,loss_ratio,mean,7.1,%\n"
    assert [(each.value, each.unit) for each in parse_published(text, "x.csv")] == [
        (639e6, "bit/s"), (pytest.approx(0.071), "ratio"),
    ]  # fmt: skip


def test_published_change_without_a_rate_is_compared_with_the_change_of_the_run() -> None:
    """Derive no rate if only percentages relative to the baseline were published."""
    records, plan = run_of_two_cards()
    figures = parse_published(HEAD + "rate,virtio,forwarded_fps,mean,-33,% vs baseline\n", "x.csv")
    found = lay_beside(figures, "x.csv", "run", plan, analyse(records, plan))
    assert {row.published for row in found.rows} == {None}
    assert {row.unit for row in found.rows} == {"frame/s"}
    assert found.rows[0].published_ratio == pytest.approx(0.67)
    assert found.rows[0].measured_ratio == 4.0


def test_emulated_cell_has_no_measured_ratio_to_a_native_baseline() -> None:
    """Keep the published change, and give the reason in place of the run's."""
    records, plan = run_of_two_cards()
    mark = (Emulated(machines=("dut",)),)
    emulated = [
        replace(each, result=replace(each.result, warnings=mark)) if "(1, " in each.key else each
        for each in records
    ]
    found = lay_beside(parse_published(TWO, "x.csv"), "x.csv", "run", plan, analyse(emulated, plan))
    assert [(row.measured_ratio, row.apart) for row in found.rows if row.cell["nic"] == "virtio"] == [
        (None, "emulated"), (None, "emulated"),
    ]  # fmt: skip
    assert any(row.published_ratio == 2.5 for row in found.rows)


def test_published_figure_without_a_measured_cell_is_listed() -> None:
    """Neither drop it nor compare it with something else."""
    records, plan = run_of_two_cards()
    figures = parse_published(TWO + "rate,vmxnet3,forwarded_fps,mean,1,frame/s\n", "x.csv")
    found = lay_beside(figures, "x.csv", "run", plan, analyse(records, plan))
    assert [each.cell for each in found.without] == [{"nic": "vmxnet3"}]


def test_published_figures_without_an_equal_cell_are_compared_with_the_nearest_cells() -> None:
    """Compare published host queues 1+1 and 8+8 with a run without them; ratios are those of equal NICs."""
    records, plan = run_of_two_cards()
    head = "measure,nic,queues,metric,statistic,value,unit\n"
    lines = [
        f"rate,{nic},{queues},forwarded_fps,{statistic},{fps},frame/s\n"
        for nic, fps in (("e1000", 20_000), ("virtio", 50_000))
        for queues in ("1+1", "8+8")
        for statistic in ("mean", "max")
    ]
    figures = parse_published(head + "".join(lines), "x.csv")
    found = lay_beside(figures, "x.csv", "run", plan, analyse(records, plan))
    assert [(each.factor, each.published, each.measured) for each in found.apart] == [
        ("queues", ("1+1", "8+8"), ()),
    ]  # fmt: skip
    assert len(found.rows) == 8
    assert {row.statistic for row in found.rows} == {"mean"}
    assert found.rows[-1].cell == {"nic": "virtio", "direction": "both-ways", "queues": "8+8 | -"}
    assert (found.rows[-1].published_ratio, found.rows[-1].measured_ratio) == (2.5, 4.0)


def test_only_label_differences_of_the_shown_rows_are_listed() -> None:
    """Ignore other queues and a repeated trial of a NIC that the run lacks."""
    records, plan = run_of_two_cards()
    text = (
        "measure,nic,queues,trial,metric,statistic,value,unit\n"
        "rate,virtio,8+8,,forwarded_fps,mean,50000,frame/s\n"
        "rate,vhost,4+4,2,forwarded_fps,mean,60000,frame/s\n"
    )
    found = lay_beside(parse_published(text, "x.csv"), "x.csv", "run", plan, analyse(records, plan))
    assert [(each.factor, each.published) for each in found.apart] == [("queues", ("8+8",))]
    assert {row.cell["queues"] for row in found.rows} == {"8+8 | -"}
    assert found.reference == {"nic": "e1000"}


def test_run_without_any_matching_cell_is_refused() -> None:
    """Name the first figure in the message."""
    records, plan = run_of_two_cards()
    figures = parse_published(HEAD + "tcp,e1000,received_bps,mean,1,bit/s\n", "x.csv")
    with pytest.raises(InputError, match="tcp received_bps"):
        lay_beside(figures, "x.csv", "run", plan, analyse(records, plan))


def test_figures_of_a_different_experiment_are_refused_even_with_equal_metrics() -> None:
    """Require at least one equal level for the nearest cell."""
    records, plan = run_of_two_cards()
    text = "measure,pair,metric,statistic,value,unit\nrate,1 to 2,forwarded_fps,mean,1,frame/s\n"
    with pytest.raises(InputError, match="no cell in run that matches a published figure"):
        lay_beside(parse_published(text, "x.csv"), "x.csv", "run", plan, analyse(records, plan))


def test_run_without_figures_is_refused_with_that_reason() -> None:
    """Report that every trial failed, because no name can be wrong."""
    records, plan = run_of_two_cards()
    with pytest.raises(InputError, match="no trial succeeded"):
        lay_beside(parse_published(TWO, "x.csv"), "x.csv", "run", plan, analyse(records[:0], plan))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a,b\n1,2\n", "no column measure"),
        (HEAD, "no line with a figure"),
        (HEAD + "rate,e1000,forwarded_fps,mean,fast,frame/s\n", "fast"),
        (HEAD + "rate,e1000,forwarded_fps,mode,1,frame/s\n", "mode"),
        (HEAD + "rate,e1000,forwarded_fps,mean,1,furlong\n", "furlong"),
        (HEAD + "rate,e1000,forwarded_fps\n", "a line with more or fewer columns"),
        (HEAD + 'rate,"e1000,forwarded_fps\n', "reading published figures"),
    ],
)
def test_malformed_file_is_refused_with_its_line(text: str, told: str) -> None:
    """Count lines from 1, and show no traceback."""
    with pytest.raises(InputError) as caught:
        parse_published(text, "x.csv")
    assert told in str(caught.value)


@pytest.mark.parametrize(
    ("name", "count"),
    [("xen-vlan", 60), ("kvm-forwarding", 200), ("rate-control", 10), ("iscsi", 23), ("long-path", 5)],
)
def test_published_figures_of_the_studies_are_readable(name: str, count: int) -> None:
    """Require a measure of the study, and its levels if it has the factor."""
    path = ROOT / "labs" / "published" / f"{name}.csv"
    figures = parse_published(path.read_text(), path.name)
    assert len(figures) >= count
    lab = ROOT / "labs" / path.with_suffix(".yaml").name
    study = load(lab if lab.exists() else STUDIES / lab.name)
    levels = {one.name: {level.label for level in one.levels} for one in study.factors}
    for figure in figures:
        assert figure.measure in study.tree["measure"]
        for factor in figure.cell.keys() & levels.keys() - DIFFERENT.get(name, set()):
            assert figure.cell[factor] in levels[factor], figure


def test_figure_of_a_disk_program_has_a_phase_and_a_block_size() -> None:
    """Read other columns as factors; refuse a size that is none, with its line."""
    head = "measure,path,metric,part,block_bytes,statistic,value,unit\n"
    (figure,) = parse_published(head + "thput,iSCSI,disk_bytes_per_s,read,1048576,mean,7,MiB/s\n", "x.csv")
    assert figure.metric == Quantity("disk_bytes_per_s", Dimensions(part="read", block_bytes=1 << 20))
    assert figure.cell == {"path": "iSCSI"}
    with pytest.raises(InputError) as caught:
        parse_published(head + "thput,iSCSI,disk_bytes_per_s,read,1M,mean,7,MiB/s\n", "x.csv")
    assert "x.csv:2" in str(caught.value)


def test_published_figures_over_levels_are_compared_with_the_same_figures_of_the_run() -> None:
    """Compute the run's figures over the factor in `over`; compare no single cell with them."""
    records, plan = make_run(
        {"nic": ["e1000", "virtio"], "size": ["64", "1518"]},
        2,
        lambda _, levels, __: {"forwarded_fps": (CARDS[levels[0]] / (1 + levels[1]), "frame/s")},
        measures=("rate",),
    )
    lines = "rate,e1000,size,forwarded_fps,min,30,frame/s\nrate,virtio,size,forwarded_fps,mean,500,frame/s\n"
    figures = parse_published("measure,nic,over,metric,statistic,value,unit\n" + lines, "x.csv")
    asked = replace(plan, summaries=wanted_summaries(figures, plan))
    found = lay_beside(figures, "x.csv", "run", asked, analyse(records, asked))
    assert [(row.over, row.statistic, row.cell, row.measured) for row in found.rows] == [
        ("size", "min", {"nic": "e1000"}, 50.0), ("size", "mean", {"nic": "virtio"}, 300.0),
    ]  # fmt: skip
    with pytest.raises(InputError):
        lay_beside(figures, "x.csv", "run", plan, analyse(records, plan))


def test_minimum_and_maximum_over_levels_are_compared_even_if_a_label_differs() -> None:
    """Compare a run without pins with published pins; means over trials, this whole."""
    records, plan = make_run(
        {"nic": ["e1000", "virtio"], "pin": ["none", "auto"], "size": ["64", "1518"]},
        1,
        lambda _, levels, __: {"forwarded_fps": (CARDS[levels[0]] / (1 + levels[2]), "frame/s")},
        measures=("rate",),
    )
    lines = "".join(
        f"rate,e1000,#1,size,forwarded_fps,{name},{value},frame/s\n"
        for name, value in (("mean", 20), ("min", 10), ("max", 30))
    )
    figures = parse_published("measure,nic,pin,over,metric,statistic,value,unit\n" + lines, "x.csv")
    asked = replace(plan, summaries=wanted_summaries(figures, plan))
    found = lay_beside(figures, "x.csv", "run", asked, analyse(records, asked))
    assert {(row.statistic, row.cell["pin"]) for row in found.rows} == {
        (name, f"#1 | {pin}") for name in ("mean", "min", "max") for pin in ("none", "auto")
    }


LABS = Path(__file__).parents[3] / "labs"
STUDY_FILES = ("xen-vlan", "kvm-forwarding", "rate-control", "iscsi", "long-path")
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


@pytest.mark.parametrize("name", STUDY_FILES)
def test_every_published_figure_names_a_metric_and_a_cell_of_its_lab(name: str) -> None:
    """Check this, because `compare` would leave out a row without a match."""
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
    """Yield the quantities of a measure, with units."""
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
