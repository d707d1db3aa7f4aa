"""The disks of a machine as its kernel shows them below /sys/block: the command that prints them, and how it is read.

Pure. Which of them are an experiment's is decided in `lab/volumes/`.
"""

from typing import Literal

from iolab.frozen import frozen

SHOW = (
    "for disk in /sys/block/*; do"
    ' device=$disk/device; cd -P "$device" 2>/dev/null || continue; read -r sectors <"$disk/size"; driver=- serial=-;'
    ' for place in driver device/driver; do cd -P "$device/$place" 2>/dev/null && driver=${PWD##*/}; done;'
    ' cd -P "$device"; for host in ../../scsi_host/*/proc_name; do [ -e "$host" ] && read -r driver <"$host"; done;'
    ' for file in "$disk/serial" "$device/serial"; do [ -e "$file" ] && read -r serial <"$file"; done;'
    " [ -e vpd_pg80 ] && serial=$(tail -c +5 vpd_pg80);"
    ' echo "${disk##*/}" "$((sectors * 512))" "$driver" ${serial:--}; done'
)
"""Prints a line per disk: name, size [bytes], driver of what it hangs on, serial number. A SCSI disk's number is that
of page 0x80 of its vital product data (SPC-4), behind a head of four bytes; libata makes one for ATA disks. Written
with words of the shell itself: under emulation each program that it starts takes 10 ms."""


@frozen
class BlockDevice:
    """A disk, from what `SHOW` prints."""

    known_by: str
    """Its serial number, or its name where its bus has no such numbers."""
    field: Literal["node", "size", "driver"]
    """node: /dev/sda; size: in bytes; driver: of the controller that it hangs on."""


def block_device(how: BlockDevice, text: str) -> str:
    """Return what is asked about a disk.

    Raises:
        IndexError: there is none such.
    """
    rows = [line.split() for line in text.splitlines()]
    found = [row for row in rows if row[3] == how.known_by] or [row for row in rows if row[0] == how.known_by]
    name, size_bytes, driver, _ = found[0]
    return {"node": f"/dev/{name}", "size": size_bytes, "driver": driver}[how.field]
