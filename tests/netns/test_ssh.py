"""Agents on remote hosts through a real sshd in namespaces: copied or refused files, and the end of each agent."""

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
"""Upper limit: a deadline of seconds ends a hanging connection; without it that would take longer."""


def test_agent_is_copied_once_and_is_the_only_file_left(network: Network) -> None:
    """Check two connections, file mode, running processes and locks."""
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


def test_damaged_or_older_agent_file_is_replaced(network: Network) -> None:
    """Replace a file with wrong contents, and remove agents of other versions."""
    pc6 = network.host("pc6")
    reach("pc6").close()
    (file,) = pc6.cache.iterdir()
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    (pc6.cache / "agent-0123").write_text("an older one")
    reach("pc6").close()
    assert file.read_bytes() == find_agent().read_bytes()
    assert list(pc6.cache.iterdir()) == [file]


def test_unknown_host_key_is_refused_with_a_remedy(network: Network) -> None:
    """Accept nothing, and write nothing to known_hosts."""
    network.host("pc6", known=False)
    with pytest.raises(
        AgentError,
        match=r"connecting to pc6 with ssh: Host key verification failed.*accept it once with `.*pc6`",
    ):
        reach("pc6")
    assert not (network.folder / "known_hosts").exists()


def test_changed_host_key_is_refused(network: Network) -> None:
    """Distinguish it from a new host."""
    pc6 = network.host("pc6")
    other = network.host("pc7", known=False)
    known = (network.folder / "known_hosts").read_text()
    (network.folder / "known_hosts").write_text(known.replace(pc6.address, other.address))
    with pytest.raises(AgentError, match=r"differs from the known one.*ssh-keygen -R"):
        reach("pc7")


def test_host_that_accepts_no_key_is_reported_without_asking_for_a_password(network: Network) -> None:
    """Report "Permission denied" at once."""
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
def test_unreachable_host_is_reported_at_once(network: Network, destination: str, told: str) -> None:
    """Distinguish a wrong name and a wrong port."""
    with pytest.raises(AgentError, match=told):
        reach(destination)


@pytest.mark.full
def test_connection_to_a_hanging_host_ends_at_the_deadline(network: Network) -> None:
    """Accept the connection without a greeting; leave no ssh process."""
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
def test_hanging_name_server_ends_the_connection_at_the_deadline(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Leave the query unanswered; name the host."""
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


def test_output_of_the_login_shell_is_ignored(network: Network) -> None:
    """Find the greeting after a banner, an unterminated line, and error output."""
    pc6 = network.host("pc6", more=f"Banner {INSIDE}/banner")
    (pc6.folder / "banner").write_text("Authorised use only\n")
    (pc6.home / ".bashrc").write_text(
        'echo "Welcome to pc6"; printf "{\\"method\\": 1}\\nno end"; echo complaint >&2\n'
    )
    with reach("pc6") as agent:
        assert agent.run(["echo", "hello"]).stdout == "hello\n"


def test_endless_output_of_the_login_shell_is_refused(network: Network) -> None:
    """State the limit, and quote the end of the output."""
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
def test_home_folder_that_cannot_hold_the_agent_is_reported_and_nothing_is_left(
    network: Network, mount: str, told: str
) -> None:
    """Check a full disk, a read-only one, and one mounted noexec."""
    pc6 = network.host("pc6", prepare=f"mount -t tmpfs {mount} tmpfs {INSIDE}/home")
    with pytest.raises(AgentError, match=f"copying the agent .* on pc6: .*{told}"):
        reach("pc6")
    assert pc6.inside(f"find {INSIDE}/home -type f") == ""


def test_architecture_mismatch_is_reported_before_anything_is_copied(
    network: Network, tmp_path: Path
) -> None:
    """Name both; use an agent for that machine if there is one."""
    pc6 = network.host("pc6")
    foreign = tmp_path / "iolab-agent"
    foreign.write_bytes(b"\x7fELF\x02\x01" + bytes(12) + (22).to_bytes(2, "little"))
    with pytest.raises(
        AgentError, match=r"the host's architecture is .*, but the local agent is built for s390x"
    ):
        SshTransport("pc6", foreign)
    assert not pc6.cache.exists()
    foreign.with_name(f"iolab-agent-{os.uname().machine}").write_bytes(find_agent().read_bytes())
    Agent(SshTransport("pc6", foreign)).close()


def test_ordinary_user_gets_a_rootless_agent(network: Network) -> None:
    """Use separate namespaces without sudo, which keeps real interfaces out of reach."""
    pc6 = network.host("pc6")
    with reach("user@pc6") as agent:
        assert (agent.hello.uid, agent.hello.rootless) == (1000, True)
    assert (pc6.users_home / ".cache/iolab").exists()


def test_passwordless_sudo_starts_the_agent_as_root(network: Network) -> None:
    """Use root's state folder, although a different user logs in."""
    sudoers = f"user ALL=(root) NOPASSWD: {INSIDE}/user/.cache/iolab/agent-*"
    network.host(
        "pc6",
        prepare=f'echo "{sudoers}" >/run/sudoers; chmod 440 /run/sudoers; mount --bind /run/sudoers /etc/sudoers',
    )
    with reach("user@pc6") as agent:
        assert (agent.hello.uid, agent.hello.rootless, agent.hello.state_dir) == (0, False, "/run/iolab")


def test_guest_files_are_copied_once_and_damaged_copies_are_replaced(
    network: Network, tmp_path: Path
) -> None:
    """Identify them by content; remove everything at the end."""
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


def test_host_without_space_for_an_image_is_reported_before_the_copy(
    network: Network, tmp_path: Path
) -> None:
    """Report required and free space with a remedy; write nothing."""
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


def test_agent_file_is_removed_on_request(network: Network) -> None:
    """Restore the home folder; keep other files in the cache folder."""
    pc6 = network.host("pc6")
    reach("pc6", leave_file=False).close()
    assert not pc6.cache.exists()
    pc6.cache.mkdir()
    (pc6.cache / "calibration.json").write_text("{}")
    reach("pc6", leave_file=False).close()
    assert [path.name for path in pc6.cache.iterdir()] == ["calibration.json"]


def test_agent_file_stays_while_another_lab_uses_it(network: Network) -> None:
    """Detect the first agent."""
    pc6 = network.host("pc6")
    with reach("pc6") as first:
        make_lab(first)
        second = reach("pc6", leave_file=False)
        assert second.hello.busy_pid == first.hello.pid
        assert second.close() == ""
        assert len(list(pc6.cache.iterdir())) == 1


GONE_S = UNHEARD_S + 40
"""Limit until both ends of a cut connection notice it, on a busy or stalled host."""


def test_closing_the_ssh_connection_undoes_all_changes(network: Network) -> None:
    """Check the dead-man's switch over ssh."""
    pc6 = network.host("pc6")
    agent = reach("pc6")
    make_lab(agent)
    assert changes(pc6).split() == ["iolab-far", "iolab0"]
    assert agent.close() == ""
    assert changes(pc6) == ""


def test_changes_of_a_killed_controller_are_undone_on_the_host(network: Network) -> None:
    """Close the pipes, which ends ssh and the agent."""
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
def test_cut_network_connection_ends_both_controller_and_agent(network: Network) -> None:
    """Fail the request, and undo the changes after the silence limit."""
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
    assert "the agent on pc6 became unreachable" in str(agent.close())
    pc6.mend()
    with reach("pc6") as again:
        assert again.hello.predecessors == ()


def test_killed_agent_is_reported_at_once_and_its_changes_are_undone_later(network: Network) -> None:
    """Recognise it by the open connection; keep its changes until they are undone."""
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


def test_change_that_could_not_be_undone_is_reported_when_the_agent_ends(network: Network) -> None:
    """Name change, reason and remedy; refuse the host until then."""
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


def test_change_that_could_not_be_undone_is_reported_on_the_next_connection(
    network: Network,
) -> None:
    """Let the next run try again, and name change and reason."""
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
def test_rebooted_host_has_nothing_to_undo(network: Network) -> None:
    """Keep the agent's file."""
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
