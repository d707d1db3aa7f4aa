"""What a language must say of what was watched on the wire."""

from dataclasses import dataclass

from iolab.report.words.shaper import ShaperWords


@dataclass(frozen=True, slots=True, kw_only=True)
class WireWords:
    """Watches: on the page, and in the terminal."""

    heading: str
    note: str
    """How to use the large chart."""
    arrival: str
    """{window}: windows filled with frames as they came."""
    line: str
    """{window}: windows filled while frames would be on the line."""
    of_flow: str
    """{window} {flow}"""
    choose: str
    """Label of the choice of windows."""
    closer: str
    farther: str
    whole: str
    earlier: str
    later: str
    alt: str
    """{of}: what the large chart shows, {figures}"""
    figures: str
    """{mean} {max} {idle}: the three figures of a point."""
    coarse: str
    """{span}: the shortest time that the page holds of a point."""
    no_zoom: str
    """Where the browser cannot unpack windows."""
    gaps: str
    trains: str
    lengths: str
    sigma: str
    gap_axis: str
    train_axis: str
    length_axis: str
    rate_axis: str
    count_axis: str
    depth_axis: str
    together: str
    """What the first bar of a histogram stands for."""
    holds: str
    """{depth} {rate}: a point of the curve as a sentence."""
    left_out: str
    """{shown} {total} {limit}"""
    saw: str
    """{measure} {direction} {cells}: what was seen in a direction, by cell."""
    in_cell: str
    """{cell} {pattern}"""
    clauses: str
    """Between the cells of such a sentence."""
    cells: str
    """{count}: that have one pattern."""
    between: str
    """{low} {high}"""
    bursts: str
    """{frames} {span}"""
    one_by_one: str
    """{span}"""
    idle_for: str
    """{frames} {idle}: of a burst, and frame times of the line without one."""
    no_pause: str
    """{frames}: no burst ended."""
    saw_caption: str
    """{measure}: caption of the table."""
    direction: str
    """Head of its first column, as those that follow."""
    burst_p50: str
    burst_p99: str
    interval_p50: str
    gap_p50: str
    busiest: str
    """{window}"""
    idle: str
    """{window}"""
    shaper: ShaperWords
