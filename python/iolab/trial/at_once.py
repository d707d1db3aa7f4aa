"""Several measures at once on one standing lab: each as if it stood alone, in a thread of its own."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from iolab.errors import InputError, LabError, TrialFailed
from iolab.experiment.model.measures import Measure
from iolab.messages.failures import Failure, OneAtOnceFailed
from iolab.trial.failed import LabUnusable, failure_of
from iolab.trial.lab_access import Site
from iolab.trial.measurement import Measured
from iolab.units import NS_PER_S

Measures = Callable[[Site, Measure], Measured]
"""Measures once; raises as `measure_once` does."""


@dataclass(frozen=True, slots=True)
class Part:
    """A measure among others."""

    measure: Measure
    """What is measured."""
    begin_ns: int
    """When it begins, after the first of them [ns]."""


def measure_at_once(
    site: Site, parts: Mapping[str, Part], measure: Measures
) -> Mapping[str, Measured | Failure]:
    """Measure all parts, by their names; return what each gave, or why it failed.

    Where one fails the figures of the others are of something else than was asked for: they fail with it.

    Raises:
        LabUnusable: the lab of one cannot be measured on again, so it is taken down for all.
        AgentError: an agent is gone.
    """
    given: dict[str, Measured] = {}
    raised: dict[str, BaseException] = {}

    def take(name: str, part: Part) -> None:
        threading.Event().wait(part.begin_ns / NS_PER_S)
        try:
            given[name] = _later(measure(replace(site, part=name), part.measure), part.begin_ns)
        except BaseException as error:
            raised[name] = error

    # Daemons: an interrupt ends the agents, and what waits for them ends with that.
    threads = [
        threading.Thread(target=take, args=(name, part), name=name, daemon=True)
        for name, part in parts.items()
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return _outcomes(tuple(parts), given, raised)


def _outcomes(
    names: tuple[str, ...], given: Mapping[str, Measured], raised: Mapping[str, BaseException]
) -> Mapping[str, Measured | Failure]:
    # The guest of one whose disk hangs is powered off: its agent is lost to the others for that reason.
    unusable = next((error for error in raised.values() if isinstance(error, LabUnusable)), None)
    if unusable is not None:
        raise unusable
    found: dict[str, Failure] = {}
    for name, error in raised.items():
        if not isinstance(error, TrialFailed | LabError | InputError):
            raise error
        found[name] = failure_of(error)
    if not found:
        return {name: given[name] for name in names}
    first = next(name for name in names if name in found)
    return {name: found.get(name, OneAtOnceFailed(measure=first)) for name in names}


def _later(measured: Measured, begin_ns: int) -> Measured:
    """Return a measurement with its series on the time of all parts."""
    from iolab.results.series import Over  # loads numpy

    return replace(
        measured,
        series=tuple(
            replace(each, at_ns=each.at_ns + begin_ns) if each.over is Over.TIME else each
            for each in measured.series
        ),
    )
