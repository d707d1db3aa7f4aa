"""The labs of storage_faults.py, each with one disk, over every protocol, and faults inside the lab."""

import os

VOLUME = f"faulty{os.environ.get('STORAGE_FAULTS_LAB', '')}"
"""Unique volume name: all labs of a host share /var/tmp and /dev."""
FIO = "size: 16M, fio: {each: 60s, blocks: [64K], depths: [8], access: [write]}"
READS = FIO.replace("write", "read")
SHORT_READS = FIO.replace("60s", "3s").replace("[write]", "[read, write]")
VERIFIES = r'size: 16M, fio: {job: "[v]\nrw=write\nbs=64k\ndirect=1\nverify=crc32c\nrate=2m\n"}'
"""A measure with a job that writes for 8 s, then reads all data back and compares it."""
SLOW = FIO.replace("60s", "40s")
LAB = """title: Storage faults
lab:
  machines:
    {machines}
  links: {{{links}}}
  volumes: {{faulty: {{size: 32M{volume}}}}}
measure:
  it: {{kind: disk, program: fio, on: pc2, {fio}}}
"""
SAN = "san: {ends: [pc2.eth0, pc3.eth0]}"
GUEST = "kind: vm, accel: tcg, memory: 384M"
SSH_HOST = "pc6: {kind: host, ssh: pc6}"


def lab(machines: str, *, links: str = "", volume: str = "", fio: str = FIO) -> str:
    """Return an experiment."""
    text = LAB.format(machines=machines, links=links, volume=volume, fio=fio)
    return text.replace("faulty", VOLUME)


def by_user(protocol: str, *, ssh: bool = False, fio: str = FIO) -> str:
    """Return a lab in which QEMU's storage daemon serves a protocol or opens a file."""
    at = ", on: pc6" if ssh else ""
    machines = [f"pc2: {{kind: netns{at}, disks: [{{volume: faulty, via: user}}]}}"]
    machines += [SSH_HOST] if ssh else []
    if protocol == "fuse":
        return lab("\n    ".join(machines), volume=at, fio=fio)
    machines.append(f"pc3: {{kind: netns{at}}}")
    return lab("\n    ".join(machines), links=SAN, volume=f", on: pc3, export: {protocol}", fio=fio)


def by_loop(fio: str) -> str:
    """Return a lab whose disk is the volume's file."""
    return lab("pc2: {kind: netns, disks: [{volume: faulty}]}", fio=fio)


def by_hypervisor(protocol: str, *, ssh: bool = False, fio: str = FIO) -> str:
    """Return a lab in which QEMU uses a protocol for its guest."""
    at = ", on: pc6" if ssh else ""
    machines = [
        f"pc2: {{{GUEST}, on: pc1, disks: [{{volume: faulty, via: hypervisor}}]}}",
        f"pc1: {{kind: netns{at}}}",
        f"pc3: {{kind: netns{at}}}",
        *([SSH_HOST] if ssh else []),
    ]
    volume = f", on: pc3, export: {protocol}"
    return lab("\n    ".join(machines), links="san: {ends: [pc1.eth0, pc3.eth0]}", volume=volume, fio=fio)


def by_kernel(protocol: str, target: str, *, ssh: bool = False, fio: str = FIO) -> str:
    """Return a lab in which a guest's kernel connects to a target in a namespace or on another guest."""
    at = ", on: pc6" if ssh else ""
    machines = [
        f"pc2: {{{GUEST}{at}, disks: [{{volume: faulty, via: kernel}}]}}",
        f"pc3: {{{target}{at}}}",
        *([SSH_HOST] if ssh else []),
    ]
    return lab("\n    ".join(machines), links=SAN, volume=f", on: pc3, export: {protocol}", fio=fio)


def in_guest(*, ssh: bool = False, more: str = "", fio: str = FIO) -> str:
    """Return a lab with a guest whose disk is the volume's file in QEMU."""
    machines = f"pc2: {{{GUEST}{', on: pc6' if ssh else ''}, disks: [{{volume: faulty}}]{more}}}"
    at = ", on: pc6" if ssh else ""
    return lab(f"{machines}\n    {SSH_HOST}" if ssh else machines, volume=at, fio=fio)


def service(script: str) -> str:
    """Return a service of a guest that injects a fault from inside."""
    return f", services: {{fault: {{run: [sh, -c, {script!r}], ready: {{prints: ready}}}}}}"


NODE = "/dev/iolab-faulty"
BREAKS = (
    f"echo ready; modprobe dm-mod; until disk=$(readlink -f {NODE}) && [ -b $disk ]; do sleep 0.1; done;"
    " size=$(blockdev --getsz $disk); echo 0 $size linear $disk 0 | dmsetup create --noudevsync broken;"
    f" ln -sf /dev/dm-0 {NODE}; until set -- $(cat /sys/block/dm-0/stat) && [ $7 -gt 40960 ]; do sleep 0.1; done;"
    " dmsetup suspend --nolockfs broken; echo 0 $size error | dmsetup load broken; dmsetup resume broken; sleep 600"
)
"""Puts device-mapper on a disk, and makes every request fail after 20 MiB are written."""
DISABLES = (
    "echo ready; until for one in /sys/block/loop*/stat; do set -- $(cat $one); [ $7 -gt 40960 ] && break; done;"
    " do sleep 0.1; done;"
    " for one in /sys/kernel/config/nvmet/subsystems/*/namespaces/1/enable; do echo 0 >$one; done; sleep 600"
)
"""Disables the namespace of an NVMe/TCP target after 20 MiB are written. The script uses a loop, because a shell does
not expand a pattern after `>`."""
BLKDEBUG = (
    '[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "20480"\nonce = "off"\n\n'
    '[inject-error]\nevent = "write_aio"\nerrno = "5"\nsector = "20480"\nonce = "off"\n'
)
"""Rules of QEMU's blkdebug: requests to the eleventh MiB get EIO."""
ON_BLKDEBUG = {
    "qemu-nbd": '#!/bin/sh\nset -- "$@"\nfor file; do :; done\n'
    "exec /usr/bin/qemu-nbd --image-opts $(echo \"$@\" | sed 's/--format raw//; s#[^ ]*$##')"
    ' "driver=raw,file.driver=blkdebug,file.config=$(dirname "$0")/blkdebug,file.image.driver=file'
    ',file.image.filename=$file"\n',
    "qemu-storage-daemon": "#!/bin/bash\n"
    'debugged="driver=raw,file.driver=blkdebug,file.config=$(dirname "$0")/blkdebug"\n'
    "exec /usr/bin/qemu-storage-daemon "
    '"${@/driver=file,filename=/$debugged,file.image.driver=file,file.image.filename=}"\n',
}
"""QEMU programs with blkdebug below the export. Its events come from the raw format above it."""
BROKEN = {"blkdebug": BLKDEBUG, **ON_BLKDEBUG}
