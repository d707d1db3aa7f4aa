"""What the words of a command leave open: files that are open for it, and whose thread a number is. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement


class CommandNote(Statement, kind=True):
    """Something that a command says only by a number."""


class NapiThreads(CommandNote):
    """Threads that take the frames of an interface in."""

    threads: tuple[Name, ...]
    """Their numbers, or what stands for them where they are not known yet."""
    interface: Name


class NoNapiThread(CommandNote):
    """An interface has no thread of its own."""

    interface: Name


class VcpuThread(CommandNote):
    """The thread of a guest's virtual CPU."""

    thread: Name
    number: int
    """Of the virtual CPU."""
    guest: Name


class GuestThread(CommandNote):
    """Another thread that works for a guest."""

    thread: Name
    called: Name
    """By the kernel."""
    guest: Name


class OtherThreads(CommandNote):
    """All other threads of a guest, which are known once it runs."""

    threads: Name
    guest: Name


class RunsAsOwnUser(CommandNote):
    """A program is started as root and runs as a user of its own."""


class OpenQueue(CommandNote):
    """A queue of a tap or a macvtap is open under a number."""

    code: Literal["open-tap", "open-macvtap"]
    fd: int
    interface: Name


class OpenQueueIn(CommandNote):
    """A queue of a tap or a macvtap in a namespace is open under a number."""

    code: Literal["open-tap-in", "open-macvtap-in"]
    fd: int
    interface: Name
    netns: Name


class OpenDevice(CommandNote):
    """A device is open under a number."""

    fd: int
    path: Name
