"""Read back the disks of a machine from /sys/block: the command that prints them, and the parser of its output.

Pure. The package `lab/volumes/` determines which disks belong to an experiment.
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
"""Script that prints a line per disk: name, size [bytes], driver of its controller, serial number. The number of a SCSI
disk is in page 0x80 of its vital product data (SPC-4), after a header of four bytes; libata provides it for ATA disks.
The script uses only shell builtins: under emulation each started program takes 10 ms."""


@frozen
class BlockDevice:
    """A value of a disk in the output of `SHOW`."""

    known_by: str
    """Serial number of the disk, or its name if its bus has no serial numbers."""
    field: Literal["node", "size", "driver"]
    """node: /dev/sda; size: in bytes; driver: of the disk's controller."""


def block_device(how: BlockDevice, text: str) -> str:
    """Return the requested value of a disk.

    Raises:
        IndexError: there is no such disk.
    """
    rows = [line.split() for line in text.splitlines()]
    found = [row for row in rows if row[3] == how.known_by] or [row for row in rows if row[0] == how.known_by]
    name, size_bytes, driver, _ = found[0]
    return {"node": f"/dev/{name}", "size": size_bytes, "driver": driver}[how.field]
