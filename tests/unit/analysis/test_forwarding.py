"""What is concluded about measures that send frames: ratios, curves, verdicts, balance sheets, line rates."""

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
    """The study with three blocks."""
    return forwarding()[1]


def one(found: Analysis, measure: str, name: str, cell: Mapping[str, str]) -> Estimate:
    """The estimate of one cell."""
    return next(
        each
        for each in found.estimates
        if (each.measure, each.metric, each.cell) == (measure, Quantity(name), cell)
    )


def test_kinds_are_those_of_the_record(found: Analysis) -> None:
    """A search, a curve and nothing else; the leading metric of both is the forwarded rate."""
    assert [(each.measure, each.kind) for each in found.forwarding] == [
        ("ndr", PacketKind.FORWARDING),
        ("curve", PacketKind.LOAD_CURVE),
    ]
    assert found.leading == {"ndr": Quantity("forwarded_fps"), "curve": Quantity("forwarded_fps")}


def test_ratios_are_of_mean_of_least_and_of_largest(found: Analysis) -> None:
    """Each is the quotient of the two cells' own figures; for small frames it is the ratio that was put in."""
    ratios = found.forwarding[0].ratios
    assert len(ratios) == 21
    for each in ratios:
        both = one(found, "ndr", "forwarded_fps", {**each.cell, "*.direction": "both-ways"})
        single = one(found, "ndr", "forwarded_fps", {**each.cell, "*.direction": "one-way"})
        assert each.mean == both.mean / single.mean
        assert (each.min, each.max) == (both.min / single.min, both.max / single.max)
        if each.cell["ndr.frame_size"] == "64":
            assert each.mean == pytest.approx(BOTH_RATIO[each.cell["machines.dut.forward"]], rel=0.04)


def test_curves_have_every_step_in_order_and_the_median_of_the_trials(found: Analysis) -> None:
    """Steps are ordered as numbers, not as text; a point is the middle of its trials; parts are named."""
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


def test_a_verdict_is_the_commonest_cause_of_the_losses_closest_above_the_rate() -> None:
    """Losses far above the rate do not vote; the sentence is of the trial closest to the rate; the rest is idle."""
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


def test_the_verdict_is_of_loads_around_the_rate_that_was_found() -> None:
    """A trial far below it that the generator failed in, and overload far above it, do not vote."""
    trials = [
        trial(20, "generator", PlainPlace(code="generator")), trial(104, "shaper", AtPort(port="dut.eth1")), trial(108,
        "generator", PlainPlace(code="generator")),
        *(trial(900, "thread", AtPort(port="dut.eth0")) for _ in range(5)),
    ]  # fmt: skip
    assert verdict(trials).limit == "generator"
    seen = verdict(trials, 100)
    assert (seen.limit, seen.count, seen.total, seen.doubtful) == ("shaper", 1, 2, False)


def test_a_verdict_that_few_trials_show_or_that_is_not_certain_is_in_doubt() -> None:
    """One of three says so; or the trial that stands for it has a doubt itself, where none has not."""
    seen = verdict(
        [trial(100, "hop", AtPort(port="a")), trial(101, "generator"), trial(102, "generator")], 100
    )
    assert (seen.limit, seen.doubtful) == ("hop", True)
    unsure = trial(100, "hop", AtPort(port="a"), doubt=CauseUnsure(code="several-places"))
    assert verdict([unsure]).doubt == CauseUnsure(code="several-places")
    assert not verdict([unsure, trial(101, "hop", AtPort(port="a"))]).doubtful


def test_a_disturbed_host_is_the_verdict_only_where_there_is_no_other() -> None:
    """A device's own limit is not hidden by the host's; alone, the host's stands; without losses there is none."""
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


def test_a_curve_is_not_judged_by_the_search_before_it() -> None:
    """Losses of the search for 100 % are in the balance sheet, the verdict is of the curve's own steps."""
    run, _, _ = forwarding(1, measures=("curve",))
    load_trials = [
        *(trial(1.0, "generator", purpose="search") for _ in range(9)),
        trial(1.0, "thread", AtPort(port="dut.eth0"), purpose="curve"),
    ]
    found = analyse(run.trials, run.plan, lambda key: packet_trial(load_trials))
    cell = found.forwarding[0].cells[0]
    assert (cell.verdict.limit, cell.verdict.total, cell.balance.load_trials) == ("thread", 1, 10)


def test_of_very_many_trials_the_first_blocks_are_read() -> None:
    """What is read is bounded; every cell keeps some; the report can say how many."""
    run, _, _ = forwarding(8, measures=("ndr",))
    asked: list[str] = []

    def samples(key: str) -> PacketTrial | None:
        asked.append(key)
        return packet_trial()

    found = analyse(run.trials, run.plan, samples).forwarding[0]
    assert (len(asked), found.samples_read, found.samples_total) == (250, 250, 336)
    assert len(found.cells) == 42
    assert max(each.trials for each in found.cells) - min(each.trials for each in found.cells) == 1


def test_a_balance_sheet_adds_up_over_trials_and_directions() -> None:
    """Equal places are one line, most frames first; opposite signs do not close a trial."""
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


def test_every_cell_of_the_study_balances(found: Analysis) -> None:
    """Offered = forwarded + named drops + unexplained, cell by cell, in the plan's order."""
    cells = found.forwarding[0].cells
    assert len(cells) == 42
    assert list(cells[0].cell.values()) == ["bridge", "64", "one-way"]
    for each in cells:
        total = each.balance
        named = sum(drop.frames for drop in total.drops)
        assert total.offered_frames == total.forwarded_frames + named + total.unexplained_frames


def test_paths_and_shared_cpus_are_counted_by_trial(found: Analysis) -> None:
    """Both ports with their path, the reason why not a faster one, and the third of the trials that shared a CPU."""
    seen = found.forwarding[0]
    assert [(path.port, path.count, len(path.reasons)) for path in seen.paths] == [
        ("tester.p0, send", 126, 0),
        ("tester.p1, receive", 126, 1),
    ]
    assert [(in_words(each.seen), each.count) for each in seen.shared] == [
        ("receiver at tester.p1, dut.eth0 share CPU 1", 42)
    ]


def test_samples_that_cannot_be_read_are_told_and_the_rest_is_used() -> None:
    """A damaged file costs its own trial, not the report."""
    run, _, _ = forwarding(2)

    def samples(key: str) -> PacketTrial | None:
        if key.endswith("2"):
            raise StoreError(f"reading {key}: damaged")
        return packet_trial()

    found = analyse(run.trials, run.plan, samples)
    assert [(each.samples_read, each.samples_total) for each in found.forwarding] == [(42, 84), (6, 12)]
    assert [note.code for note in found.notes].count("samples-unreadable") == 1
    assert "48 trials" in in_words(next(note for note in found.notes if note.code == "samples-unreadable"))


def test_the_line_rate_is_that_of_the_standard(found: Analysis) -> None:
    """1 Gbit/s carries 1 488 095 frames of 64 bytes a second and 81 274 of 1518 (RFC 2544), twice that both ways."""
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


def test_without_a_declared_line_there_is_no_limit(found: Analysis) -> None:
    """Nothing is guessed from an interface's name."""
    _, _, experiment = forwarding(1, file=FILE.replace("line_rate: 1Gbit, ", ""))
    rates = [
        each for each in found.estimates if (each.measure, each.metric) == ("ndr", Quantity("forwarded_fps"))
    ]
    assert line_limits(rates, experiment) == {}


def test_ratios_of_directions_need_no_particular_labels() -> None:
    """Levels called `uni` and `bidi` give the same table: the direction is that of the resolved measure."""
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


def test_cells_that_differ_in_more_than_the_direction_have_no_ratio() -> None:
    """A level that sets the direction and something else as well compares two things at once."""
    run, _, _ = forwarding(3, measures=("ndr",))
    apart = [replace(each, rest=f"{each.rest} {each.direction}") for each in run.trials]
    assert analyse(apart, run.plan).forwarding[0].ratios == ()
