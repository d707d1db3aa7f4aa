"""Hosts that run Xen, reached by ssh, for tests of domains there."""

from dataclasses import replace

from tests.guest.computers import Computers

from iolab.agent.ssh_image import digest_of
from iolab.image import Image
from iolab.lab.guests.guest import Guest
from iolab.run.guests.hypervisors import Hypervisors, Launch

COMPUTER = """
lab:
  machines:
    ctl: {kind: netns}
    pc6: {kind: vm, accel: tcg, image: xen, cpus: 2, memory: 2G}
  links:
    ssh6: {ends: [ctl.c6, pc6.eth0], addresses: {ctl.c6: 198.19.6.1/24, pc6.eth0: 198.19.6.2/24}}
measure:
  tcp: {kind: stream, from: ctl, to: pc6}
"""


BOOT = "mount -o remount,noexec /run && /etc/init.d/xen start\n"
"""As Debian has it: nothing may be run from below /run, and its own script starts Xen's services."""


DOMAIN_BYTES = 256 << 20


class WithRoom(Hypervisors):
    """Starts a Dom0 that leaves memory and a CPU for a domain that is not of its own lab."""

    def prepare(self, guest: Guest, parent: str) -> Launch:
        """See Hypervisors."""
        return super().prepare(replace(guest, domains_bytes=DOMAIN_BYTES, domains_cpus=1), parent)


def provide_image(image: Image, computers: Computers, number: int = 6) -> None:
    """Put the image where it would be copied to; that takes an emulated sshd two minutes, and is tested elsewhere."""
    boot = "/lib/modules/boot"
    there = {
        image.vmlinux: f"{boot}/vmlinux",
        image.initrd: f"{boot}/initrd",
        image.root: "/dev/vda",
        image.modules: "/dev/vdb",
    }
    copies = (f"cp {own} image-{digest_of(path)}" for path, own in there.items())
    computers.inside(number, f"mkdir -p ~root/.cache/iolab && cd ~root/.cache/iolab && {' && '.join(copies)}")
