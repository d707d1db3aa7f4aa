"""The switch in user space that carries a guest's card through shared memory: DPDK's testpmd, a process for each card.

It passes every frame between the card (vhost-user) and a tap, which it makes, and changes none. Pure.
"""

from iolab.lab.guests.guest import Guest, GuestNic, VhostUserBackend

PROGRAM = "dpdk-testpmd"
RUNTIME = "RUNTIME_DIRECTORY"
"""The variable that says where it keeps its own files: they go with the guest."""
FOREVER_S = 86_400
"""A period of statistics keeps it from reading its input, at whose end it would stop [s]."""
MOST_MTU_BYTES = 1_500
"""net_tap of DPDK 22.11 allows frames of 1522 bytes: --max-pkt-len beyond it ends testpmd, and no other option helps
[bytes]."""
BUFFERS, BUFFERS_PER_QUEUE = 2_048, 1_024
"""How many frames it has room for; a tap keeps up to 256 of each queue, the rings as many as they have descriptors."""
BUFFERS_PER_MIB = 400
"""Of 2 KiB each, with what the program keeps beside a frame [/MiB]."""
OWN_MIB = 32
"""What it takes beside its buffers [MiB]."""


def switched(guest: Guest) -> tuple[tuple[GuestNic, VhostUserBackend], ...]:
    """Return the cards of a guest that switches carry."""
    return tuple((nic, nic.backend) for nic in guest.nics if isinstance(nic.backend, VhostUserBackend))


def switch_id(guest: str, nic: str) -> str:
    """Return the id under which a card's switch is supervised."""
    return f"switch:{guest}.{nic}"


def switch_argv(nic: GuestNic, backend: VhostUserBackend, folder: str, cpus: str) -> tuple[str, ...]:
    """Return the command that starts a card's switch; its socket is in the guest's scratch `folder`.

    It has two threads that matter, of which one looks for frames all the time: both may run on `cpus` until they are
    pinned. The switch is the server of the socket, so it is started before the guest and takes one that comes again.
    """
    buffers = BUFFERS + BUFFERS_PER_QUEUE * nic.queues
    memory_mib = OWN_MIB + buffers // BUFFERS_PER_MIB
    return (
        *(PROGRAM, "--no-huge", "-m", str(memory_mib), "--no-pci", "--no-telemetry"),
        *("--no-shconf", f"--file-prefix={nic.name}", f"--lcores=(0-1)@({cpus})"),
        f"--vdev=net_vhost0,iface={folder}/{backend.socket},queues={nic.queues}",
        f"--vdev=net_tap0,iface={backend.interface}",
        *("--", "--no-mlockall", f"--total-num-mbufs={buffers}"),
        *(f"--rxq={nic.queues}", f"--txq={nic.queues}", "--forward-mode=io", "--auto-start"),
        f"--stats-period={FOREVER_S}",
    )
