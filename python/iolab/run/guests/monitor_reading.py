"""What QEMU's monitor says of a guest."""

from collections.abc import Mapping
from dataclasses import dataclass


class MonitorError(Exception):
    """The hypervisor does not answer, or not as it should."""


@dataclass(frozen=True, slots=True)
class MonitorReading:
    """One inquiry."""

    status: str
    """Run state: running, paused, ..."""
    vcpus: Mapping[int, int]
    """Virtual CPU to the parent's thread that runs it."""
    kvm: bool
    """Whether hardware virtualisation is used."""
    version: str
    """Of QEMU."""
