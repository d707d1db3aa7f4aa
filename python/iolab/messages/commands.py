"""Notes on numbers in commands: open file descriptors and thread IDs. Types only."""

from typing import Literal

from iolab.messages.statement import Name, Statement


class CommandNote(Statement, kind=True):
    """A note that explains a number in a command."""


class NapiThreads(CommandNote):
    """The NAPI threads of an interface."""

    threads: tuple[Name, ...]
    """Thread IDs, or placeholders if they are not known yet."""
    interface: Name


class NoNapiThread(CommandNote):
    """An interface has no NAPI thread."""

    interface: Name


class VcpuThread(CommandNote):
    """The thread of a guest's virtual CPU."""

    thread: Name
    number: int
    """Number of the virtual CPU."""
    guest: Name


class GuestThread(CommandNote):
    """A thread of a guest other than a virtual CPU's."""

    thread: Name
    called: Name
    """Name of the thread in the kernel."""
    guest: Name


class OtherThreads(CommandNote):
    """All other threads of a guest, which are known only once the guest runs."""

    threads: Name
    guest: Name


class RunsAsOwnUser(CommandNote):
    """A program that root starts runs as a dedicated unprivileged user."""


class ReadsSecret(CommandNote):
    """A command reads a CHAP secret from its standard input."""

    place: Name
    """File or environment variable with the secret."""


class OpenQueue(CommandNote):
    """An open file descriptor of a tap or macvtap queue."""

    code: Literal["open-tap", "open-macvtap"]
    fd: int
    interface: Name


class OpenQueueIn(CommandNote):
    """An open file descriptor of a tap or macvtap queue in a namespace."""

    code: Literal["open-tap-in", "open-macvtap-in"]
    fd: int
    interface: Name
    netns: Name


class OpenDevice(CommandNote):
    """An open file descriptor of a device."""

    fd: int
    path: Name
