"""Notes on an analysis, or on the comparison of two runs. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement
from iolab.messages.warnings import TrialWarning


class LastLineCut(TrialWarning):
    """The last line of a file is incomplete and was ignored."""

    file: Name


class ExperimentEdited(TrialWarning):
    """The experiment in the run folder results in a plan that differs from the run's plan."""


class TrialsLeftOut(TrialWarning):
    """Trials were ignored because they match no step of the plan, failed, or are invalid."""

    code: Literal["trials-not-in-plan", "trials-not-ok"]
    left_out: int
    trials: int


class ValueNotFinite(TrialWarning):
    """Values that are not finite numbers were ignored."""

    values: int
    metric: Name
    """Metric of the first value that is not finite."""
    measure: Name
    block: int


class SamplesUnreadable(TrialWarning):
    """Raw samples of trials could not be read and were ignored."""

    trials: int
    first: Name
    """Error message for the first unreadable sample."""


class BoundsLeftOut(TrialWarning):
    """Effects and findings exclude trials whose figure is only a lower bound."""

    left_out: int
    trials: int
    measure: Name
    metric: Name
    limits: tuple[Name, ...]


class MethodsMixed(TrialWarning):
    """Metrics of a run have several method versions, which are neither pooled nor compared."""

    measure: Name
    metrics: tuple[Name, ...]
    older: tuple[Name, ...]
    """Older versions, or unknown."""
    newest: Name
    older_cells: int
    """Cells whose trials all have an older version."""
    left_out: int
    """Trials with a version older than that of other trials in their cell."""


class MethodsDiffer(TrialWarning):
    """Metrics of two runs have different method versions, so no difference is shown."""

    measure: Name
    metrics: tuple[Name, ...]
    first: Name
    """Version in the first run, or unknown."""
    second: Name


class MethodsUnknown(TrialWarning):
    """Neither of two runs records method versions; both have the same old schema."""

    trial_schema: int


class MethodsRaised(TrialWarning):
    """New trials of a run would have newer method versions than the stored trials."""

    measure: Name
    metrics: tuple[Name, ...]
    stored: Name
    """Version in the run, or unknown."""
    newest: Name


class Unfit(Statement, kind=True):
    """A reason why factor effects cannot be computed."""


class TooManyLevels(Unfit):
    """The factors have too many levels."""


class NotPositive(Unfit):
    """The metric is 0 or negative in some trials, so its ratios are meaningless."""

    metric: Name


class EffectsNotFitted(TrialWarning):
    """Factor effects are not computed."""

    measure: Name
    why: Unfit


class EffectsAliased(TrialWarning):
    """The model excludes some interactions, or parts of them."""

    measure: Name
    interactions: tuple[Name, ...]
    """Interactions, as factor x factor."""


class TrialsResembleNeighbours(TrialWarning):
    """Trials are correlated with the previous trial."""

    measure: Name
    autocorrelation: float


class RareTrials(TrialWarning):
    """A few trials are outliers; cells without an outlier do not show their effect on a mean."""

    measure: Name
    marked: int
    trials: int
    change_ratio: float
    """Estimated effect of the outliers on a mean over very many trials."""


class EffectDiffers(TrialWarning):
    """A setting that affects results had different values in two runs."""

    setting: Name
    """Name of the setting, as in `results.trial.Effect`."""
    places: tuple[Name, ...]
    """Machines, ports or flows."""
    first: Name
    second: Name


class FactDiffers(TrialWarning):
    """A host fact that affects results differs between two runs."""

    fact: Name
    """Name of the fact, as in facts.json."""
    first: Name
    """Value in the first run; empty: unknown."""
    second: Name


class NoteOfRun(TrialWarning):
    """A note on one of two runs."""

    run: Name
    note: TrialWarning


class Unusual(Statement, kind=True):
    """An anomaly in an outlier trial."""


class HostStolenTime(Unusual):
    """CPU steal occurred on the host."""

    steal_ratio: float


class ManyRetransmits(Unusual):
    """More segments were retransmitted than usual."""

    retransmits: int
    usual: int
