"""What the reader of an analysis, or of two runs side by side, must know. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement
from iolab.messages.warnings import TrialWarning


class LastLineCut(TrialWarning):
    """The last line of a file was cut off in writing, and is left out."""

    file: Name


class ExperimentEdited(TrialWarning):
    """The experiment in the run folder gives another plan than the run's."""


class TrialsLeftOut(TrialWarning):
    """Trials belong to no step of the plan, or failed or are invalid, and are left out."""

    code: Literal["trials-not-in-plan", "trials-not-ok"]
    left_out: int
    trials: int


class ValueNotFinite(TrialWarning):
    """Values are no finite numbers, and are left out."""

    values: int
    metric: Name
    """Of the first."""
    measure: Name
    block: int


class SamplesUnreadable(TrialWarning):
    """Raw samples of trials could not be read, and are left out."""

    trials: int
    first: Name
    """What reading the first gave."""


class BoundsLeftOut(TrialWarning):
    """Effects and findings do without trials whose figure is only a lower bound."""

    left_out: int
    trials: int
    measure: Name
    metric: Name
    limits: tuple[Name, ...]


class MethodsMixed(TrialWarning):
    """Metrics of a run are by several versions of their methods, which are not pooled and not compared."""

    measure: Name
    metrics: tuple[Name, ...]
    older: tuple[Name, ...]
    """Older versions, or unknown."""
    newest: Name
    older_cells: int
    """Cells that have trials by an older version alone."""
    left_out: int
    """Trials by an older version than others of their cell."""


class MethodsDiffer(TrialWarning):
    """Metrics of two runs are by different versions of their methods, so that no difference is given."""

    measure: Name
    metrics: tuple[Name, ...]
    first: Name
    """Version in the first run, or unknown."""
    second: Name


class MethodsUnknown(TrialWarning):
    """Neither of two runs says by which versions of their methods its metrics are; both have one old schema."""

    trial_schema: int


class MethodsRaised(TrialWarning):
    """New trials of a run would be by newer versions of methods than those that it has."""

    measure: Name
    metrics: tuple[Name, ...]
    stored: Name
    """Version in the run, or unknown."""
    newest: Name


class Unfit(Statement, kind=True):
    """Why effects of factors cannot be given."""


class TooManyLevels(Unfit):
    """The factors have too many levels."""


class NotPositive(Unfit):
    """The metric is 0 or negative in some trials: a ratio of it means nothing."""

    metric: Name


class EffectsNotFitted(TrialWarning):
    """No effects of factors are given."""

    measure: Name
    why: Unfit


class EffectsAliased(TrialWarning):
    """The model does without some interactions, or part of them."""

    measure: Name
    interactions: tuple[Name, ...]
    """As factor x factor."""


class TrialsResembleNeighbours(TrialWarning):
    """Trials resemble the trial before them."""

    measure: Name
    autocorrelation: float


class RareTrials(TrialWarning):
    """A few trials are far from the others of their cells: cells without one do not show what they do to a mean."""

    measure: Name
    marked: int
    trials: int
    change_ratio: float
    """What they do to a mean over very many trials, as far as these tell."""


class EffectDiffers(TrialWarning):
    """A setting that moves results was in effect with another value in the second of two runs."""

    setting: Name
    """As `record.in_effect` names it."""
    places: tuple[Name, ...]
    """Machines, ports or flows."""
    first: Name
    second: Name


class FactDiffers(TrialWarning):
    """A fact of the hosts that moves results is not the same in two runs."""

    fact: Name
    """As facts.json names it."""
    first: Name
    """Empty: not known."""
    second: Name


class NoteOfRun(TrialWarning):
    """What is noted of one of two runs."""

    run: Name
    note: TrialWarning


class Unusual(Statement, kind=True):
    """What was unusual in a trial that stands apart."""


class HostStolenTime(Unusual):
    """A hypervisor withheld the host's CPUs."""

    steal_ratio: float


class ManyRetransmits(Unusual):
    """More segments were sent again than usual."""

    retransmits: int
    usual: int
