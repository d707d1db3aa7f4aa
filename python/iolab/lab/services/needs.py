"""Which programs the changes and services of a lab need, and where."""

from collections.abc import Callable, Iterator

from iolab.experiment.experiment import Lab
from iolab.experiment.model.machines import Machine
from iolab.lab.kernels import kernel_of
from iolab.lab.requirements.need import Need, NeedKind, Wanted
from iolab.messages.subjects import ForMachine


def programs_of(machine: Machine) -> Iterator[str]:
    """Yield the programs that a machine's changes and services name."""
    for change in machine.run.values():
        if change is not None:
            yield from (words[0] for words in (change.do, change.undo, change.check) if words)
    for service in machine.services.values():
        if service is not None:
            yield service.run[0]


def _texts(machine: Machine) -> Iterator[str]:
    """Yield what the changes of a machine are written as, with the files that may be scripts of theirs."""
    done = [" ".join(change.do) for change in machine.run.values() if change is not None]
    yield from done
    if done:
        yield from machine.files.values()


NFTABLES = "firewall:nftables"
"""Feature of a kernel that nft can give rules."""


def standing_needs(lab: Lab, where: Callable[[Lab, str], str]) -> Iterator[Wanted]:
    """Yield each program with the computer or image that must have it."""
    for name, machine in lab.machines.items():
        there = where(lab, kernel_of(lab, name))
        for program in dict.fromkeys(programs_of(machine)):
            if "{" not in program:
                yield Need(NeedKind.NAMED_PROGRAM, program, ForMachine(machine=name), there)
        if any("nft" in text.replace(";", " ").split() for text in _texts(machine)):
            yield Need(NeedKind.FEATURE, NFTABLES, ForMachine(machine=name), there, (name,))
