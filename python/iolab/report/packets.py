"""Text about measures that send frames: ratios of directions, bounds, latency, CPU use, verdicts, frame accounting."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from iolab.analysis.forwarding_types import (
    CellLimit,
    CellTruth,
    Forwarding,
    PacketKind,
    StreamLimits,
    Verdict,
)
from iolab.analysis.types import Analysis, Estimate
from iolab.report import numbers
from iolab.report.environment import Fact, entries
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.report.numbers import NBSP
from iolab.report.packet_tables import (
    BITS,
    bits_grid,
    curve_grid,
    direction_grid,
    factors_of,
    left_out,
    metrics_grid,
)
from iolab.report.sentences import MOST_DETECTABLE, capital
from iolab.report.tables import Grid
from iolab.report.verdicts import cause, limited_by, verdict_sentence
from iolab.results.metric import Quantity
from iolab.results.packets import Drop
from iolab.store.records import StoredRun

CALIBRATION, HOSTS = "calibration", "hosts"
"""Keys of facts.json that contain the calibration of the instrument."""
BOUNDS = (
    "forwarded_fps", "with_burst_fps", "forwarded_strict_fps", "conditional_fps", "lower_fps", "upper_fps",
    "ci_low_fps", "ci_high_fps", "search_min_fps", "search_mean_fps", "search_max_fps", "forwarded_bps_l1",
    "loss_ratio", "search_seconds", "load_trials", "perturbed_trials",
)  # fmt: skip
SHORT_BOUNDS = ("with_burst_fps", "forwarded_strict_fps", "lower_fps", "upper_fps")
LATENCIES = ("latency_p50_ns", "latency_p99_ns")
CPUS = ("thread_cpu_ratio", "cpu_busy_ratio", "host_cpu_ratio")
MOST_OPEN = 24
"""Maximum number of rows in a table of sentences that a page shows unfolded."""
MOST_CLAUSES = 3
"""Maximum number of clauses of one verdict in a short format."""
MOST_STEPS = 36
"""Maximum number of load curve steps in a terminal: three curves of twelve steps."""
MOST_CAUSES = 6
"""Maximum number of causes that get a sentence."""
MOST_DROPS = 4
"""Maximum number of named drops of one cell that are listed."""


def result_grids(
    found: Forwarding, run: StoredRun, analysis: Analysis, names: Names, most: int
) -> list[Grid]:
    """Return the result tables: ratios of directions, bounds, latency and CPU use at the resulting rate."""
    words = names.words
    own = analysis.estimates.of_measure(found.measure)
    grids = _rates(found, own.get(Quantity(BITS), ()), run, names, most)
    if found.kind is PacketKind.FORWARDING:
        wanted = {metric: own[metric] for metric in map(Quantity, BOUNDS) if metric in own}
        grids += [metrics_grid(words.text("packets.bounds"), wanted, found, run, names, most)]
    if found.kind is PacketKind.LOAD_CURVE and found.curves:
        grids.append(curve_grid(found, run, names, most))
    if found.kind is not PacketKind.LOAD_CURVE:
        latencies = {metric: each for metric, each in own.items() if _at_rate(metric)}
        cpus = {metric: each for metric, each in own.items() if metric.name in CPUS}
        grids += (
            [metrics_grid(words.text("packets.latency"), latencies, found, run, names, most)]
            if latencies
            else []
        )
        grids += [metrics_grid(words.text("packets.cpu"), cpus, found, run, names, most)] if cpus else []
    return grids


def _at_rate(metric: Quantity) -> bool:
    """Whether a metric is the latency at one of several loads."""
    return metric.name in LATENCIES and metric.dimensions.load_ratio is not None


def _rates(
    found: Forwarding, bits: Sequence[Estimate], run: StoredRun, names: Names, most: int
) -> list[Grid]:
    """Return the tables of the rate in bits/s and of the ratios of directions."""
    grids = [bits_grid(bits, found, run, names, most)] if bits else []
    return [*grids, direction_grid(found, run, names, most)] if found.ratios else grids


def short_grids(found: Forwarding, run: StoredRun, analysis: Analysis, names: Names, most: int) -> list[Grid]:
    """Return the tables for a terminal: ratios and the main bounds."""
    own = analysis.estimates.of_measure(found.measure)
    grids = _rates(found, own.get(Quantity(BITS), ()), run, names, most)
    wanted = {metric: own[metric] for metric in map(Quantity, SHORT_BOUNDS) if metric in own}
    if wanted and found.kind is PacketKind.FORWARDING:
        grids.append(metrics_grid(names.words.text("packets.short_bounds"), wanted, found, run, names, most))
    if found.kind is PacketKind.LOAD_CURVE and found.curves:
        grids.append(curve_grid(found, run, names, MOST_STEPS))
    return grids


def limit_lines(analysis: Analysis, names: Names) -> list[str]:
    """Return a sentence per cause, with the number of the measure's cells that this cause limited."""
    words = names.words
    lines: list[str] = []
    for streams in analysis.streams:
        lines += _limited(streams.measure, [one.verdict for one in streams.cells], names)
    for found in analysis.forwarding:
        lines += _limited(found.measure, [each.verdict for each in found.cells], names)
        open_cells = sum(each.balance.closed_trials < each.balance.load_trials for each in found.cells)
        if found.cells:
            sheet = words.text("packets.balance_open") if open_cells else words.text("packets.balance_closed")
            lines.append(
                sheet.format(measure=names.measure(found.measure), count=open_cells, total=len(found.cells))
            )
    return lines


def _limited(measure: str, verdicts: Sequence[Verdict], names: Names) -> Iterator[str]:
    words = names.words
    causes = Counter((cause(verdict, names), verdict.doubtful) for verdict in verdicts)
    for (limit, doubtful), count in causes.most_common(MOST_CAUSES):
        sentence = words.text("packets.limited_probably") if doubtful else words.text("packets.limited")
        yield sentence.format(measure=names.measure(measure), count=count, total=len(verdicts), limit=limit)


def stream_grid(found: StreamLimits, run: StoredRun, names: Names, most: int) -> Grid:
    """Return the table of stream limits: a sentence per cell, with the number of trials that had this limit."""
    words = names.words
    factors = factors_of([each.cell for each in found.cells], run)
    rows = tuple((*_levels(each, factors), *_verdict(each, names)) for each in found.cells[:most])
    return Grid(
        caption=words.text("packets.verdicts", measure=names.measure(found.measure)),
        heads=(
            *map(names.factor, factors),
            *words.each("packets.limited_by", "table.n", "packets.seen"),
        ),
        rows=rows,
        labels=len(factors) + 3,
        prose=True,
        folded=len(rows) > MOST_OPEN,
        notes=left_out(len(rows), len(found.cells), names),
    )


def verdict_grid(found: Forwarding, run: StoredRun, names: Names, most: int) -> Grid:
    """Return the table of verdicts: a sentence per cell with the limit and its evidence."""
    words = names.words
    factors = factors_of([each.cell for each in found.cells], run)
    rows = tuple((*_levels(each, factors), *_verdict(each, names)) for each in found.cells[:most])
    return Grid(
        caption=words.text("packets.verdicts", measure=names.measure(found.measure)),
        heads=(
            *map(names.factor, factors),
            *words.each("packets.limited_by", "packets.load_trials", "packets.seen"),
        ),
        rows=rows,
        labels=len(factors) + 3,
        prose=True,
        folded=len(rows) > MOST_OPEN,
        notes=(*left_out(len(rows), len(found.cells), names), *_unread(found, names)),
    )


def _brief(seen: str) -> str:
    """Return the first clauses of a long sentence, for example one with a clause per stalled thread."""
    clauses = seen.split("; ")
    kept = clauses if len(clauses) <= MOST_CLAUSES else [*clauses[: MOST_CLAUSES - 1], "…"]
    return capital("; ".join(kept))


def cell_lines(found: Forwarding, names: Names, most: int) -> list[str]:
    """Return the verdict and the frame accounting of each cell as sentences, for formats too narrow for tables."""
    words = names.words
    lines = []
    for each in found.cells[:most]:
        cell = names.cell(each.cell) or names.measure(found.measure)
        limit, _, seen = _verdict(each, names)
        lines.append(words.text("packets.verdict_line", cell=cell, limit=limit, seen=_brief(seen)))
        drops, offered, forwarded, unexplained, closed = _sheet(each, names)
        lines.append(
            words.text(
                "packets.balance_line",
                offered=offered,
                forwarded=forwarded,
                drops=drops,
                unexplained=unexplained,
                closed=closed,
            )
        )
    return [*lines, *left_out(min(most, len(found.cells)), len(found.cells), names)]


def _levels(each: CellTruth | CellLimit, factors: Sequence[str]) -> list[str]:
    return [each.cell.get(factor, "") for factor in factors]


def _verdict(each: CellTruth | CellLimit, names: Names) -> tuple[str, str, str]:
    words, verdict = names.words, each.verdict
    limit = limited_by(verdict, names)
    count = (
        words.text("packets.of", count=verdict.count, total=verdict.total)
        if verdict.total
        else names.words.text("none")
    )
    return limit, count, verdict_sentence(each, names)


def _unread(found: Forwarding, names: Names) -> tuple[str, ...]:
    if found.samples_read >= found.samples_total:
        return ()
    text = names.words.text("packets.samples_left_out")
    return (text.format(read=found.samples_read, total=found.samples_total),)


def balance_grid(found: Forwarding, run: StoredRun, names: Names, most: int) -> Grid:
    """Return the table of frame accounting: offered = forwarded + named drops + unexplained, per cell."""
    words = names.words
    factors = factors_of([each.cell for each in found.cells], run)
    rows = tuple((*_levels(each, factors), *_sheet(each, names)) for each in found.cells[:most])
    return Grid(
        caption=words.text("packets.balance", measure=names.measure(found.measure)),
        heads=(
            *map(names.factor, factors),
            *words.each(
                "packets.drops",
                "packets.offered",
                "packets.forwarded",
                "packets.unexplained",
                "packets.closed",
            ),
        ),
        rows=rows,
        labels=len(factors) + 1,
        prose=True,
        folded=len(rows) > MOST_OPEN,
        notes=(words.text("packets.balance_note"), *left_out(len(rows), len(found.cells), names)),
    )


def _sheet(each: CellTruth, names: Names) -> tuple[str, ...]:
    words, sheet = names.words, each.balance
    closed = words.text("packets.of", count=sheet.closed_trials, total=sheet.load_trials)
    counts = (sheet.offered_frames, sheet.forwarded_frames, sheet.unexplained_frames)
    return (_drops(sheet.drops, names), *map(count, counts), closed)


def _drops(drops: Sequence[Drop], names: Names) -> str:
    words, said = names.words, names.words.said
    listed = [
        words.text(
            "packets.drop",
            place=said.say(each.place),
            reason=said.say(each.reason),
            frames=count(each.frames),
        )
        for each in drops[:MOST_DROPS]
    ]
    rest = drops[MOST_DROPS:]
    if rest:
        listed.append(
            words.text("packets.more_drops", count=len(rest), frames=count(sum(each.frames for each in rest)))
        )
    return "; ".join(listed) or names.words.text("none")


def count(frames: int) -> str:
    """Return a number of frames with digits grouped by three."""
    return f"{frames:,}".replace(",", NBSP).replace("-", numbers.MINUS)


def path_grid(found: Sequence[Forwarding], names: Names, most: int) -> Grid | None:
    """Return the table of each port's path and the reasons against faster paths; None if no sample has a path."""
    words = names.words
    rows = [
        (names.measure(each.measure), path.port, path.path,
         names.words.said.say_all(path.reasons) or words.text("packets.as_wanted"), str(path.count))
        for each in found
        for path in each.paths
    ]  # fmt: skip
    if not rows:
        return None
    heads = (
        *words.each("table.measure", "packets.port", "packets.path", "packets.reasons", "packets.trials"),
    )
    return Grid(
        caption=words.text("packets.paths"),
        heads=heads,
        rows=tuple(rows[:most]),
        labels=4,
        prose=True,
        notes=left_out(min(most, len(rows)), len(rows), names),
    )


def instrument_lines(analysis: Analysis, names: Names) -> list[str]:
    """Return sentences about the instrument: shared CPUs, and the variation between equal cells."""
    words, said = names.words, names.words.said
    found = analysis.forwarding
    lines = [
        words.text(
            "packets.shared_some",
            measure=names.measure(one.measure),
            text=said.say(each.seen),
            count=each.count,
        )
        for one in found
        for each in one.shared
    ]
    if not lines and any(each.samples_read for each in found):
        lines.append(words.text("packets.shared_none"))
    lines += [
        words.text(
            "packets.spread"
            if analysis.detectable[each.measure] <= MOST_DETECTABLE
            else "packets.spread_alone",
            measure=names.measure(each.measure),
            spread=numbers.percent(analysis.spread[each.measure]),
            detectable=numbers.percent(analysis.detectable[each.measure]),
        )
        for each in found
        if each.measure in analysis.spread and each.measure in analysis.detectable
    ]
    return lines


def calibration(run: StoredRun, words: Words) -> tuple[Fact, ...]:
    """Return the calibration of the instrument on this host and on others, as stored with the run; empty if unknown."""
    hosts = run.facts.get(HOSTS)
    found = (
        {name: _calibrated(told, words) for name, told in hosts.items()} if isinstance(hosts, Mapping) else {}
    )
    others = (Fact(name, "", parts) for name, parts in found.items() if parts)
    return (*_calibrated(run.facts, words), *others)


def _calibrated(facts: object, words: Words) -> tuple[Fact, ...]:
    known = facts.get(CALIBRATION) if isinstance(facts, Mapping) else None
    paths = known.get("paths") if isinstance(known, Mapping) else None
    return entries(paths, words) if isinstance(paths, Mapping) else ()


def other_facts(run: StoredRun, words: Words) -> tuple[Fact, ...]:
    """Return the host's facts without the instrument's calibration."""
    hosts = run.facts.get(HOSTS)
    others = {name: _uncalibrated(told) for name, told in hosts.items()} if isinstance(hosts, Mapping) else {}
    return entries(_uncalibrated(run.facts) | ({HOSTS: others} if others else {}), words)


def _uncalibrated(facts: Mapping[str, object]) -> dict[str, object]:
    return {name: fact for name, fact in facts.items() if name != CALIBRATION}
