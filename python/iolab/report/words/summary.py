"""What a language must say in the summary that opens a report."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryWords:
    """Sentences that cite numbers. Places: {level} {reference} {change} {measure} {conditions} {detectable}."""

    more: str
    more_under: str
    """With {conditions}."""
    less: str
    less_under: str
    same: str
    """Those from here on have {under}: the conditions after a comma, or nothing."""
    same_detectable: str
    """With {detectable}."""
    untold: str
    """There is no interval, or only a change beyond MOST_DETECTABLE would be shown."""
    too_small: str
    """Its own interval excludes 0, and it is smaller than {detectable}."""
    chance: str
    """Its own interval excludes 0, and it is one of many comparisons."""
    each_direction: str
    """{measure}, of which not the sum of the directions is compared but each."""
    range: str
    """{figure} {low} {high} {low_cell} {high_cell}"""
    path: str
    """{measure} {rate} {rtt} {round_trip} {one_way}: what a path holds whose windows are swept."""
    single: str
    """{figure} {value}"""
    alike: str
    """{figure} {value} {count}: all cells read the same."""
    left_out: str
    """{count} further findings."""
    legend: str
    """{metrics} {level_percent}"""
    leading: str
    """{measure} {metric}: one entry of {metrics}."""
    no_interval: str
    """Why changes have no interval."""
    no_estimates: str
    phase: str
    """{measure} {phase} {cells}: a phase of a disk program in each cell."""
    phase_cell: str
    """{cell} {value}"""
    phase_cell_changed: str
    """{cell} {value} {change}: the same with its change against the baseline."""
    under_load: str
    """{measure} {metric} {changes}: round-trip times beside other measures, against the baseline."""
    under_load_cell: str
    """{cell} {reference} {value_there} {level} {value} {change}"""
    under_load_cell_alone: str
    """{cell} {reference} {value_there} {level} {value}: no change is given."""
    onset: str
    """{measure} {conditions} {level} {loss}: loss begins at the highest load."""
    onset_rising: str
    """{measure} {conditions} {level} {loss} {largest} {loss_at_largest}"""
    onset_none: str
    """{measure} {conditions} {largest}"""
    between: str
    """{low} {high}: a range of percentages."""
    detectable: str
    """{measure} {detectable} {spread}"""
    undetectable: str
    """{measure} {spread}: only a change beyond MOST_DETECTABLE would be shown."""
    functional: str
    """{measures}: the figures show that it works, not how fast."""
    change_without_interval: str
    """{change}"""
