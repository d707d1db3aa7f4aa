"""User-space switches on the fake agent: started before their guest, pinned and read back with it, stopped after it."""

import json

import pytest
from tests.fake_agent.agent import Outcome
from tests.unit.run.guests.fake_guests import FIRST_VCPU, Threads, guest, parent

from iolab.agent.client import Refused
from iolab.errors import LabError
from iolab.lab.actions import PinGuest
from iolab.lab.guests.guest import GuestNic, VhostUserBackend

PATIENCE_S = 60.0
SWITCH_PID, POLLING, QEMU_PID = 1001, 1005, 1002
NIC = GuestNic("eth0", "02:00:00:00:00:01", "vhost-user", VhostUserBackend("iolab-t", "p0", "eth0.sock"))


class Programs(Threads):
    """Programs of a parent with a switch and QEMU; the switch starts unless it has an error message."""

    def __init__(self, last_words: str = "") -> None:
        super().__init__()
        self.last_words = last_words
        self.started: list[tuple[str, str | None]] = []
        self.switch_runs = True

    def __call__(self, argv: tuple[str, ...], netns: str | None) -> Outcome:
        """Run one."""
        if argv[0] == "dpdk-testpmd":
            self.started.append((argv[0], netns))
            return Outcome(stdout=self.last_words, exit_status=1 if self.last_words else 0)
        if argv[0] == "qemu":
            self.started.append((argv[0], netns))
        if argv[0] == "test":
            return Outcome(exit_status=1 if self.last_words else 0)
        if argv[0] == "ps":
            rows = [(QEMU_PID, QEMU_PID, "qemu-system-x86"), (QEMU_PID, FIRST_VCPU, "CPU 0/TCG"),
                    (QEMU_PID, FIRST_VCPU + 1, "CPU 1/TCG")]  # fmt: skip
            rows += [(SWITCH_PID, SWITCH_PID, "dpdk-testpmd"), (SWITCH_PID, POLLING, "rte-worker-1")][
                : 2 * self.switch_runs
            ]
            return Outcome(stdout="".join(f"{pid} {tid} {name}\n" for pid, tid, name in rows))
        return super().__call__(argv, netns)


def test_vhost_user_switch_starts_before_its_guest_and_ends_after_it() -> None:
    """Provide QEMU's socket; leave nothing after the guest."""
    programs = Programs()
    guests, agents, host = parent(programs=programs)
    _, switch, qemu = guests.start(guest(nics=(NIC,)), "").result(PATIENCE_S)
    assert programs.started == [("dpdk-testpmd", "iolab-t"), ("qemu", None)]
    assert switch.argv[:3] == ("env", "RUNTIME_DIRECTORY=/run/iolab/f/dut", "dpdk-testpmd")
    assert (switch.netns, switch.undo) == ("iolab-t", ("iolab-agent", "process.stop", "switch:dut.eth0"))
    assert qemu.argv[0] == "qemu"
    guests.stop(["dut"])
    assert host.folders == set()
    with pytest.raises(Refused, match=r"no process 'switch:dut\.eth0'"):
        agents.here.call("process.wait", {"id": "switch:dut.eth0", "timeout_ms": 1})


def test_threads_of_a_vhost_user_switch_are_pinned_and_read_back() -> None:
    """Include the polling thread."""
    programs = Programs()
    guests, _, _ = parent(programs=programs)
    guests.start(guest(nics=(NIC,)), "").result(PATIENCE_S)
    guests.pin(PinGuest("dut", (2, 2), (1,))).result(PATIENCE_S)
    assert {programs.cpus[thread] for thread in (QEMU_PID, SWITCH_PID, POLLING)} == {"1"}
    found = json.loads(guests.state("dut").result(PATIENCE_S) or "")
    assert found == {"status": "running", "vcpus": [[2], [2]], "carriers": [[1], [1], [1]]}


def test_end_of_the_switch_of_a_guest_is_detected_by_the_read_back() -> None:
    """Report that nothing serves its NIC, although the guest runs."""
    programs = Programs()
    guests, _, _ = parent(programs=programs)
    guests.start(guest(nics=(NIC,)), "").result(PATIENCE_S)
    programs.switch_runs = False
    found = json.loads(guests.state("dut").result(PATIENCE_S) or "")
    assert found["status"] == "running, the switch of eth0 ended"


def test_failed_switch_is_reported_with_its_error_message_and_no_guest_is_started() -> None:
    """Quote the error among DPDK's messages; name the package of a missing driver."""
    said = "EAL: Detected CPU lcores: 2\nEAL: Unable to parse device 'net_vhost0,iface=x'\nPort 0 is closed\n"
    programs = Programs(said)
    guests, _, host = parent(programs=programs)
    wanted = r"switch of dut\.eth0: dpdk-testpmd exited with status 1: EAL: Unable to parse device.*package dpdk-dev"
    with pytest.raises(LabError, match=wanted) as caught:
        guests.start(guest(nics=(NIC,)), "").result(PATIENCE_S)
    assert "Detected" not in str(caught.value)
    assert programs.started == [("dpdk-testpmd", "iolab-t")]
    assert host.folders == set()
