"""Sentences that compare cells with the baseline, and names without repetition."""

from collections.abc import Mapping
from dataclasses import replace

from tests.unit.analysis.conftest import Levels, Values, make_run
from tests.unit.report.builder import disk_run

from iolab.analysis import analyse
from iolab.messages.evidence import CpusTaken
from iolab.messages.places import ThisComputer
from iolab.plan.types import Plan
from iolab.report.locale import EN
from iolab.report.names import names, names_of
from iolab.report.selection import latency_first
from iolab.report.sentences import summary
from iolab.results.metric import Dimensions, Metric, Metrics, Quantity
from iolab.store.records import TrialRecord

LOAD = {"load": ("idle", "loaded")}


def summed(trials: list[TrialRecord], plan: Plan) -> list[str]:
    """Return the summary of a run as plain text."""
    lines = summary(analyse(trials, plan), plan.measures, names_of(plan, EN), plan.baseline)
    return [line.replace("\u00a0", " ") for line in lines]


def under_load() -> tuple[list[TrialRecord], Plan]:
    """Return a run of a ping during a stream: 10 ms alone, 400 ms with the stream."""

    def value(measure: str, levels: Levels, block: int) -> Values:
        if measure == "down":
            return (
                {"received_bps": (19e6 + 1e4 * block, "bit/s")}
                if levels[0]
                else {"cpu_ratio": (0.1, "ratio")}
            )
        return {"rtt_p50_ns": ((400e6 if levels[0] else 10e6) * (1 + 0.01 * block), "ns")}

    return make_run(LOAD, 4, value, measures=("down", "icmp"), baseline={"load": "idle"})


def test_round_trip_times_under_load_come_first_with_both_values_and_the_change() -> None:
    """Lead with idle and loaded latency for a response under load."""
    trials, plan = under_load()
    lines = summed(trials, plan)
    assert latency_first(analyse(trials, plan), plan.measures) == ["icmp", "down"]
    assert lines[0].startswith("icmp median RTT under load: idle 10.2 ms, loaded 410 ms (+3900 %")
    assert not [line for line in lines[1:] if "icmp median" in line]


def test_round_trip_times_are_shown_even_if_no_change_can_be_given() -> None:
    """Show them although other programs used the CPUs."""
    trials, plan = under_load()
    taken = CpusTaken(host=ThisComputer(), cpus=1.9, seen=())
    marked = [replace(one, result=replace(one.result, warnings=(taken,))) for one in trials]
    assert summed(marked, plan)[0] == "icmp median RTT under load: idle 10.2 ms, loaded 410 ms."


def phases(*, depth: int | None) -> list[str]:
    """Return the summary of a disk program that reads and writes half as fast in the second cell."""
    run = disk_run(depth=depth)
    return summed(list(run.trials), run.plan)


def test_each_phase_of_a_disk_program_has_a_sentence_with_its_change() -> None:
    """Include phases other than the leading one."""
    assert phases(depth=None)[:2] == [
        "TCP write 4 KiB: MTU 1500 20.0 MiB/s; MTU 9000 10.0 MiB/s (−50 %).",
        "TCP read 4 KiB: MTU 1500 20.0 MiB/s; MTU 9000 10.0 MiB/s (−50 %).",
    ]


def test_fio_combinations_are_only_in_the_table() -> None:
    """Leave hundreds of combinations out of the summary."""
    assert phases(depth=8)[0].startswith("TCP disk rate read 4 KiB depth 8: from 10.0 MiB/s")


def test_level_that_begins_with_its_factors_name_is_not_prefixed_by_it() -> None:
    """Write codel, not codel codel; keep the factor of a number."""
    named = names(("links.line.wire.codel", "links.line.mtu", "load"), EN)
    assert named.subject("links.line.wire.codel", "codel") == "codel"
    assert named.subject("load", "loaded") == "loaded"
    assert named.level("links.line.wire.codel", "none") == "codel none"
    assert named.level("links.line.mtu", "1500") == "MTU 1500"


def test_measure_named_like_its_metric_is_not_repeated() -> None:
    """Avoid 'rate forwarded rate' for a measure `rate`."""
    named = names((), EN)
    assert named.measured("rate", Quantity("forwarded_fps")) == EN.text("metrics.forwarded_fps.name")
    assert named.measured("ndr", Quantity("forwarded_fps")) == f"ndr {EN.text('metrics.forwarded_fps.name')}"


def seeking(reads: Mapping[str, tuple[str, float]]) -> list[str]:
    """Return the captions of unfolded tables in a run of one disk measure."""
    from iolab.report.phases import phase_grids, short_grids
    from iolab.report.selection import leading

    run = disk_run()
    trials = [
        replace(one, result=replace(one.result, metrics=Metrics(
            Metric(name, unit, value, Dimensions(part=part, block_bytes=4096, depth=8))
            for name, (unit, value) in reads.items() for part in ("read", "write")
        ))) for one in run.trials
    ]  # fmt: skip
    run = replace(run, trials=tuple(trials))
    analysis = analyse(run.trials, run.plan)
    (shown,) = leading(analysis, run.plan.measures, 20)
    return [
        grid.caption for grid in short_grids(phase_grids(shown, run, analysis, names_of(run.plan, EN), 20))
    ]


def test_random_access_sentence_leads_with_iops_and_latency() -> None:
    """Lead sequential access with bytes."""
    rate, operations = ("byte/s", 4.0 * 2**20), ("op/s", 12345.0)
    latencies = {"disk_latency_p50_ns": ("ns", 8e4), "disk_latency_p99_ns": ("ns", 9e5)}
    random = seeking({"disk_operations_per_s": operations, "disk_bytes_per_s": rate, **latencies})
    assert ["[op/s]" in random[0], "median" in random[1], "p99" in random[2], len(random)] == [
        True,
        True,
        True,
        3,
    ]
    sequential = seeking({"disk_bytes_per_s": rate, "disk_operations_per_s": operations, **latencies})
    assert [len(sequential), "MiB/s" in sequential[0]] == [1, True]
