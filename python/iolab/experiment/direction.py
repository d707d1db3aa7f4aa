"""The direction of a measure in one cell, and what it is beside that. Levels may call a direction as they like."""

from hashlib import blake2b

from iolab.experiment.measures import Measure


def direction_of(measure: Measure) -> str:
    """Return one-way, both-ways or dual; empty: the measure has no direction."""
    return getattr(measure, "direction", "")


def beside_direction(lab_key: str, measure: Measure) -> str:
    """Return a digest of a lab and a measure without its direction: where it is equal nothing else differs."""
    rest = measure.model_dump_json(exclude={"direction"})
    return blake2b(f"{lab_key} {measure.kind} {rest}".encode(), digest_size=16).hexdigest()
