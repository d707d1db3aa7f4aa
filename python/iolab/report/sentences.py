"""Sentences with figures: the state of the run, the findings, the outliers.

The sentences are plain text for every format.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from iolab.analysis.forwarding_types import Onset
from iolab.analysis.path_product import PathProduct
from iolab.analysis.types import Analysis, CellEstimates, Estimate, Finding, Outlier, cell_key
from iolab.messages.warnings import TrialWarning
from iolab.report import against_baseline, expectations, numbers
from iolab.report.locale import Words
from iolab.report.names import Names
from iolab.report.selection import ROUND_TRIP, Shown, latency_first
from iolab.report.watches import watch_lines
from iolab.results.trial import Status
from iolab.store.records import RunStatus, StoredRun, TrialRecord
from iolab.units import format_bits_per_second, format_bytes, format_nanoseconds

MOST_FINDINGS = 12
"""Maximum number of sentences in a readable summary."""
NO_BASELINE: Mapping[str, str] = MappingProxyType({})
MOST_DETECTABLE = 1.0
"""If a run cannot detect changes below this size, it has too few blocks for conclusions [ratio]."""
MOST_WIDTH = 2
"""Half-width of an interval around no change, in smallest detectable changes, above which nothing is concluded."""
NARROW_RATIO = 1.1
"""Half-width, as a ratio, up to which an interval always counts as narrow."""
FUNCTIONAL_CODE = "emulated"
"""Code of the warning that figures come from emulation."""


def counted(trials: Iterable[TrialRecord]) -> list[TrialRecord]:
    """Return the last trial of each key (a repeated trial replaces earlier ones), in the order of first occurrence."""
    return list({trial.key: trial for trial in trials}.values())


def state(run: StoredRun, trials: Sequence[TrialRecord], words: Words) -> str:
    """Return a line with the state of the run and the host."""
    tally = dict.fromkeys(Status, 0)
    for trial in trials:
        tally[trial.result.status] += 1
    return words.text(
        "state.line",
        state=words.text("state.complete")
        if run.status is RunStatus.COMPLETE
        else words.text("state.partial"),
        ok=tally[Status.OK],
        failed=tally[Status.FAILED],
        invalid=tally[Status.INVALID],
        blocks=run.plan.blocks,
        date=_date(trials) or words.text("state.no_trials"),
        host=host_line(run.facts) or words.text("state.unknown_host"),
    )


def progress(run: StoredRun, trials: Sequence[TrialRecord], words: Words) -> str | None:
    """Return a sentence on how much of the plan is recorded, if the plan is not complete."""
    if run.status is RunStatus.COMPLETE:
        return None
    return words.text("state.progress", done=len(trials), planned=len(run.plan.steps))


def states(run: StoredRun, trials: Sequence[TrialRecord], names: Names) -> list[str]:
    """Return lines with the state of a run, its host, and the levels that all cells share."""
    return [line for line in (state(run, trials, names.words), everywhere(run, names)) if line]


def banners(run: StoredRun, trials: Sequence[TrialRecord], names: Names) -> list[str]:
    """Return the statements that a reader must know before any figure."""
    words = names.words
    late = words.text("state.joined_late", count=run.joined_late) if run.joined_late else None
    said = (
        progress(run, trials, words),
        functional(trials, names),
        late,
        *(noted(note, words) for note in run.notes),
    )
    return [line for line in said if line]


def everywhere(run: StoredRun, names: Names) -> str | None:
    """Return the levels that the whole run shares; None if no level is shared."""
    levels = [names.level(factor, label) for factor, label in run.plan.fixed().items()]
    return names.words.text("state.everywhere", levels=names.words.listed(levels)) if levels else None


def _date(trials: Sequence[TrialRecord]) -> str:
    first = min((trial.wall for trial in trials), default="")
    return " ".join(filter(None, (first[:10], first[11:16], _zone(first))))


def _zone(wall: str) -> str:
    """Return the UTC offset at the end of an ISO 8601 time."""
    tail = wall[19:]
    if tail.endswith("Z"):
        return "UTC"
    sign = max(tail.find("+"), tail.find("-"))
    return tail[sign:] if sign >= 0 else ""


def host_line(facts: Mapping[str, object]) -> str:
    """Return a line about the host: its name, kernel and processor, if facts.json has them."""
    host = facts.get("host")
    places = (facts, host) if isinstance(host, Mapping) else (facts,)
    wanted = (("hostname", "host", "node", "name"), ("kernel", "release"), ("cpu_model", "cpu"))
    found = [_first(places, keys) for keys in wanted]
    return ", ".join(dict.fromkeys(text for text in found if text))


def _first(places: Sequence[Mapping[str, object]], keys: Sequence[str]) -> str:
    for place in places:
        for key in keys:
            value = place.get(key)
            if isinstance(value, Mapping):
                value = value.get("release") or value.get("model") or value.get("name")
            if isinstance(value, str) and value:
                return value
    return ""


def finding(found: Finding, analysis: Analysis, names: Names) -> str:
    """Return the effect of one change of level as a sentence."""
    words = names.words
    detectable = analysis.detectable.get(found.measure)
    conditions, measure = names.cell(found.conditions), names.measure(found.measure)
    places = {
        "level": _subject(found, names),
        "reference": _reference(found, names),
        "change": _change(found, names.words),
        "measure": words.text("summary.each_direction", measure=measure) if found.each_direction else measure,
        "conditions": conditions,
        "under": f"{names.words.text('comma')}{conditions}" if conditions else "",
        "detectable": numbers.percent(detectable) if detectable is not None else "",
    }
    if found.shown:
        more, less = (
            ("summary.more_under", "summary.less_under") if conditions else ("summary.more", "summary.less")
        )
        return words.text(more if found.ratio >= 1 else less, **places)
    return words.text(_not_shown(found, detectable), **places)


def _not_shown(found: Finding, detectable: float | None) -> str:
    """Return the key of the text for a change that is not significant; if the interval excludes 0, the text says
    why."""
    if found.ci is None or (detectable is not None and detectable > MOST_DETECTABLE):
        return "summary.untold"
    if found.ci.low <= 1 <= found.ci.high:
        if detectable is None:
            return "summary.same"
        # The interval covers the effect in each cell, so it may be wider than that of the mean.
        narrow = found.ci.high <= found.ci.low * max((1 + detectable) ** MOST_WIDTH, NARROW_RATIO) ** 2
        return "summary.same_detectable" if narrow else "summary.wide"
    small = detectable is not None and max(found.ratio, 1 / found.ratio) < 1 + detectable
    return "summary.too_small" if small else "summary.chance"


def _subject(found: Finding, names: Names) -> str:
    """Return the subject of the sentence: the level, with its factor if the level alone is unclear."""
    level = names.subject(found.factor, found.level)
    own = level == found.level and found.level not in names.words.terms("plain_levels")
    return level if own else capital(level)


def _reference(found: Finding, names: Names) -> str:
    """Return the level alone if the sentence has just named its factor, for example 'MTU 9000 ... over 1500'."""
    named = names.subject(found.factor, found.level) != found.level
    return found.reference if named else names.level(found.factor, found.reference)


def _change(found: Finding, words: Words) -> str:
    text = numbers.change(found.ratio, found.ci, words)
    text = numbers.judged(text, found.ratio, found.better if found.shown else "", words)
    return text if found.ci is not None else words.text("summary.change_without_interval", change=text)


def capital(text: str) -> str:
    """Return a text with a capital first letter, except for names such as e1000 or virtio-net."""
    first = text.split(" ", 1)[0].replace("-", "")
    return text[:1].upper() + text[1:] if first.isalpha() and first.islower() else text


def summary(
    analysis: Analysis, measures: Sequence[str], names: Names, baseline: Mapping[str, str] = NO_BASELINE
) -> list[str]:
    """Return the first sentences of a report: the measures, the significant effects, and the effects that are not
    significant."""
    if not analysis.estimates:
        return [names.words.text("summary.no_estimates")]
    groups = analysis.estimates.by_metric
    under_load = dict(against_baseline.under_load(analysis, measures, baseline, names))
    phases = list(against_baseline.phases(analysis, measures, baseline, names))
    lines = [*expectations.lines(analysis.expectations, names), *under_load.values()]
    for measure in latency_first(analysis, measures):
        metric = analysis.leading.get(measure)
        if (measure in under_load and metric == ROUND_TRIP) or measure in dict(phases):
            lines += [line for of, line in phases if of == measure]
            continue
        if metric is not None and (measure, metric) in groups:
            lines.append(_extent(groups[measure, metric], names))
    lines += watch_lines(analysis, measures, names)
    lines += [path_held(measure, path, names) for measure, path in analysis.paths.items()]
    lines += [onset(found, names) for found in analysis.onsets]
    shown = sorted(analysis.findings, key=lambda found: not found.shown)
    lines += [finding(found, analysis, names) for found in shown[:MOST_FINDINGS]]
    if len(shown) > MOST_FINDINGS:
        lines.append(names.words.text("summary.left_out", count=len(shown) - MOST_FINDINGS))
    return lines


def path_held(measure: str, path: PathProduct, names: Names) -> str:
    """Return the rate, round-trip time and bandwidth-delay product of the path of a measure with swept windows."""
    return names.words.text(
        "summary.path",
        measure=names.measure(measure),
        rate=format_bits_per_second(path.rate_bps),
        rtt=format_nanoseconds(path.rtt_ns),
        round_trip=format_bytes(path.round_trip_bytes),
        one_way=format_bytes(path.one_way_bytes),
    )


def onset(found: Onset, names: Names) -> str:
    """Return the minimum offered load at which a measure loses frames, as a sentence."""
    words = names.words
    conditions = names.cell(found.conditions)
    places = {
        "measure": names.measure(found.measure),
        "conditions": f"{names.words.text('comma')}{conditions}" if conditions else "",
        "largest": found.largest,
        "level": found.level or "",
        "loss": _loss(found.loss, names),
        "loss_at_largest": _loss(found.loss_at_largest, names),
    }
    if found.level is None:
        return words.text("summary.onset_none", **places)
    return words.text("summary.onset" if found.level == found.largest else "summary.onset_rising", **places)


def _loss(ends: tuple[float, float], names: Names) -> str:
    low, high = (numbers.percent(end) for end in ends)
    return low if low == high else names.words.text("summary.between", low=low, high=high)


def _extent(estimates: CellEstimates, names: Names) -> str:
    words = names.words
    figures = estimates.figures()
    means = figures.means
    low, high = (estimates[at] for at in figures.ends)
    by = numbers.scale(low.metric.name, low.unit, means)
    places = {"figure": names.measured(low.measure, low.metric)}
    if len(estimates) == 1:
        return words.text("summary.single", value=with_interval(low, by, words), **places)
    low_text, high_text = (_mean(estimate, by, words) for estimate in (low, high))
    if low_text == high_text:
        exact = len(means) - len(figures.bounded) or len(means)
        if exact < len(means):
            return words.text("summary.alike_some", value=low_text, count=exact, total=len(means), **places)
        return words.text("summary.alike", value=low_text, count=exact, **places)
    return words.text(
        "summary.range",
        low=with_interval(low, by, words),
        high=with_interval(high, by, words),
        low_cell=names.cell(low.cell),
        high_cell=names.cell(high.cell),
        **places,
    )


def with_interval(estimate: Estimate, by: numbers.Scale, words: Words) -> str:
    """Return a mean with its unit and its interval, if there is one."""
    mean = _mean(estimate, by, words)
    return mean if estimate.ci is None else f"{mean} {numbers.interval(estimate.ci, by, words)}"


def _mean(estimate: Estimate, by: numbers.Scale, words: Words) -> str:
    text = numbers.quantity(estimate.mean, by, numbers.estimate_decimals(estimate, by), words)
    return numbers.at_least(text, estimate.bounds > 0, words)


def legend(analysis: Analysis, measures: Sequence[str], names: Names) -> str | None:
    """Return a sentence on what the percentages in the summary are relative to."""
    words = names.words
    if not analysis.findings:
        return None
    used = {found.measure for found in analysis.findings}
    by_name: dict[str, list[str]] = {}
    for measure in measures:
        if measure in used and measure in analysis.leading:
            by_name.setdefault(names.metric(analysis.leading[measure]), []).append(names.measure(measure))
    metrics = [
        words.text("summary.leading", metric=metric, measure=words.listed(of))
        for metric, of in by_name.items()
    ]
    levels = [found.ci.level_ratio for found in analysis.findings if found.ci is not None]
    text = words.text(
        "summary.legend",
        metrics=names.words.listed(metrics),
        level_percent=numbers.percent(levels[0] if levels else 0.95, 0),
    )
    bare = any(found.ci is None for found in analysis.findings)
    return f"{text} {words.text('summary.no_interval')}" if bare else text


def resolution(analysis: Analysis, measures: Sequence[str], names: Names) -> list[str]:
    """Return the smallest detectable change of each measure in this run."""
    words = names.words
    return [
        words.text(
            "summary.detectable"
            if analysis.detectable[measure] <= MOST_DETECTABLE
            else "summary.undetectable",
            measure=names.measure(measure),
            detectable=numbers.percent(analysis.detectable[measure]),
            spread=numbers.percent(analysis.spread[measure]),
        )
        for measure in measures
        if measure in analysis.detectable and measure in analysis.spread
    ]


def is_functional(trials: Iterable[TrialRecord]) -> bool:
    """Whether any trial was emulated and is not valid as a performance result."""
    return any(warning.code == FUNCTIONAL_CODE for trial in trials for warning in trial.result.warnings)


def functional(trials: Iterable[TrialRecord], names: Names) -> str | None:
    """Return the label of results that are not valid as performance results; None if all results are valid."""
    measures = dict.fromkeys(names.measure(trial.measure) for trial in trials if is_functional([trial]))
    return names.words.text("summary.functional", measures=names.words.listed(measures)) if measures else None


def outliers(
    shown: Shown, analysis: Analysis, by: numbers.Scale, mark: str, names: Names, most: int = 12
) -> list[str]:
    """Return a sentence for each marked trial of the shown cells: the reason, and the mean without the trial."""
    estimates = {cell_key(estimate.cell): estimate for estimate in shown.estimates if estimate.outliers}
    lines: list[str] = []
    left_out = 0
    for outlier in analysis.outliers:
        estimate = estimates.get(cell_key(outlier.cell))
        if estimate is None or (outlier.measure, outlier.metric) != (shown.measure, shown.metric):
            continue
        if len(lines) == most:
            left_out += 1
        else:
            lines.append(_outlier(outlier, estimate, by, mark, names))
    if left_out:
        lines.append(names.words.text("table.outliers_left_out", count=left_out))
    return lines


def _outlier(outlier: Outlier, estimate: Estimate, by: numbers.Scale, mark: str, names: Names) -> str:
    words = names.words
    decimals = numbers.estimate_decimals(estimate, by)
    return words.text(
        "table.outlier",
        mark=mark,
        cell=names.cell(outlier.cell) or names.measure(outlier.measure),
        block=outlier.block,
        value=numbers.quantity(outlier.value, by, decimals, words),
        reason=stop(_apart(outlier, estimate, by, names)),
        without=numbers.quantity(estimate.mean_without, by, decimals, words),
    )


def _apart(outlier: Outlier, estimate: Estimate, by: numbers.Scale, names: Names) -> str:
    """Return the reason why a trial is marked, and other anomalies in the trial."""
    decimals = numbers.estimate_decimals(estimate, by)
    median = numbers.quantity(estimate.median, by, decimals, names.words)
    text = names.words.text("table.apart", median=median, z=numbers.fixed(abs(outlier.robust_z), 0))
    return names.words.said.join([text, *(names.words.said.say(one) for one in outlier.beside)])


def noted(note: TrialWarning, words: Words) -> str:
    """Return a warning as a sentence with its advice, if any."""
    return advised(words.said.say(note), words.said.advise(note), words)


def advised(text: str, advice: str, words: Words) -> str:
    """Return a sentence with its advice, if any."""
    return words.text("trouble.advice_after", text=stop(text), advice=stop(advice)) if advice else stop(text)


def stop(text: str) -> str:
    """Return a sentence with a full stop at its end."""
    return text if text.endswith((".", "!", "?")) else f"{text}."
