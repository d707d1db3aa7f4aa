"""Interrupt coalescing and pause frames of a card, as resources: set with ethtool, read back, put back. Pure."""

from collections.abc import Iterator

from pydantic import BaseModel

from iolab.experiment.model.machines import HostTuning
from iolab.lab.actions import ORIGINAL, Run
from iolab.lab.links.bridges import expect_interface
from iolab.lab.readback.values import CardSettings, Interface
from iolab.lab.readings import Command, Expectation, Reading
from iolab.lab.resources import Resource
from iolab.lab.topology import Port

PAUSE_LABELS = {"autoneg": "Autonegotiate", "rx": "RX", "tx": "TX"}
"""Word of `ethtool -A` to the label that `ethtool -a` shows."""


def coalescing_words(asked: BaseModel) -> dict[str, str]:
    """Return what is asked of a card's interrupts, or pause frames, by the words of ethtool."""
    values = asked.model_dump(exclude_none=True)
    return {name.replace("_", "-"): str(value) for name, value in values.items()}


def card_settings(port: Port, asked: HostTuning, need: str) -> Iterator[Resource]:
    """Return how a card holds its interrupts back, and its pause frames.

    Changing either may take a link down for seconds: its carrier is waited for.
    """
    if words := coalescing_words(asked.coalesce):
        yield _set(port, "coalesce", ("-C", "-c"), words, {word: word for word in words}, need)
    if words := coalescing_words(asked.pause):
        yield _set(port, "pause", ("-A", "-a"), words, {word: PAUSE_LABELS[word] for word in words}, need)


def _set(
    port: Port, what: str, options: tuple[str, str], words: dict[str, str], labels: dict[str, str], need: str
) -> Resource:
    change, show = options
    reading = Reading(Command(("ethtool", show, port.name), port.netns), CardSettings(tuple(labels.items())))
    flat = tuple(word for pair in words.items() for word in pair)
    return Resource(
        key=f"{what}:{port.ref}",
        machine=port.machine,
        kernel=port.kernel,
        needs=(need,),
        actions=(
            Run(
                Command(("ethtool", change, port.name, *flat), port.netns),
                Command(("ethtool", change, port.name, ORIGINAL), port.netns),
                reading,
            ),
        ),
        expect=(
            Expectation(reading, " ".join(flat), f"{what} of {port.ref}"),
            expect_interface(port.netns, Interface(port.name, "carrier"), "up", f"carrier of {port.ref}"),
        ),
        held=True,
    )
