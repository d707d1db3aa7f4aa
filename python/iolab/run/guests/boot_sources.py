"""What guests are started from, wherever their parent is: kernel, first stage and disks as paths there.

On this computer the image is in the user's cache; to a host reached by ssh it is copied; a guest that is itself a
parent has it on its own disks. The same holds for virtual machines and Xen domains.
"""

from collections.abc import Callable
from dataclasses import dataclass

from iolab.agent.client import Agent
from iolab.agent.ssh import SshTransport
from iolab.agent.ssh_files import Tell
from iolab.agent.transport import find_agent
from iolab.errors import UnsupportedError
from iolab.image.build import find
from iolab.image.cache import Image
from iolab.lab.guests.guest import Guest
from iolab.lab.guests.qemu import PARENTS_DISKS, Boot
from iolab.lab.kernels import HERE


@dataclass(frozen=True, slots=True)
class Source:
    """What a guest is started from."""

    boot: Boot
    """Kernel and disks, as paths on its parent."""
    image: str
    """Digest of the image; of a nested guest its flavour."""
    packages: tuple[str, ...] = ()
    """Its packages as name=version; empty: the parent's own."""
    kernel: str = ""
    """Version of its kernel; empty: the parent's own."""


Find = Callable[[Guest], Source]
"""Finds what a guest on this computer is started from."""


def source_of(agent: Agent, guest: Guest, parent: str, find_here: Find) -> Source:
    """Return what a guest of a parent, whose agent is given, is started from.

    Raises:
        UnsupportedError: there is no image.
        AgentError: it cannot be copied to the parent.
    """
    if isinstance(agent.transport, SshTransport):
        image = find_image(guest.image)
        return _source(push_image(agent.transport, image), image)
    return find_here(guest) if parent == HERE else Source(PARENTS_DISKS, guest.image)


def find_here(guest: Guest) -> Source:
    """Return what a guest on this computer is started from.

    Raises:
        UnsupportedError: there is no image.
    """
    image = find_image(guest.image)
    xen = None if image.xen is None else str(image.xen)
    boot = Boot(str(image.vmlinux), str(image.initrd), str(image.root), str(image.modules), xen)
    return _source(boot, image)


def find_image(flavour: str) -> Image:
    """Return the image of a flavour, in this user's cache.

    Raises:
        UnsupportedError: there is none.
    """
    image = find(flavour, find_agent())
    if image is None:
        raise UnsupportedError(
            f"looking for the guest image {flavour}: it has not been built with this agent; "
            f"`iolab image build {flavour}` does it"
        )
    image.mark_used()
    return image


def push_image(transport: SshTransport, image: Image, tell: Tell = lambda _: None) -> Boot:
    """Bring an image to a host unless it is there; return where it is there.

    Raises:
        AgentError: it cannot be put there.
    """
    files = [image.vmlinux, image.initrd, image.root, image.modules, *([image.xen] if image.xen else [])]
    return Boot(*transport.provide(files, tell))


def _source(boot: Boot, image: Image) -> Source:
    return Source(boot, image.manifest.digest, image.packages, image.manifest.kernel_version)
