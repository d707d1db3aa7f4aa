"""How the processors of a lab's computers run: governor and turbo, set for all of them and put back. Pure."""

from collections.abc import Iterator
from typing import Literal

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Host
from iolab.lab.actions import TuneProcessors
from iolab.lab.kernels import kernel_of
from iolab.lab.readback.values import Value
from iolab.lab.readings import Expectation, ProcessorState, Reading
from iolab.lab.resources import Resource

CPU = "/sys/devices/system/cpu"
NO_TURBO = f"{CPU}/intel_pstate/no_turbo"
FILES = {
    "governor": f"{CPU}/cpufreq/policy*/scaling_governor",
    "turbo": f"{NO_TURBO} {CPU}/cpufreq/boost",
}
"""What is set to the files that say it, for a shell."""
CONTRARY = {"on": "0", "off": "1"}
BOOST = {"on": "1", "off": "0"}


def processor_resources(lab: Lab) -> Iterator[Resource]:
    """Return what is asked of the processors of each computer."""
    for name, machine in lab.machines.items():
        if isinstance(machine, Host):
            if machine.processors.governor is not None:
                yield _tuned(lab, name, "governor", machine.processors.governor)
            if machine.processors.turbo is not None:
                yield _tuned(lab, name, "turbo", machine.processors.turbo)


def _tuned(lab: Lab, name: str, what: Literal["governor", "turbo"], value: str) -> Resource:
    return Resource(
        key=f"{what}:{name}",
        machine=name,
        kernel=kernel_of(lab, name),
        actions=(TuneProcessors(what, value),),
        expect=(Expectation(Reading(ProcessorState(what), Value()), value, f"{what} of {name}"),),
        held=True,
    )


def processor_word(wanted: TuneProcessors, path: str) -> str:
    """Return what is written into a file so that the processors run as wanted."""
    if wanted.what == "governor":
        return wanted.value
    return (CONTRARY if path == NO_TURBO else BOOST)[wanted.value]
