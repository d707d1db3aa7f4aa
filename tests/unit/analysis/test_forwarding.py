"""Conclusions about measures that send frames: ratios, curves, verdicts, balance sheets, line rates."""

from collections.abc import Mapping
from dataclasses import replace

import pytest
from tests.unit.records import balance, packet_trial
from tests.unit.records import load_record as trial
from tests.unit.report.forwarding_run import BOTH_RATIO, FILE, STEPS, forwarding
from tests.wording import in_words

from iolab.analysis import analyse
from iolab.analysis.forwarding import balance_sheet, line_limits, verdict
from iolab.analysis.forwarding_types import PacketKind
from iolab.analysis.types import Analysis, Estimate
from iolab.errors import StoreError
from iolab.messages.caveats import CauseUnsure
from iolab.messages.places import AtCpu, AtPort, PlainPlace
from iolab.messages.searches import LibraryGaveUp
from iolab.results.metric import Quantity
from iolab.results.packets import Drop, PacketTrial
from iolab.trial.counters.drops import RING_FULL


@pytest.fixture(scope="module")
def found() -> Analysis:
    """Return the study with three blocks."""
    return forwarding()[1]


def one(found: Analysis, measure: str, name: str, cell: Mapping[str, str]) -> Estimate:
    """Return the estimate of one cell."""
    return next(
        each
        for each in found.estimates
        if (each.measure, each.metric, each.cell) == (measure, Quantity(name), cell)
    )


def test_measure_kind_and_leading_metric_come_from_the_record(found: Analysis) -> None:
    """Lead with the forwarded rate for a search and for a curve."""
    assert [(each.measure, each.kind) for each in found.forwarding] == [
        ("ndr", PacketKind.FORWARDING),
        ("curve", PacketKind.LOAD_CURVE),
    ]
    assert found.leading == {"ndr": Quantity("forwarded_fps"), "curve": Quantity("forwarded_fps")}


def test_direction_ratios_are_given_for_mean_minimum_and_maximum(found: Analysis) -> None:
    """Divide the figures of the two cells; for small frames the simulated ratio results."""
    ratios = found.forwarding[0].ratios
    assert len(ratios) == 21
    for each in ratios:
        both = one(found, "ndr", "forwarded_fps", {**each.cell, "*.direction": "both-ways"})
        single = one(found, "ndr", "forwarded_fps", {**each.cell, "*.direction": "one-way"})
        assert each.mean == both.mean / single.mean
        assert (each.min, each.max) == (both.min / single.min, both.max / single.max)
        if each.cell["ndr.frame_size"] == "64":
            assert each.mean == pytest.approx(BOTH_RATIO[each.cell["machines.dut.forward"]], rel=0.04)


def test_load_curves_are_sorted_by_load_and_show_the_median_of_the_trials(found: Analysis) -> None:
    """Sort as numbers, not as text; name the components."""
    curves = found.forwarding[1].curves
    loss = next(curve for curve in curves if curve.metric == Quantity("loss_ratio"))
    assert [point.load_ratio for point in loss.points] == [step / 100 for step in STEPS]
    assert all(point.median == sorted(point.values)[1] for curve in curves for point in curve.points)
    components = {
        (curve.metric.dimensions.role, curve.metric.dimensions.port)
        for curve in curves
        if curve.metric.name == "thread_cpu_ratio"
    }
    assert components == {("generator", "tester.p0"), ("receiver", "tester.p1"), ("device", "dut.eth0")}


def test_verdict_is_the_most_common_cause_of_the_losses_just_above_the_rate() -> None:
    """Ignore losses far above the rate; quote the trial closest to the rate."""
    trials = [
        trial(100), trial(112, "hop", AtCpu(cpu=1)), trial(110, "thread", AtPort(port="dut.eth0"),
        busy={0: 0.2, 1: 1.0}),
        trial(115, "thread", AtPort(port="dut.eth0")), *(trial(900, "generator",
        AtPort(port="tester.p0")) for _ in range(5)),
    ]  # fmt: skip
    seen = verdict(trials)
    assert (seen.limit, seen.place, seen.seen) == (
        "thread",
        AtPort(port="dut.eth0"),
        (LibraryGaveUp(said="thread at 110"),),
    )
    assert (seen.count, seen.total) == (2, 3)
    assert (seen.cpu, seen.cpu_busy_ratio) == (1, 1.0)
    assert seen.idle_ratio == pytest.approx(0.4)


def test_verdict_ignores_loads_far_from_the_measured_rate() -> None:
    """Ignore a generator failure far below the rate, and overload far above it."""
    trials = [
        trial(20, "generator", PlainPlace(code="generator")), trial(104, "shaper", AtPort(port="dut.eth1")), trial(108,
        "generator", PlainPlace(code="generator")),
        *(trial(900, "thread", AtPort(port="dut.eth0")) for _ in range(5)),
    ]  # fmt: skip
    assert verdict(trials).limit == "generator"
    seen = verdict(trials, 100)
    assert (seen.limit, seen.count, seen.total, seen.doubtful) == ("shaper", 1, 2, False)


def test_verdict_of_a_cell_is_doubtful_if_it_comes_from_few_or_only_doubtful_trials() -> None:
    """Doubt a verdict of one trial in three, or whose trial is doubtful while another is not."""
    seen = verdict(
        [trial(100, "hop", AtPort(port="a")), trial(101, "generator"), trial(102, "generator")], 100
    )
    assert (seen.limit, seen.doubtful) == ("hop", True)
    unsure = trial(100, "hop", AtPort(port="a"), doubt=CauseUnsure(code="several-places"))
    assert verdict([unsure]).doubt == CauseUnsure(code="several-places")
    assert not verdict([unsure, trial(101, "hop", AtPort(port="a"))]).doubtful


def test_disturbed_host_is_the_verdict_only_if_no_other_cause_is_known() -> None:
    """Name the device's limit before the host's; without losses there is no limit."""
    assert (
        verdict([trial(90, "host"), trial(91, "host"), trial(92, "thread", AtPort(port="dut.eth0"))]).limit
        == "thread"
    )
    assert verdict([trial(90, "host"), trial(100)]).limit == "host"
    assert (verdict([trial(90), trial(100)]).limit, verdict([trial(100)]).total) == (
        "none",
        0,
    )
    assert verdict([]).cpu is None


def test_verdict_of_a_load_curve_ignores_the_search_before_it() -> None:
    """Use the curve's own steps for the verdict, and all losses for the balance sheet."""
    run, _, _ = forwarding(1, measures=("curve",))
    load_trials = [
        *(trial(1.0, "generator", purpose="search") for _ in range(9)),
        trial(1.0, "thread", AtPort(port="dut.eth0"), purpose="curve"),
    ]
    found = analyse(run.trials, run.plan, lambda key: packet_trial(load_trials))
    cell = found.forwarding[0].cells[0]
    assert (cell.verdict.limit, cell.verdict.total, cell.balance.load_trials) == ("thread", 1, 10)


def test_analysis_of_many_trials_reads_samples_of_the_first_blocks_of_every_cell() -> None:
    """Bound the reading; every cell keeps some samples, and the report states the number."""
    run, _, _ = forwarding(8, measures=("ndr",))
    asked: list[str] = []

    def samples(key: str) -> PacketTrial | None:
        asked.append(key)
        return packet_trial()

    found = analyse(run.trials, run.plan, samples).forwarding[0]
    assert (len(asked), found.samples_read, found.samples_total) == (250, 250, 336)
    assert len(found.cells) == 42
    assert max(each.trials for each in found.cells) - min(each.trials for each in found.cells) == 1


def test_balance_sheet_is_the_sum_over_trials_and_directions() -> None:
    """Merge equal places, most frames first; opposite signs do not cancel out."""
    trials = [
        trial(
            1,
            balances=(
                balance(100, 90, 0, (AtPort(port="a"), RING_FULL, 4), (AtPort(port="b"), RING_FULL, 6)),
                balance(100, 99, 1),
            ),
        ),
        trial(1, balances=(balance(50, 40, 1, (AtPort(port="b"), RING_FULL, 9)), balance(50, 51, -1))),
        trial(1, balances=(balance(10, 10, 0),)),
    ]
    total = balance_sheet(trials)
    assert (total.offered_frames, total.forwarded_frames, total.unexplained_frames) == (310, 290, 1)
    assert total.drops == (Drop(AtPort(port="b"), RING_FULL, 15), Drop(AtPort(port="a"), RING_FULL, 4))
    assert (total.closed_trials, total.load_trials) == (1, 3)
    named = sum(drop.frames for drop in total.drops)
    assert total.offered_frames == total.forwarded_frames + named + total.unexplained_frames


def test_balance_sheet_of_every_cell_accounts_for_all_offered_frames(found: Analysis) -> None:
    """Check offered = forwarded + named drops + unexplained, cell by cell, in plan order."""
    cells = found.forwarding[0].cells
    assert len(cells) == 42
    assert list(cells[0].cell.values()) == ["bridge", "64", "one-way"]
    for each in cells:
        total = each.balance
        named = sum(drop.frames for drop in total.drops)
        assert total.offered_frames == total.forwarded_frames + named + total.unexplained_frames


def test_port_paths_and_shared_cpus_are_counted_per_trial(found: Analysis) -> None:
    """Count both ports with their paths, the fallback reasons, and trials that shared a CPU."""
    seen = found.forwarding[0]
    assert [(path.port, path.count, len(path.reasons)) for path in seen.paths] == [
        ("tester.p0, send", 126, 0),
        ("tester.p1, receive", 126, 1),
    ]
    assert [(in_words(each.seen), each.count) for each in seen.shared] == [
        ("receiver at tester.p1 and dut.eth0 share CPU 1", 42)
    ]


def test_unreadable_samples_are_noted_and_the_rest_is_used() -> None:
    """Lose only the trial of a damaged file."""
    run, _, _ = forwarding(2)

    def samples(key: str) -> PacketTrial | None:
        if key.endswith("2"):
            raise StoreError(f"reading {key}: damaged")
        return packet_trial()

    found = analyse(run.trials, run.plan, samples)
    assert [(each.samples_read, each.samples_total) for each in found.forwarding] == [(42, 84), (6, 12)]
    assert [note.code for note in found.notes].count("samples-unreadable") == 1
    assert "48 trials" in in_words(next(note for note in found.notes if note.code == "samples-unreadable"))


def test_line_rate_limit_matches_rfc_2544(found: Analysis) -> None:
    """Check 1 488 095 frames/s of 64 bytes and 81 274 of 1518 at 1 Gbit/s, and twice that both ways."""
    _, _, experiment = forwarding(1)
    rates = [
        each for each in found.estimates if (each.measure, each.metric) == ("ndr", Quantity("forwarded_fps"))
    ]
    limits = line_limits(rates, experiment)
    cell = {"machines.dut.forward": "xdp", "ndr.frame_size": "64", "*.direction": "one-way"}
    assert limits[frozenset(cell.items())] == pytest.approx(1_488_095.2, abs=0.1)
    cell |= {"ndr.frame_size": "1518", "*.direction": "both-ways"}
    assert limits[frozenset(cell.items())] == pytest.approx(2 * 81_274.4, abs=0.1)
    bits = [
        each
        for each in found.estimates
        if (each.measure, each.metric) == ("ndr", Quantity("forwarded_bps_l1"))
    ]
    assert set(line_limits(bits, experiment).values()) == {1e9, 2e9}


def test_without_a_declared_line_rate_there_is_no_line_rate_limit(found: Analysis) -> None:
    """Do not guess a rate from an interface's name."""
    _, _, experiment = forwarding(1, file=FILE.replace("line_rate: 1Gbit, ", ""))
    rates = [
        each for each in found.estimates if (each.measure, each.metric) == ("ndr", Quantity("forwarded_fps"))
    ]
    assert line_limits(rates, experiment) == {}


def test_direction_ratios_do_not_depend_on_level_labels() -> None:
    """Take the direction from the resolved measure, whatever the labels."""
    run, _, _ = forwarding(3, measures=("ndr",))
    labels = {"one-way": "uni", "both-ways": "bidi"}
    plan = replace(
        run.plan,
        factors=tuple(
            replace(each, labels=tuple(labels.get(label, label) for label in each.labels))
            for each in run.plan.factors
        ),
    )
    renamed = [
        replace(each, cell={name: labels.get(label, label) for name, label in each.cell.items()})
        for each in run.trials
    ]
    before, after = (
        analyse(*made).forwarding[0].ratios for made in ((run.trials, run.plan), (renamed, plan))
    )
    assert len(after) == 21
    assert after == before


def test_cells_that_differ_in_more_than_the_direction_have_no_direction_ratio() -> None:
    """Give no ratio for a level that sets more than the direction."""
    run, _, _ = forwarding(3, measures=("ndr",))
    apart = [replace(each, rest=f"{each.rest} {each.direction}") for each in run.trials]
    assert analyse(apart, run.plan).forwarding[0].ratios == ()
