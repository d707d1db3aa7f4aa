"""What a profile needs: perf, and the right to look at a whole kernel, on each kernel that it is of."""

from collections.abc import Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Vm
from iolab.lab.guests.vm import image_of
from iolab.lab.kernels import HERE, kernel_of
from iolab.lab.requirements.need import IMAGE, Need, NeedKind, Wanted
from iolab.lab.requirements.where import where
from iolab.messages.subjects import KeyOf, Purpose
from iolab.messages.unmet import ImageNotInstalled
from iolab.registry.image_names import packages_of_image

PERF, PACKAGE = "perf", "linux-perf"
"""The profiler, and its Debian package."""


def profiled_kernels(lab: Lab, on: tuple[str, ...]) -> tuple[str, ...]:
    """Return the kernels that a profile is of: as asked, else computers and the guests that have perf."""
    if on:
        return tuple(dict.fromkeys(kernel_of(lab, name) for name in on))
    guests = [name for name, one in lab.machines.items() if isinstance(one, Vm) and _has_perf(lab, name)]
    kernels = dict.fromkeys(kernel_of(lab, name) for name in lab.machines)
    computers = [kernel for kernel in kernels if kernel != HERE and not isinstance(lab.machines[kernel], Vm)]
    return tuple(dict.fromkeys((HERE, *computers, *guests)))


def profile_needs(lab: Lab, on: tuple[str, ...], purpose: Purpose) -> Iterator[Wanted]:
    """Yield perf on each kernel, and the right to use it there."""
    of = KeyOf(key="profile", part=purpose)
    for kernel in profiled_kernels(lab, on):
        there = where(lab, kernel)
        if not there.startswith(IMAGE):
            yield Need(NeedKind.ROOT, PERF, of, there)
            yield Need(NeedKind.PROGRAM, PERF, of, there)
        elif not _has_perf(lab, kernel):
            yield ImageNotInstalled(purpose=of, machine=kernel, program=PERF, package=PACKAGE)


def _has_perf(lab: Lab, name: str) -> bool:
    return PACKAGE in packages_of_image(image_of(lab, name))
