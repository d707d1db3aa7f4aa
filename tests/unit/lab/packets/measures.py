"""A packet measure with the keys of a test."""

from tests.unit.trial.load_trials import ENDS

from iolab.experiment.model.packets import Latency


def measure(**keys: object) -> Latency:
    """Return a measure through the device under test."""
    return Latency.model_validate({"kind": "latency", **ENDS, "rate": "1kpps", **keys})
