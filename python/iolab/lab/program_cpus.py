"""Programs on the CPUs that their machine names."""

from collections.abc import Sequence


def on_cpus(argv: Sequence[str], cpus: Sequence[int]) -> tuple[str, ...]:
    """Return the command that runs a program on these CPUs alone; without any, on those of its kernel."""
    return ("taskset", "--cpu-list", ",".join(map(str, cpus)), *argv) if cpus else tuple(argv)
