"""What a language must provide. One template per sentence: code fills places, it never glues sentences."""

from collections.abc import Mapping
from dataclasses import dataclass

from iolab.report.words.in_effect import InEffectWords
from iolab.report.words.over_time import OverTimeWords
from iolab.report.words.packets import PacketWords
from iolab.report.words.profile import ProfileWords
from iolab.report.words.say import Sentences
from iolab.report.words.summary import SummaryWords
from iolab.report.words.wire import WireWords


@dataclass(frozen=True, slots=True)
class MetricWords:
    """How a metric is called and what it means."""

    name: str
    """Short, as in a table's head."""
    definition: str
    """One line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateWords:
    """The line that says how far a run is."""

    complete: str
    partial: str
    line: str
    """{state} {ok} {failed} {invalid} {blocks} {date} {host}"""
    progress: str
    """{done} {planned}"""
    everywhere: str
    """{levels}"""
    joined_late: str
    """{count}: trials that `iolab extend` added to blocks measured before."""
    unknown_host: str
    no_trials: str
    """In place of the date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TableWords:
    """Heads, captions and notes of tables."""

    measure: str
    metric: str
    n: str
    mean: str
    min: str
    max: str
    median: str
    interval: str
    change: str
    baseline: str
    left_out: str
    """{columns}"""
    """In the place of a change, where the row is the baseline."""
    unit: str
    """{name} {unit}: a head with its unit."""
    caption: str
    """{measure} {metric}"""
    caption_baseline: str
    """{measure} {metric} {baseline}"""
    all_metrics: str
    """{measure}"""
    outlier: str
    """{mark} {cell} {block} {value} {reason} {without}"""
    apart: str
    """{median} {z}: how far a marked trial stands from the others."""
    outliers_left_out: str
    """{count}"""
    rows_left_out: str
    """{shown} {total}"""
    no_figure: str
    """{count} {metric}: cells whose trials ended well without this figure."""
    incomparable_names: Mapping[str, str]
    """In the place of a change, where no ratio is formed, by the code of the warning or of what differs."""
    incomparable: str
    """{count} {total} {reasons}: cells without a change, as their trials have such warnings, or are of another kind."""
    no_baseline: str
    """{count} {total} {baseline}: cells that have nothing to be compared with."""
    baseline_elsewhere: str
    """{count} {total} {levels}: the same, where no cell of the run has these levels of the baseline."""
    phases: str
    """{measure} {metric}: caption of the table of the phases of a program."""
    phase: str
    """Head of their column."""
    phases_left_out: str
    definitions: Mapping[str, str]
    """Why figures of 2006 and of today differ, by a phase that only one disk program has."""
    """{shown} {total}"""
    with_change: str
    """{figure} {change}: a figure and what it is against the baseline."""
    flows: str
    """{measure} {metric}: caption of the table of flows."""
    flows_left_out: str
    """{shown} {total}"""
    both_ways_sum: str
    """Where a table has cells of both directions at once."""
    levels_caption: str
    """{measure} {metric} {over}: figures over the levels of a factor."""
    levels_note: str
    levels_left_out: str
    """{count}: blocks without a trial of every level."""
    levels_cells_left_out: str
    """{count} {cells} {more}: cells that have no figure over levels."""
    levels_cell: str
    """{cell} {levels}"""
    levels_more: str
    """{count}"""
    levels_ratio_caption: str
    """{measure} {metric} {over} {above} {below}"""
    levels_ratio_note: str
    levels_over: str
    """Head of the column of levels."""
    blocks: str
    """Head of the number of blocks."""
    effect: str
    compared_with: str
    effect_change: str
    p_value: str
    interaction: str
    effects_left_out: str
    effects_note: str
    marked: str
    """{count}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartWords:
    """Charts and their legend."""

    alt: str
    """{measure} {metric} {cells}"""
    cell: str
    """{cell} {mean}: one entry of {cells}."""
    line: str
    """{line} {first} {at_first} {last} {at_last}: one entry of {cells}."""
    left_out: str
    """{shown} {total}"""
    block: str
    trial: str
    mean: str
    interval: str
    baseline: str
    marked: str
    no_script: str
    others: str
    """{measure}"""
    everything: str
    """The one panel without conditions."""
    save: str
    """Button: the drawing as a file."""
    axes: Mapping[str, str]
    """Last part of a factor's path to the title of its axis, with the unit."""
    lines_note: str
    """What lines and symbols are."""
    limit: str
    """A known limit that is drawn."""
    product_one_way: str
    """{value}: rate times the delay of one way."""
    product_round_trip: str
    """{value}: rate times the delay there and back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabWords:
    """The lab's drawing."""

    alt: str
    """{machines} {links}"""
    machine: str
    """{name} {kind}"""
    machine_on: str
    """{name} {kind} {parent}"""
    link: str
    """{name} {ends} {attributes}"""
    kinds: Mapping[str, str]
    bridge: str
    cable: str
    mtu: str
    """{value}"""
    vlan: str
    offload: str
    shape: str
    wire: str
    attribute: str
    """{name} {value}: any other attribute."""
    forward: str
    """{value}"""
    changes: str
    """{names}: commands that set something."""
    services: str
    """{names}"""
    too_many: str
    """{count}"""
    as_text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TroubleWords:
    """Warnings, failed and invalid trials."""

    warning: str
    """{code} {count} {total} {text}"""
    code: str
    count: str
    example: str
    advice: str
    status: str
    reason: str
    cell: str
    blocks: str
    failed: str
    invalid: str
    unsupported: str
    none: str
    left_out: str
    """{count}"""
    advice_after: str
    """{text} {advice}"""
    terminal_trial: str
    """{status} {where} {count} {reason}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PageWords:
    """Headings and furniture of a page."""

    summary: str
    results: str
    charts: str
    effects: str
    lab: str
    meanings: str
    troubles: str
    environment: str
    commands: str
    repeat: str
    contents: str
    commands_note: str
    """{distinct} {total}"""
    commands_left_out: str
    """{count}"""
    undo: str
    exit_status: str
    repeat_run: str
    repeat_report: str
    repeat_trials: str
    experiment: str
    seed: str
    digest: str
    version: str
    run: str
    blocks: str
    grouping: str
    notes: str
    footer: str
    """{version}"""
    method: str
    no_facts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CompareWords:
    """Two runs side by side."""

    title: str
    """{a} {b}"""
    a: str
    b: str
    change: str
    verdict: str
    overall_shown: str
    """{measure} {metric} {change} {cells}"""
    overall_same: str
    overall_unknown: str
    only: str
    """{run} {count} {cells}: the first few of them."""
    shown: str
    not_shown: str
    unknown: str
    only_bounds: str
    """{limits}: a figure is only a bound, and what of the instrument was the limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedWords:
    """A run beside published figures."""

    title: str
    """{run} {source}"""
    functional: str
    published: str
    run: str
    ratio: str
    published_change: str
    run_change: str
    statistic: str
    statistic_over: str
    """In its place, where figures are over the levels of a factor."""
    statistics: Mapping[str, str]
    """mean, min, max, median."""
    times: str
    """{ratio}"""
    without: str
    """{count} {cells}: the first few of them."""
    apart: str
    """{factors}: each with `apart_factor`."""
    apart_factor: str
    """{factor} {published} {run}"""
    reference: str
    """{cell}"""
    caution: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """A language."""

    code: str
    """BCP 47."""
    said: Sentences
    """What it says of each statement."""
    state: StateWords
    summary: SummaryWords
    table: TableWords
    charts: ChartWords
    lab: LabWords
    trouble: TroubleWords
    page: PageWords
    over_time: OverTimeWords
    wire: WireWords
    compare: CompareWords
    published: PublishedWords
    packets: PacketWords
    profile: ProfileWords
    in_effect: InEffectWords
    metrics: Mapping[str, MetricWords]
    """By metric."""
    factors: Mapping[str, str]
    """Last part of a path to what it is called."""
    speaking: frozenset[str]
    """Last parts of paths whose levels say by themselves what they are."""
    plain_levels: frozenset[str]
    """Labels that are words of the language, not names."""
    measures: Mapping[str, str]
    """Names that have a customary spelling."""
    facts: Mapping[str, str]
    """Keys of facts.json to what they are called."""
    yes: str
    no: str
    on: str
    off: str
    level: str
    """{factor} {level}"""
    comma: str
    """Between items of a list."""
    interval: str
    """{low} {high}"""
    at_least: str
    """{figure}: a figure that is only a lower bound."""
    better: str
    """{change}: one that is for the better."""
    worse: str
    """{change}"""
    larger_is_better: str
    """{metric}: its name, with which of two values is the better one."""
    smaller_is_better: str
    """{metric}"""
    none: str
    """Where there is no value."""
