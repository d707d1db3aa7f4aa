"""The device of a macvtap, opened by sudo for an ordinary user: permitted and refused requests."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.netns.ordinary_user import ALLOWED, OPENER, PYTHON, STRANGER, UID, OrdinaryUser, is_possible
from tests.netns.runs import until
from tests.netns.sshd import end, run

from iolab.agent.client import Refused

pytestmark = pytest.mark.netns

CARDS = """
ip link add m0 type veth peer name m1
ip link add link m0 name mt0 type macvtap mode bridge
ip tuntap add dev t0 mode tap
for each in m0 m1 mt0 t0; do ip link set $each up; done"""
ASK = """
import fcntl, json, os, socket, subprocess, sys
ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
request, *paths = sys.argv[1:]
socket.send_fds(ours, [request.encode()], [os.open(path, os.O_RDONLY) for path in paths])
argv = ["sudo", "-n", "--", "{opener}", "open-macvtap"]
status = subprocess.run(argv, stdin=theirs, stdout=subprocess.DEVNULL).returncode
theirs.close()
reply, files, _, _ = socket.recv_fds(ours, 4096, 4)
TUNGETIFF = 0x800454D2
names = [fcntl.ioctl(file, TUNGETIFF, bytes(40)).split(b"\\0")[0].decode() for file in files]
print(json.dumps([status, json.loads(reply), names]))
""".replace("{opener}", OPENER)
Ask = Callable[..., tuple[int, dict[str, str], list[str]]]


@pytest.fixture(scope="module")
def user(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrdinaryUser]:
    """Provide a user whom sudo allows to open macvtaps."""
    if not is_possible():
        pytest.skip(
            "needs root, sudo (scripts/packages.sh ssh installs it), and a Python outside of root's home folder"
        )
    made = OrdinaryUser(tmp_path_factory.mktemp("macvtap") / "user")
    yield made
    made.close()


@pytest.fixture(scope="module")
def ask(user: OrdinaryUser) -> Ask:
    """Call the opener by sudo, with a request and files of the test."""

    def asked(request: object, *paths: str) -> Any:
        text = request if isinstance(request, str) else json.dumps(request)
        done = user.run(PYTHON, "-c", ASK, text, *paths)
        assert done.returncode == 0, done.stderr
        return tuple(json.loads(done.stdout))

    return asked


@pytest.fixture(scope="module")
def own(user: OrdinaryUser) -> Iterator[str]:
    """Provide a network namespace of the user with a macvtap and a plain tap."""
    process, path = user.namespace(CARDS)
    yield path
    end(process)


def wanted(interface: str) -> dict[str, str]:
    """Return the request for an interface's device."""
    return {"ask": "open", "interface": interface}


def test_macvtap_in_the_users_namespace_is_opened_and_nothing_is_left(
    user: OrdinaryUser, ask: Ask, own: str
) -> None:
    """Leave no node and no mount."""
    # Not all of /dev: other users' terminals and taps appear there.
    left = [*user.inside, "sh", "-c", "ls /run; ls -R /run/user; find /dev -name 'iolab*'; cat /proc/mounts"]
    before = run(left)
    assert ask({"ask": "ready"}) == (0, {"answer": "ready"}, [])
    assert ask(wanted("mt0"), own) == (0, {"answer": "opened"}, ["mt0"])
    assert run(left) == before


@pytest.mark.parametrize(
    ("interface", "why"),
    [
        ("t0", "finding the device of a macvtap: No such device"),
        ("m0", "finding the device of a macvtap: No such device"),
        ("absent", "finding the device of a macvtap: No such file"),
        *[(name, "saw what cannot be an interface's name") for name in ("", "..", "../mt0", "a b", "x" * 16)],
    ],
)
def test_interface_that_is_not_a_macvtap_is_refused(ask: Ask, own: str, interface: str, why: str) -> None:
    """Check a plain tap, other interfaces, and invalid names."""
    status, reply, names = ask(wanted(interface), own)
    assert (status, reply["answer"], names) == (1, "refused", [])
    assert reply["why"].startswith(why)


def test_macvtap_in_a_namespace_of_a_different_user_is_refused(user: OrdinaryUser, ask: Ask) -> None:
    """Check root's and a stranger's, although their files can be opened."""
    run(
        [
            *user.inside,
            "sh",
            "-ec",
            'ip netns add roots; exec nsenter --net=/run/netns/roots sh -ec "$1"',
            "sh",
            CARDS,
        ]
    )
    process, strangers = user.namespace(CARDS, uid=STRANGER)
    for path, owner in (("/run/netns/roots", 0), (strangers, STRANGER)):
        status, reply, names = ask(wanted("mt0"), path)
        assert (status, names) == (1, [])
        assert reply["why"] == f"saw a network namespace of user {owner}; allowed: one of user {UID}"
    end(process)


@pytest.mark.parametrize(
    ("request_", "paths", "why"),
    [
        (wanted("mt0"), (), "reading the request: no network namespace came with it"),
        (wanted("mt0"), ("/etc/passwd",), "looking whose the namespace is: No such device"),
        (wanted("mt0"), ("/dev/zero",), "looking whose the namespace is: No such device"),
        (wanted("mt0"), ("/proc/self/ns/user",), "looking whose the namespace is: No such device"),
        ({**wanted("mt0"), "path": "/etc/shadow"}, (), "reading the request: unknown field"),
        ({"ask": "shell"}, (), "reading the request: unknown variant"),
        ("no JSON", (), "reading the request: expected"),
        ("[" * 9000, (), "reading the request: "),
    ],
)
def test_malformed_request_for_a_macvtap_is_refused(
    ask: Ask, request_: object, paths: tuple[str, ...], why: str
) -> None:
    """Check no namespace, a wrong file, and too many files."""
    status, reply, names = ask(request_, *paths)
    assert (status, names) == (1, [])
    assert reply["why"].startswith(why)


def test_open_macvtap_works_only_for_the_caller_of_sudo(user: OrdinaryUser) -> None:
    """Refuse calls without sudo, by root, by hand, and with a foreign socket."""
    by_hand = user.run(OPENER, "open-macvtap")
    assert (by_hand.returncode, by_hand.stderr) == (
        1, f"iolab-agent: saw user {UID}; allowed: root, by sudo\n",
    )  # fmt: skip
    for environment, why in (
        ({}, "saw no SUDO_UID"),
        ({"SUDO_UID": "0"}, "saw root as the caller"),
        ({"SUDO_UID": str(UID)}, "standard input must be a unix socket"),
    ):
        done = subprocess.run(
            [*user.inside, OPENER, "open-macvtap"], env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 1
        assert why in done.stderr


def test_sudo_rule_allows_only_open_macvtap(user: OrdinaryUser) -> None:
    """Refuse the agent itself as root."""
    for argument in ("--version", "open-macvtap x", ""):
        done = user.run("sudo", "-n", "--", OPENER, *argument.split())
        # A computer that does not know its own name reports it first.
        assert (done.returncode, done.stderr.splitlines()[-1]) == (1, "sudo: a password is required")


def test_rootless_agent_passes_a_macvtap_to_a_program(user: OrdinaryUser) -> None:
    """Receive the program's frames at the other end of the veth pair."""
    frame = "00" * 10 + "ffffffffffff" + "020000000001" + "88b5" + "00" * 46
    write = f"import os; [os.write(3, bytes.fromhex('{frame}')) for _ in range(5)]"
    with user.agent() as agent:
        assert agent.hello.rootless
        assert "macvtap" in agent.hello.capabilities
        agent.call("netns.create", {"name": "iolab-t"})
        agent.run(["sh", "-ec", CARDS], netns="iolab-t")

        def received() -> int:
            shown = agent.run(["cat", "/sys/class/net/m1/statistics/rx_packets"], netns="iolab-t")
            return int(shown.stdout)

        before = received()
        opened = {"kind": "macvtap", "netns": "iolab-t", "interface": "mt0"}
        files = [{"fd": 3, "open": opened}]
        agent.call("process.start", {"id": "p", "argv": [str(PYTHON), "-c", write], "files": files})
        ended = agent.wait("p", timeout_ms=60_000)
        assert (ended.exit_status, ended.stderr) == (0, "")
        assert received() - before >= 5
        opened["interface"] = "t0"
        with pytest.raises(Refused, match="opening the device of macvtap 't0' by sudo: finding the device"):
            agent.call("process.start", {"id": "p", "argv": ["true"], "files": files})
        (outside,) = outside_of(agent.hello.pid)
    until(lambda: not Path(f"/proc/{outside}/exe").exists())


def outside_of(pid: int) -> list[str]:
    """Return the children of an agent outside its namespaces."""
    found = []
    for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
        with contextlib.suppress(OSError):  # it has ended since
            if b"stay-outside" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


@pytest.mark.parametrize(
    ("sudoers", "removed", "why"),
    [
        ("", False, "sudo: a password is required"),
        (ALLOWED, True, f"there is no {OPENER}"),
    ],
)
def test_agent_without_sudo_permission_reports_the_reason_and_leaves_no_process(
    tmp_path: Path, sudoers: str, removed: bool, why: str
) -> None:
    """Give the reason in its greeting, and open none."""
    if not is_possible():
        pytest.skip(
            "needs root, sudo (scripts/packages.sh ssh installs it), and a Python outside of root's home folder"
        )
    user = OrdinaryUser(tmp_path / "user", sudoers)
    if removed:
        run([*user.inside, "rm", OPENER])
    with user.agent() as agent:
        assert "macvtap" not in agent.hello.capabilities
        assert f"no devices of macvtaps: only root may open them, and {why}" in agent.hello.limits
        assert outside_of(agent.hello.pid) == []
        agent.run(["sh", "-ec", CARDS])
        files = [{"fd": 3, "open": {"kind": "macvtap", "interface": "mt0"}}]
        with pytest.raises(Refused, match="macvtap 'mt0'"):
            agent.call("process.start", {"id": "p", "argv": ["true"], "files": files})
    user.close()
