"""Public module for packages with their own kinds of measures or instruments: docs/reference/compatibility.md.

Names are imported on first use, because reading an experiment file needs the registry rows of the kinds, but not the
functions that measure. plugin.pyi has the types.
"""

from importlib import import_module
from typing import Any

HOMES = {
    "iolab.agent.client": ("Agent", "Refused"),
    "iolab.agent.messages": ("ProcessEnded",),
    "iolab.errors": ("AgentError", "InputError", "Problem", "TrialFailed"),
    "iolab.experiment.experiment": ("Section",),
    "iolab.experiment.model.instruments": ("WithInstrument",),
    "iolab.experiment.model.measures": ("Measure",),
    "iolab.experiment.model.quantities": (
        "BitsPerSecond", "Bytes", "Count", "Flag", "Nanoseconds", "Period", "Ratio", "SomeBytes", "SomeNanoseconds",
        "SomeWholeSeconds", "WholeSeconds",
    ),
    "iolab.experiment.references.view": ("View", "check_pair"),
    "iolab.lab.requirements.need": ("Wanted",),
    "iolab.lab.topology": ("Endpoint", "Topology"),
    "iolab.registry.rows": ("InstrumentKind", "MeasureKind", "ShortForm"),
    "iolab.results.metric": ("Dimensions", "LARGER", "SMALLER", "Metric", "Metrics"),
    "iolab.results.series": ("Series", "series"),
    "iolab.results.trial": ("CommandRecord",),
    "iolab.messages.places": ("Purpose",),
    "iolab.trial.instruments.instrument": ("Instrument", "Seen"),
    "iolab.trial.lab_access": ("Site",),
    "iolab.trial.measurement": ("Measured", "Readings"),
}  # fmt: skip
"""Module that defines each public name."""
_HOME_OF = {name: module for module, names in HOMES.items() for name in names}


def __dir__() -> list[str]:
    return sorted(_HOME_OF)


def __getattr__(name: str) -> Any:
    """Import a public name on first use; an old name causes a notice."""
    if name in _HOME_OF:
        return getattr(import_module(_HOME_OF[name]), name)
    from iolab.aliases import new_attribute

    return new_attribute(__name__, name)
