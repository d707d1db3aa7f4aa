"""What must be known of a lab's virtual machines to read any figure of a trial. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from iolab.record.trial import GuestUse
from iolab.statements.warnings import AcceleratorUnknown, Emulated, Polling, Warning

EMULATED_CPU = "QEMU TCG CPU"
"""How the model of an emulated processor begins, wherever it is read."""


def guest_warnings(guests: Mapping[str, GuestUse], emulated: Sequence[str] = ()) -> tuple[Warning, ...]:
    """Return the warnings about guests, by their names; `emulated` are computers that are not guests of ours."""
    return (*_emulated(guests, emulated), *_polling(guests))


def _emulated(guests: Mapping[str, GuestUse], computers: Sequence[str]) -> Iterator[Warning]:
    """Tell that figures are functional, not performance, where a machine was emulated."""
    names = [*computers, *(name for name, use in guests.items() if use.emulated)]
    if names:
        yield Emulated(machines=tuple(names))
    for name, use in guests.items():
        if use.untold:
            yield AcceleratorUnknown(machine=name, said=use.untold)


def _polling(guests: Mapping[str, GuestUse]) -> Iterator[Warning]:
    """Tell that a CPU is busy for each card that a switch in user space carries."""
    cards = [f"{name}.{card}" for name, use in guests.items() for card in use.polling]
    if cards:
        yield Polling(cards=tuple(cards))
