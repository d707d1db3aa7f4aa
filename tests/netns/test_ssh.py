"""Agents on other hosts through a real sshd in namespaces: what is copied or refused, and how each agent ends."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.netns.runs import until
from tests.netns.sshd import INSIDE, Network, changes, make_lab, reach

from iolab.agent.client import Agent
from iolab.agent.ssh import UNHEARD_S, SshTransport
from iolab.agent.transport import find_agent
from iolab.errors import AgentError, UnsupportedError
from iolab.run.hosts import hosts
from iolab.run.hosts.host_agent import Waiting

pytestmark = pytest.mark.netns
BOUNDED_S = 60
"""A deadline of seconds has long ended what hangs; without it that would take longer."""


def test_the_agent_is_copied_once_and_is_all_that_stays(network: Network) -> None:
    """Two connections, one copy, for its owner only; in between nothing runs there and no lock is left held."""
    pc6 = network.host("pc6")
    for _ in range(2):
        with reach("pc6") as agent:
            assert (agent.hello.uid, agent.hello.rootless, agent.hello.state_dir) == (0, False, "/run/iolab")
            assert agent.hello.busy_pid is None
            assert len(pc6.agents()) == 1
        (file,) = pc6.cache.iterdir()
        assert file.name == f"agent-{agent.hello.build.removeprefix('sha256:')}"
        assert file.stat().st_mode & 0o777 == 0o700
        assert file.read_bytes() == find_agent().read_bytes()
    assert (pc6.folder / "log").read_text().count("Accepted publickey") == 2
    assert [path.name for path in pc6.home.iterdir()] == [".cache"]
    assert pc6.agents() == []


def test_a_damaged_or_older_file_is_replaced(network: Network) -> None:
    """What has the name but not the content is copied anew; agents of other versions go."""
    pc6 = network.host("pc6")
    reach("pc6").close()
    (file,) = pc6.cache.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    (pc6.cache / "agent-0123").write_text("an older one")
    reach("pc6").close()
    assert file.read_bytes() == find_agent().read_bytes()
    assert list(pc6.cache.iterdir()) == [file]


def test_an_unknown_host_key_is_refused_with_what_to_do(network: Network) -> None:
    """Nothing is accepted for the user, nothing is written to known_hosts."""
    network.host("pc6", known=False)
    with pytest.raises(
        AgentError,
        match=r"connecting to pc6 with ssh: Host key verification failed.*accept it once with `.*pc6`",
    ):
        reach("pc6")
    assert not (network.folder / "known_hosts").exists()


def test_a_changed_host_key_is_refused(network: Network) -> None:
    """The error for a host with another key differs from that for a new one."""
    pc6 = network.host("pc6")
    other = network.host("pc7", known=False)
    known = (network.folder / "known_hosts").read_text()
    (network.folder / "known_hosts").write_text(known.replace(pc6.address, other.address))
    with pytest.raises(AgentError, match=r"differs from the known one.*ssh-keygen -R"):
        reach("pc7")


def test_a_host_that_takes_no_key_of_ours_is_told_so_and_no_password_is_asked(network: Network) -> None:
    """Permission denied, at once."""
    pc6 = network.host("pc6")
    (pc6.folder / "authorized_keys").write_text("")
    with pytest.raises(AgentError, match=r"Permission denied.*accepts none of your keys"):
        reach("pc6")


@pytest.mark.parametrize(
    ("destination", "told"),
    [
        ("no-such-host.invalid", "Could not resolve hostname.*nor an alias"),
        ("ssh://root@198.18.250.1:9", "Connection refused.*check the port"),
    ],
)
def test_a_host_that_is_not_there_is_told_at_once(network: Network, destination: str, told: str) -> None:
    """A wrong name and a wrong port say which."""
    with pytest.raises(AgentError, match=told):
        reach(destination)


@pytest.mark.full
def test_a_host_that_hangs_ends_in_bounded_time(network: Network) -> None:
    """Something takes the connection and never speaks: a deadline ends it, and no ssh is left."""
    code = "import socket, time; s = socket.create_server(('198.18.250.1', 22)); print(1, flush=True); time.sleep(100)"
    argv = ["nsenter", f"--net=/proc/{network.pid}/ns/net", sys.executable, "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as hanging:
        assert hanging.stdout is not None
        hanging.stdout.readline()
        began = time.monotonic()
        with pytest.raises(
            AgentError, match=r"connecting to root@198.18.250.1 with ssh: no answer within 2 s"
        ):
            SshTransport("root@198.18.250.1", find_agent(), connect_deadline_s=2)
        assert time.monotonic() - began < BOUNDED_S
        hanging.kill()


@pytest.mark.full
def test_a_host_name_that_hangs_ends_in_bounded_time(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name server takes the question and never answers: the same deadline, and the name in the message."""
    (network.folder / "resolv.conf").write_text("nameserver 198.18.250.1\noptions timeout:30 attempts:3\n")
    script = network.folder / "ssh"
    bind = f"mount --bind {network.folder}/resolv.conf /etc/resolv.conf"
    script.write_text(
        f'#!/bin/sh\nexec unshare --mount sh -c \'{bind} && exec {network.ssh} "$@"\' sh "$@"\n'
    )
    script.chmod(0o755)
    monkeypatch.setenv("IOLAB_SSH", str(script))
    code = (
        "import socket; s = socket.socket(type=socket.SOCK_DGRAM); s.bind(('198.18.250.1', 53)); print(1, flush=True); "
        "s.recv(512); print(2, flush=True); s.recv(512)"
    )
    argv = ["nsenter", f"--net=/proc/{network.pid}/ns/net", sys.executable, "-c", code]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as silent:
        assert silent.stdout is not None
        silent.stdout.readline()
        began = time.monotonic()
        with pytest.raises(
            AgentError, match=r"connecting to root@pc6.example with ssh: no answer within 6 s"
        ):
            SshTransport("root@pc6.example", find_agent(), connect_deadline_s=6)
        assert time.monotonic() - began < BOUNDED_S
        assert silent.stdout.readline() == b"2\n", "it was asked"
        silent.kill()


def test_what_a_login_prints_does_not_matter(network: Network) -> None:
    """A banner, a profile that prints without an end of line, and one that complains: the greeting is found."""
    pc6 = network.host("pc6", more=f"Banner {INSIDE}/banner")
    (pc6.folder / "banner").write_text("Authorised use only\n")
    (pc6.home / ".bashrc").write_text(
        'echo "Welcome to pc6"; printf "{\\"method\\": 1}\\nno end"; echo complaint >&2\n'
    )
    with reach("pc6") as agent:
        assert agent.run(["echo", "hello"]).stdout == "hello\n"


def test_a_login_that_prints_without_end_is_refused(network: Network) -> None:
    """The error states the bound, with the end of what came."""
    pc6 = network.host("pc6")
    (pc6.home / ".bashrc").write_text("seq 1 100000\n")
    with pytest.raises(AgentError, match="login prints more than 65536 bytes"):
        reach("pc6")


@pytest.mark.parametrize(
    ("mount", "told"),
    [
        ("-o size=1m", "No space left on device.*free disk space"),
        ("-o ro", "Read-only file system.*XDG_CACHE_HOME"),
        ("-o noexec", "Permission denied.*noexec"),
    ],
)
def test_a_home_that_cannot_take_the_agent_is_told_and_nothing_is_left(
    network: Network, mount: str, told: str
) -> None:
    """A full disk, a read-only one, and one from which nothing may be started."""
    pc6 = network.host("pc6", prepare=f"mount -t tmpfs {mount} tmpfs {INSIDE}/home")
    with pytest.raises(AgentError, match=f"copying the agent .* on pc6: .*{told}"):
        reach("pc6")
    assert pc6.inside(f"find {INSIDE}/home -type f") == ""


def test_a_host_of_another_architecture_is_told_before_anything_is_copied(
    network: Network, tmp_path: Path
) -> None:
    """The message says what each is; an agent beside ours, named after the machine, is taken."""
    pc6 = network.host("pc6")
    foreign = tmp_path / "iolab-agent"
    foreign.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + (22).to_bytes(2, "little"))
    with pytest.raises(AgentError, match=r"the host is .*, but the local agent is built for s390x"):
        SshTransport("pc6", foreign)
    assert not pc6.cache.exists()
    foreign.with_name(f"iolab-agent-{os.uname().machine}").write_bytes(find_agent().read_bytes())
    Agent(SshTransport("pc6", foreign)).close()


def test_an_ordinary_user_gets_a_rootless_agent(network: Network) -> None:
    """Without sudo the agent lives in namespaces of its own, and real interfaces stay out of reach."""
    pc6 = network.host("pc6")
    with reach("user@pc6") as agent:
        assert (agent.hello.uid, agent.hello.rootless) == (1000, True)
    assert (pc6.users_home / ".cache/iolab").exists()


def test_sudo_starts_the_agent_where_it_asks_for_no_password(network: Network) -> None:
    """The agent is root's, with root's state folder, though we log in as somebody else."""
    sudoers = f"user ALL=(root) NOPASSWD: {INSIDE}/user/.cache/iolab/agent-*"
    network.host(
        "pc6",
        prepare=f'echo "{sudoers}" >/run/sudoers; chmod 440 /run/sudoers; mount --bind /run/sudoers /etc/sudoers',
    )
    with reach("user@pc6") as agent:
        assert (agent.hello.uid, agent.hello.rootless, agent.hello.state_dir) == (0, False, "/run/iolab")


def test_what_guests_start_from_is_copied_once_and_whole(network: Network, tmp_path: Path) -> None:
    """By content: of equal files one; what is there and whole is not copied again, what is damaged is; all goes."""
    pc6 = network.host("pc6")
    names = ("vmlinux", "root.squashfs", "again")
    for name, content in zip(names, (b"kernel", b"root" * 100_000, b"kernel"), strict=True):
        (tmp_path / name).write_bytes(content)
    files = [tmp_path / name for name in names]
    told: list[str] = []

    def provide(**options: bool) -> tuple[str, ...]:
        told.clear()
        transport = SshTransport("pc6", find_agent(), **options)
        with Agent(transport, name="pc6"):
            return transport.provide(files, lambda line: told.append(str(line)))

    kernel, root, again = provide()
    assert kernel == again
    assert told[0] == "copying vmlinux (6 B) to pc6"
    assert pc6.inside(f"cat {kernel}; stat -c ' %a' {kernel} {root}") == "kernel 644\n 644\n"
    assert provide() == (kernel, root, again)
    assert told == []
    pc6.inside(f"printf sernel >{kernel}")
    assert provide(leave_file=False) == (kernel, root, again)
    assert told == ["copying vmlinux (6 B) to pc6"]
    assert not pc6.cache.exists()


def test_a_host_without_room_for_an_image_is_told_before_it_is_copied(
    network: Network, tmp_path: Path
) -> None:
    """What is lacking, what is free, what to do; nothing is written."""
    pc6 = network.host("pc6", prepare=f"mount -t tmpfs -o size=20m tmpfs {INSIDE}/home")
    with (tmp_path / "root.squashfs").open("wb") as file:
        file.truncate(8 << 20)
    transport = SshTransport("pc6", find_agent())
    with Agent(transport, name="pc6"):
        with pytest.raises(
            AgentError, match=r"on pc6: 8 MiB are required, but only [0-9.]+ MiB are free; free disk space"
        ):
            transport.provide([tmp_path / "root.squashfs"], lambda _: None)
        assert "image-" not in pc6.inside(f"ls {INSIDE}/home/.cache/iolab")


def test_the_file_is_removed_when_it_is_not_to_be_left(network: Network) -> None:
    """The home folder is as before; other files in the cache folder stay."""
    pc6 = network.host("pc6")
    reach("pc6", leave_file=False).close()
    assert not pc6.cache.exists()
    pc6.cache.mkdir()
    (pc6.cache / "calibration.json").write_text("{}")
    reach("pc6", leave_file=False).close()
    assert [path.name for path in pc6.cache.iterdir()] == ["calibration.json"]


def test_the_file_stays_while_another_lab_works_with_it(network: Network) -> None:
    """A second agent sees the first, and takes nothing from it."""
    pc6 = network.host("pc6")
    with reach("pc6") as first:
        make_lab(first)
        second = reach("pc6", leave_file=False)
        assert second.hello.busy_pid == first.hello.pid
        assert second.close() == ""
        assert len(list(pc6.cache.iterdir())) == 1


GONE_S = UNHEARD_S + 40
"""Until both ends of a cut connection must have seen it, on a host that is busy or stands still for a while."""


def test_closing_undoes_everything(network: Network) -> None:
    """The dead-man's switch works over ssh as it does here."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    assert changes(pc6).split() == ["iolab-far", "iolab0"]
    assert agent.close() == ""
    assert changes(pc6) == ""


def test_a_killed_controller_leaves_nothing_there(network: Network) -> None:
    """Its pipes close, ssh ends, the agent undoes."""
    pc6 = network.host("pc6")
    code = (
        "import time; from tests.netns.sshd import make_lab, reach; agent = reach('pc6'); make_lab(agent); "
        "print('made', flush=True); time.sleep(60)"
    )
    controller = subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    )
    assert controller.stdout is not None
    assert controller.stdout.readline() == b"made\n"
    assert changes(pc6)
    controller.kill()
    controller.communicate()
    until(lambda: not pc6.agents())
    assert changes(pc6) == ""
    until(lambda: not any("agent" in name for name in pc6.names()))


@pytest.mark.full
def test_a_cut_cable_ends_both_sides(network: Network) -> None:
    """Neither end hears of it, both see it: the request fails, says so, the agent there undoes when it gives up."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    pending = agent.begin("command.run", {"argv": ["sleep", "100"], "timeout_ms": 120_000})
    pc6.cut()
    began = time.monotonic()
    with pytest.raises(
        AgentError, match=rf"connection to pc6 was lost.*undoes all changes within {UNHEARD_S} s"
    ):
        pending.result(GONE_S)
    assert time.monotonic() - began < GONE_S
    until(lambda: not pc6.agents(), GONE_S)
    assert time.monotonic() - began < GONE_S
    assert changes(pc6) == ""
    assert pc6.processes("sleep 100") == []
    assert "became unreachable on pc6" in str(agent.close())
    pc6.mend()
    with reach("pc6") as again:
        assert again.hello.predecessors == ()


def test_a_killed_agent_is_told_at_once_and_cleaned_later(network: Network) -> None:
    """The connection stands, so it was the agent; what it left stays until it is undone."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    pc6.inside(f"kill -9 {pc6.agents()[0]}")
    with pytest.raises(AgentError, match="iolab clean --host pc6"):
        agent.ping()
    agent.close()
    assert changes(pc6)
    with reach("pc6") as again:
        (left,) = again.hello.predecessors
        assert left.entries == 2
        assert again.undo(left.journal).failed == ()
    assert changes(pc6) == ""


def make_what_cannot_be_undone(agent: Agent) -> None:
    """Change nothing, and journal an undo that fails."""
    undo = {"kind": "command", "argv": ["sh", "-c", "echo it is in use >&2; exit 1"]}
    agent.run(["true"], undo=undo, undo_key="mtu:pc6.lan0")


def test_what_could_not_be_undone_is_told_when_the_agent_ends(network: Network) -> None:
    """Which change, why, and what to do; the next agent refuses the host until then."""
    network.host("pc6")
    agent = reach("pc6")
    make_what_cannot_be_undone(agent)
    told = str(agent.close())
    assert "not undone: mtu:pc6.lan0" in told
    assert "it is in use" in told
    assert "`iolab clean --host pc6`" in told
    with pytest.raises(
        UnsupportedError, match=r"cannot use pc6: .*mtu:pc6.lan0: .*it is in use.*`iolab clean --host pc6`"
    ):
        hosts.reach("pc6", "pc6", Waiting("next.yaml"))


def test_what_could_not_be_undone_after_a_disconnect_is_told_when_the_host_is_reached_again(
    network: Network,
) -> None:
    """The agent was alone when it found out; a run that comes back tries once more, and names change and reason."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_what_cannot_be_undone(agent)
    pc6.kill("sshd: root")
    agent.close()
    until(lambda: not pc6.agents())
    told = r"cannot use pc6: .*cannot be undone: mtu:pc6.lan0: .*it is in use.*`iolab clean --host pc6`"
    with pytest.raises(UnsupportedError, match=told):
        hosts.reach("pc6", "pc6", Waiting("again.yaml"))
    assert pc6.agents() == []


@pytest.mark.full
def test_a_host_that_reboots_is_lost_and_comes_back_clean(network: Network) -> None:
    """Everything there ends at once; the next connection finds nothing to undo and the file still there."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    pc6.crash()
    with pytest.raises(AgentError, match="pc6"):
        agent.ping()
    agent.close()
    pc6.start()
    with reach("pc6") as again:
        assert again.hello.predecessors == ()
    assert (pc6.folder / "log").read_text().count("Accepted publickey") == 2
