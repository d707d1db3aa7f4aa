"""Compare hdparm and fio through iolab with the same programs by hand, on a disk and a LUN that exist at an ssh host.

Usage: python -m benches.peers.existing [BLOCKS]. Needs root, QEMU, tgt and the image host (iolab image build host).

The host is a guest with a separate kernel, reached by a real sshd. Its disk is a virtio disk; the LUN is on a tgt in a
namespace, behind CHAP, and the initiator is the kernel's (open-iscsi). iolab's lab names only the device and the
target, and must not write. The disk is behind QEMU's throttle and the LUN behind a token bucket, because an emulated
guest and a shared disk vary by more than the programs may differ. In each block, the program runs by hand, twice in
iolab, and by hand again. By hand, the LUN is logged in to with iscsiadm; for iolab it is logged out, because iolab
refuses a target with a session of the host. Prints each block, and the ratio of iolab's figure to that by hand with its
interval. Exit status 1: a ratio is not between 0.98 and 1.02.
"""

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benches.harness.arguments import Argument, arguments
from benches.harness.lab import built, setup_of
from benches.harness.pairs import Block, agreement
from tests.guest.computers import Computers, computers_for_runs
from tests.netns.existing_box import IQN, SECRET, box_in

from iolab.agent.client import Agent
from iolab.agent.ssh import SshTransport
from iolab.agent.transport import LocalTransport, find_agent
from iolab.experiment.model.measures import DiskMeasure
from iolab.results.metric import Dimensions
from iolab.run.agents import Agents
from iolab.trial.disk.measure import conclude_disk, measure_disk
from iolab.trial.lab_access import Site

ARGUMENTS = (Argument("blocks", 8, "blocks of four runs, of each program on each disk"),)
LUN_BYTES = 256 << 20
COMPUTER = """
lab:
  machines:
    ctl: {kind: netns}
    pc6: {kind: vm, accel: tcg, image: host, memory: 512M, cpus: 2, disks: [{volume: own, throttle: {bytes: 20M}}]}
  links:
    ssh6:
      ends: [ctl.c6, pc6.eth0]
      addresses: {ctl.c6: 198.19.6.1/24, pc6.eth0: 198.19.6.2/24}
      shape: {at: ctl.c6, qdisc: tbf, rate: 100Mbit}
  volumes: {own: {size: 256M}}
measure:
  tcp: {kind: stream, from: ctl, to: pc6}
"""
PORTAL = "198.19.6.1:3260"
VOLUMES = {
    "disk": "{on: pc6, device: DEVICE}",
    "LUN": f'{{target: {{portal: "{PORTAL}", iqn: "{IQN}", lun: 1, chap: {{user: box, secret: {{file: SECRET}}}}}}}}',
}
MEASURES = {
    "hdparm": "{kind: disk, program: hdparm, on: pc6}",
    "fio": "{kind: disk, program: fio, on: pc6, size: 128M,"
    " fio: {blocks: [64K], depths: [4], access: [read], each: 3s}}",
}
FIGURES = {
    "hdparm": Dimensions(part="buffered", block_bytes=2 << 20),
    "fio": Dimensions(part="read", block_bytes=64 << 10, depth=4),
}
LAB = """
title: Existing disks
lab:
  machines: {{pc6: {{kind: host, ssh: pc6, disks: [{disk}]}}}}
  volumes: {{v: {volume}}}
measure: {{m: {measure}}}
"""
FIO = (
    "fio --name=hand --filename={node} --ioengine=io_uring --direct=1 --rw=randread --bs=64K --iodepth=4 --size=128M"
    " --time_based --runtime=3 --readonly --norandommap=1 --output-format=json"
)
LOGIN = f"""
set -e; modprobe -a sd_mod iscsi_tcp; mkdir -p /run/lock/iscsi /etc/iscsi
echo InitiatorName=iqn.2001-04.com.example:hand >/etc/iscsi/initiatorname.iscsi
pidof iscsid >/dev/null || iscsid
node="iscsiadm -m node -T {IQN} -p {PORTAL}"
$node -o new >/dev/null; $node -o update -n node.session.auth.authmethod -v CHAP
$node -o update -n node.session.auth.username -v box; $node -o update -n node.session.auth.password -v {SECRET}
$node --login >/dev/null; udevadm settle 2>/dev/null || sleep 1
for disk in /sys/class/iscsi_session/session*/device/target*/*:1/block/*; do echo "/dev/${{disk##*/}}"; done
"""
LOGOUT = f"iscsiadm -m node -T {IQN} -p {PORTAL} --logout; iscsiadm -m node -T {IQN} -p {PORTAL} -o delete"
TIMING = re.compile(r"buffered disk reads: +(\d+) MB in +([\d.]+) seconds")
BOUNDS = (0.98, 1.02)


def by_hand(computers: Computers, disk: str, program: str, device: str) -> float:
    """Return the figure of a program by hand on the host [bytes/s]."""
    try:
        node = device if disk == "disk" else computers.inside(6, LOGIN).split()[-1]
        computers.inside(6, f"blockdev --flushbufs {node}; echo 1 >/proc/sys/vm/drop_caches")
        if program == "fio":
            said = computers.inside(6, FIO.format(node=node))
            return float(json.loads(said[said.index("{") :])["jobs"][0]["read"]["bw_bytes"])
        timing = TIMING.search(computers.inside(6, f"hdparm -tT {node}"))
        assert timing is not None
        return float(timing[1]) * (1 << 20) / float(timing[2])
    finally:
        if disk == "LUN":
            computers.inside(6, LOGOUT)


def by_iolab(agents: Agents, lab: str, program: str) -> tuple[float, float]:
    """Return the figures of two trials in one lab [bytes/s]."""
    setup = setup_of(lab)
    (measure,) = setup.measures.values()
    assert isinstance(measure, DiskMeasure)
    with built(agents, setup) as (site, _):
        return _figure(site, measure, FIGURES[program]), _figure(site, measure, FIGURES[program])


def _figure(site: Site, measure: DiskMeasure, about: Dimensions) -> float:
    """Return the figure of one trial [bytes/s]."""
    done = conclude_disk(measure_disk(site, measure), {})
    found = done.metrics.get("disk_bytes_per_s", about)
    assert found is not None
    return found.value


@contextmanager
def computer(folder: Path) -> Iterator[tuple[Computers, Agents]]:
    """Start the host, and reach it by ssh."""
    with ExitStack() as stack:
        computers = stack.enter_context(computers_for_runs(COMPUTER, folder))
        stack.enter_context(
            box_in(folder / "box", ("ip", "netns", "exec", "iolab-ctl"), "0.0.0.0", size_bytes=LUN_BYTES)
        )
        agents = Agents(stack.enter_context(Agent(LocalTransport(find_agent()))))
        agents.add("pc6", stack.enter_context(Agent(SshTransport("pc6", find_agent()), name="pc6")))
        yield computers, agents


def main() -> int:
    """Measure blocks and print their ratios; return the exit status."""
    asked = arguments(__doc__, *ARGUMENTS)
    wrong = 0
    with tempfile.TemporaryDirectory() as name, computer(Path(name)) as (computers, agents):
        secret = Path(name) / "secret"
        secret.write_text(SECRET)
        secret.chmod(0o600)
        (device,) = computers.inside(6, "readlink -f /dev/iolab-own || ls /dev/vd?").split()[-1:]
        for disk, volume in VOLUMES.items():
            used = "{volume: v, via: kernel}" if disk == "LUN" else "{volume: v}"
            named = volume.replace("DEVICE", device).replace("SECRET", str(secret))
            for program, measure in MEASURES.items():
                lab = LAB.format(disk=used, volume=named, measure=measure)
                by_hand(
                    computers, disk, program, device
                )  # a first run finds the host still busy with its start
                done = list[Block]()
                for _ in range(asked.blocks):
                    first = by_hand(computers, disk, program, device)
                    ours = by_iolab(agents, lab, program)
                    done.append(Block(first, *ours, by_hand(computers, disk, program, device)))
                    print(f"{disk}, {program}: {done[-1]}: {done[-1].ratio:.4f}", flush=True)
                found = agreement(done)
                print(
                    f"{disk}, {program}: iolab by hand: {found} (bounds {BOUNDS[0]} to {BOUNDS[1]})",
                    flush=True,
                )
                wrong += not BOUNDS[0] <= found.ratio <= BOUNDS[1]
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
