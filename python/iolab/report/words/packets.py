"""What a language must say about frames: limits, balance sheets, curves, the instrument."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class PacketWords:
    """Tables, charts and sentences of measures that send frames."""

    ratios: str
    """{measure}: caption of both ways over one way."""
    ratios_note: str
    ratio_of: str
    """{figure}: head of a ratio, with the table's word for mean, min or max."""
    bits: str
    """{measure}: caption of mean, min and max of the rate in bits."""
    bounds: str
    """{measure}"""
    short_bounds: str
    """{measure}"""
    latency: str
    """{measure}"""
    latency_head: str
    """{metric} {load}"""
    cpu: str
    """{measure}"""
    limits: str
    """Heading of the section."""
    verdicts: str
    """{measure}"""
    limited_by: str
    seen: str
    load_trials: str
    of: str
    """{count} {total}"""
    limit_at: str
    """{limit} {place}"""
    limit_names: Mapping[str, str]
    """Verdict code to what limited."""
    program_limit_names: Mapping[str, str]
    """The same of those that are another where the program at an end of a stream was the limit."""
    own_program_limit_names: Mapping[str, str]
    """The same of those that are another of programs of the user's own."""
    all_busy: str
    """What limited where all CPUs were busy."""
    limited_probably: str
    """{measure} {limit} {count} {total}: the same with doubt."""
    probably: str
    """{limit}: what limited, where it is not certain."""
    bound_note: str
    """What the mark of a lower bound means."""
    not_certain: str
    """{doubt}"""
    few_say_so: str
    """{count} {total}: why a verdict is not certain."""
    limited: str
    """{measure} {count} {total} {limit}"""
    balance_closed: str
    """{measure} {total}"""
    balance_open: str
    """{measure} {count} {total}"""
    busy: str
    """{cpu} {busy} {idle}"""
    verdict_line: str
    """{cell} {limit} {seen}"""
    balance_line: str
    """{offered} {forwarded} {drops} {unexplained} {closed}"""
    balance: str
    """{measure}"""
    balance_note: str
    offered: str
    forwarded: str
    drops: str
    drop: str
    """{place} {reason} {frames}"""
    more_drops: str
    """{count} {frames}"""
    unexplained: str
    closed: str
    cells_left_out: str
    """{shown} {total}"""
    samples_left_out: str
    """{read} {total}"""
    no_samples: str
    """{measure}"""
    curve: str
    """{measure}"""
    steps: str
    """{measure}: caption of the table of a load curve."""
    load: str
    load_axis: str
    curve_alt: str
    """{title} {cell} {lines}"""
    curve_rates: str
    curve_loss: str
    curve_latency: str
    curve_cpu: str
    whole_host: str
    instrument: str
    """Heading of the section."""
    paths: str
    port: str
    path: str
    reasons: str
    trials: str
    as_wanted: str
    shared_some: str
    """{measure} {text} {count}"""
    shared_none: str
    calibration: str
    no_calibration: str
    spread: str
    """{measure} {spread} {detectable}"""
    spread_alone: str
    """{measure} {spread}"""
    at_load: str
    """{metric} {load}: a metric at one step."""
    at_load_of: str
    """{metric} {load} {component}"""
