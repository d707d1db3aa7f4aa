"""Xen hosts, reached by ssh, for tests of domains."""

import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

from iolab.agent.ssh_files import digest_of
from iolab.agent.transport import find_agent
from iolab.image import Image
from iolab.lab.guests.guest import Guest
from iolab.run.agents import Agents
from iolab.run.guests.hypervisors import Hypervisors, Launch

COMPUTERS = """
lab:
  machines:
    ctl: {kind: netns}
    pc6: {kind: vm, accel: tcg, image: xen, cpus: 2, memory: 2G}
    pc7: {kind: vm, accel: tcg, image: xen, cpus: 2, memory: 2G}
  links:
    ssh6: {ends: [ctl.c6, pc6.eth0], addresses: {ctl.c6: 198.19.6.1/24, pc6.eth0: 198.19.6.2/24}}
    ssh7: {ends: [ctl.c7, pc7.eth0], addresses: {ctl.c7: 198.19.7.1/24, pc7.eth0: 198.19.7.2/24}}
    cable: {ends: [pc6.eth1, pc7.eth1]}
measure:
  tcp: {kind: stream, from: ctl, to: pc6}
"""
"""Two Xen hosts, connected by a cable, each connected to the namespace of ssh."""
BOOT = """
mount -o remount,noexec /run && /etc/init.d/xen start
mkdir -p ~root/.cache/iolab && mount /dev/vdc ~root/.cache/iolab
ip link set eth1 up
"""
"""Boot script. As in Debian, no program may be run from below /run, and Debian's script starts Xen's services. Images
and the agent are copied to a disk."""


DOMAIN_BYTES = 256 << 20


class WithRoom(Hypervisors):
    """Starts a Dom0 that leaves memory and a CPU for a domain of a different lab, and has an additional disk."""

    def __init__(self, agents: Agents, disk: Path) -> None:
        super().__init__(agents)
        self._disk = disk

    def prepare(self, guest: Guest, parent: str) -> Launch:
        """See Hypervisors."""
        launch = super().prepare(replace(guest, domains_bytes=DOMAIN_BYTES, domains_cpus=1), parent)
        drive = f"if=virtio,file={self._disk},format=raw,snapshot=on"
        user = launch.own_user
        assert user is not None
        return replace(
            launch,
            argv=(*launch.argv, "-drive", drive),
            own_user=replace(user, reads=(*user.reads, str(self._disk))),
        )


def make_disk(folder: Path, image: Image) -> Path:
    """Return a disk with an image and the agent, as an earlier run left them on a host.

    Copying them through an emulated sshd takes two minutes, and is tested elsewhere.
    """
    files = folder / "files"
    files.mkdir()
    for path in (image.vmlinux, image.initrd, image.root, image.modules):
        shutil.copyfile(path, files / f"image-{digest_of(path)}")
    agent = files / f"agent-{digest_of(find_agent())}"
    shutil.copyfile(find_agent(), agent)
    agent.chmod(0o700)
    disk = folder / "disk"
    subprocess.run(["mkfs.ext4", "-q", "-d", files, disk, "600M"], check=True, capture_output=True)
    shutil.rmtree(files)
    return disk
