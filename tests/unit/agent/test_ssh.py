"""Reaching an agent by ssh, with an ssh that stays on this computer: login shells, greetings, deadlines, messages."""

import hashlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from iolab.agent.client import Agent
from iolab.agent.ssh import SshTransport
from iolab.agent.ssh_connection import Lines, SshConnection, explained, ssh_command
from iolab.agent.ssh_files import remove_agents
from iolab.errors import AgentError

STAYING = """
while [ "$1" != -- ]; do shift; done
exec {shell} -c "$3"
"""
"""An ssh that gives the command to a login shell here."""
AGENT = """#!/bin/sh
[ "$1" = --version ] && exit 0
build=$(sha256sum <"$0" | cut -c 1-64)
echo '{"jsonrpc":"2.0","method":"hello","params":{"protocol":"1.6","version":"0.1.0","build":"sha256:'$build'",\
"pid":1,"uid":0,"rootless":false,"state_dir":"/run/iolab","capabilities":[]}}'
while read -r line; do echo "$line" >>"$HOME/heard"; done
exit 0
"""
"""An agent that greets, and writes down what it hears."""
SHELLS = [["sh"], ["bash"], ["dash"], ["busybox", "sh"], ["zsh"], ["fish"], ["tcsh"], ["ksh"]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home folder there, whose name no shell likes; sudo is not to be had."""
    folder = tmp_path / 'it\'s a "home" $HOME'
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    use_shell(["sh"], tmp_path, monkeypatch)
    return folder


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """An agent's binary."""
    path = tmp_path / "iolab-agent"
    path.write_text(AGENT)
    path.chmod(0o755)
    return path


def use_shell(shell: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, before: str = "") -> None:
    """Let ssh stay here, and give commands to a login shell."""
    script = folder / "ssh"
    script.write_text(before + STAYING.format(shell=" ".join(shell)))
    monkeypatch.setenv("IOLAB_SSH", f"sh {script}")


@pytest.mark.parametrize("shell", [pytest.param(shell, id=shell[-1]) for shell in SHELLS])
def test_any_login_shell_copies_and_starts_the_agent(
    shell: list[str], home: Path, binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever reads the command passes it on as it is; the file is there, whole and for its owner only."""
    if shutil.which(shell[0]) is None:
        pytest.skip(f"needs {shell[0]}")
    use_shell(shell, tmp_path, monkeypatch)
    for _ in range(2):
        agent = Agent(SshTransport("pc6", binary))
        assert agent.hello.state_dir == "/run/iolab"
        assert agent.close() == ""
    (file,) = (home / ".cache/iolab").iterdir()
    assert file.read_text() == AGENT
    assert file.stat().st_mode & 0o777 == 0o700


def test_what_is_sent_arrives_and_closing_is_the_end_of_input(home: Path, binary: Path) -> None:
    """Lines arrive whole and in order; the agent ends because its input did."""
    transport = SshTransport("pc6", binary)
    assert transport.receive() is not None
    transport.send("one")
    transport.send("two")
    assert transport.close(5) == ""
    assert (home / "heard").read_text().splitlines()[:2] == ["one", "two"]


def test_an_agent_that_is_not_what_was_copied_is_refused(home: Path, binary: Path) -> None:
    """It says its digest in its greeting."""
    binary.write_text(AGENT.replace('sha256sum <"$0"', "echo 0123"))
    with pytest.raises(
        AgentError, match=r"starting the agent on pc6: the agent is build sha256:\w+, not the build"
    ):
        SshTransport("pc6", binary)


def test_an_agent_that_cannot_begin_says_why(home: Path, binary: Path) -> None:
    """Its last words are in the message."""
    binary.write_text('#!/bin/sh\n[ "$1" = --version ] || echo "the state folder is a link" >&2\n')
    with pytest.raises(
        AgentError, match=r"starting the agent on pc6: the agent exited \(the state folder is a link\)"
    ):
        SshTransport("pc6", binary)


def test_the_connection_that_ends_is_told_from_the_agent_that_ends(
    home: Path, binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed agent leaves the connection standing, and a host to clean; the advice names the host."""
    binary.write_text(AGENT.replace("do echo", 'do [ "$line" = kill ] && kill -9 $$; echo'))
    transport = SshTransport("root@pc6", binary)
    assert transport.receive() is not None
    transport.send("kill")
    assert transport.receive() is None
    assert (
        str(transport.last_words())
        == "the agent was killed; run `iolab clean --host root@pc6` to undo the remaining changes"
    )
    transport.close(5)


def test_files_are_removed_and_what_is_not_ours_stays(home: Path, binary: Path) -> None:
    """The cache folder goes when it is empty."""
    SshTransport("pc6", binary, leave_file=False).close(5)
    assert not (home / ".cache/iolab").exists()
    (home / ".cache/iolab").mkdir()
    (home / ".cache/iolab/calibration.json").write_text("{}")
    connection = SshConnection("pc6")
    remove_agents(connection)
    connection.close()
    assert [path.name for path in (home / ".cache/iolab").iterdir()] == ["calibration.json"]


STRANGER = 61_000
"""Another user of the host."""
RACES = int(os.environ.get("PUSH_RACES", "3"))
"""100 for the figure of the safety record."""
SWAP = """
import os, sys, time
shared, digest, marker, user = sys.argv[1:]
os.setgid(int(user)); os.setuid(int(user))
until = time.monotonic() + 60
while time.monotonic() < until:
    for turn in ("a", "b"):
        try:
            os.makedirs(f"{shared}/{turn}/iolab", exist_ok=True)
            planted = f"{shared}/{turn}/iolab/agent-{digest}"
            with open(f"{planted}.new", "w") as file:
                file.write(f"#!/bin/sh\\necho ran >>{marker}\\n")
            os.chmod(f"{planted}.new", 0o755)
            os.replace(f"{planted}.new", planted)
            os.rename(f"{shared}/cache", f"{shared}/old{time.monotonic_ns()}")
        except OSError:
            pass
        try:
            os.rename(f"{shared}/{turn}", f"{shared}/cache")
        except OSError:
            pass
"""
"""Puts own folders, with a program of the agent's name, in the place of the cache, again and again."""


def as_root() -> None:
    """Skip where folders of another user cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be two users")


def test_a_folder_of_another_user_never_has_its_programs_started(
    binary: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither before it is looked at nor between a look and the start."""
    as_root()
    shared = Path(tempfile.mkdtemp())
    marker = shared / "marker"
    shared.chmod(0o777)
    os.chown(shared, STRANGER, STRANGER)
    monkeypatch.setenv("XDG_CACHE_HOME", f"{shared}/cache")
    digest = hashlib.sha256(binary.read_bytes()).hexdigest()
    swap = subprocess.Popen([sys.executable, "-c", SWAP, str(shared), digest, str(marker), str(STRANGER)])
    try:
        for _ in range(RACES):
            with pytest.raises(AgentError, match=r"belongs to user|may be written|cannot be made|answer"):
                SshTransport("pc6", binary)
            assert not marker.exists()
    finally:
        swap.kill()
        swap.wait()
        shutil.rmtree(shared, ignore_errors=True)


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_a_cache_that_others_may_write_to_is_refused(home: Path, binary: Path, mode: int) -> None:
    """The folder itself; also where it is sticky, as others make files there."""
    (home / ".cache/iolab").mkdir(parents=True)
    (home / ".cache/iolab").chmod(mode)
    with pytest.raises(
        AgentError, match=r"iolab may be written by others: other users can change the folder.*chmod go-w"
    ):
        SshTransport("pc6", binary)
    (home / ".cache/iolab").chmod(0o755)
    SshTransport("pc6", binary).close(5)
    assert (home / ".cache/iolab").stat().st_mode & 0o777 == 0o700


def test_a_cache_in_a_folder_that_a_group_may_write_to_is_refused(home: Path, binary: Path) -> None:
    """Who can rename the cache decides what is in it."""
    (home / ".cache").mkdir()
    (home / ".cache").chmod(0o775)
    with pytest.raises(AgentError, match=r"cache may be written by others"):
        SshTransport("pc6", binary)


def test_a_planted_file_is_replaced_not_started(home: Path, binary: Path) -> None:
    """A link, a folder, and a file that another user may still have open for writing."""
    as_root()
    cache = home / ".cache/iolab"
    cache.mkdir(parents=True)
    file = cache / f"agent-{hashlib.sha256(binary.read_bytes()).hexdigest()}"
    for plant in ("link", "folder", "owner", "mode"):
        match plant:
            case "link":
                file.symlink_to(binary)
            case "folder":
                file.mkdir()
            case _:
                shutil.copy(binary, file)
                os.chown(file, STRANGER if plant == "owner" else 0, -1)
                file.chmod(0o755 if plant == "owner" else 0o777)
        SshTransport("pc6", binary).close(5)
        status = file.lstat()
        assert (status.st_uid, status.st_mode) == (0, stat.S_IFREG | 0o700), plant
        file.unlink()


def test_an_ssh_that_ends_at_once_is_told_with_its_words(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it said, what that means, and the command to try."""
    use_shell(["sh"], tmp_path, monkeypatch, "echo 'Host key verification failed.' >&2; exit 255\n")
    with pytest.raises(
        AgentError, match=r"connecting to pc6 with ssh: Host key .*accept it once with `sh .*/ssh pc6`"
    ):
        SshConnection("pc6")


def test_an_ssh_that_never_answers_ends_with_the_deadline(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is waited for for ever, and the process is gone."""
    use_shell(["sh"], tmp_path, monkeypatch, "exec sleep 60\n")
    began = time.monotonic()
    with pytest.raises(AgentError, match=r"no answer within 0 s"):
        SshConnection("pc6", deadline_s=0.2)
    assert time.monotonic() - began < 40


def test_an_ssh_that_is_not_installed_is_told(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is one that cannot be read."""
    monkeypatch.setenv("IOLAB_SSH", "no-such-ssh -v")
    with pytest.raises(AgentError, match=r"starting no-such-ssh: .*openssh-client"):
        SshConnection("pc6")
    monkeypatch.setenv("IOLAB_SSH", "ssh -F 'half")
    with pytest.raises(AgentError, match="reading IOLAB_SSH"):
        SshConnection("pc6")
    monkeypatch.delenv("IOLAB_SSH")
    assert ssh_command() == ("ssh",)


def test_folders_of_killed_controllers_are_swept_and_others_stay(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An empty folder goes when it is old; one that is new, or holds a socket, is in use."""
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    made = [Path(tempfile.mkdtemp(prefix="iolab-ssh-")) for _ in range(3)]
    (made[1] / "s").touch()
    for folder in made[:2]:
        os.utime(folder, (0, 0))
    SshConnection("pc6").close()
    assert [folder.exists() for folder in made] == [False, True, True]
    shutil.rmtree(made[1])
    made[2].rmdir()


def test_what_ssh_says_is_explained() -> None:
    """The line that matters is shown with its meaning; what is not known is shown as it is."""
    words = "banner\nssh: Could not resolve hostname pc6: Name or service not known\n"
    told = str(explained(words, ("ssh",), "pc6"))
    assert told.startswith("ssh: Could not resolve hostname pc6")
    assert "nor an alias" in told
    assert "banner" not in told
    assert explained("something else", ("ssh",), "pc6") == "something else"


def test_lines_come_whole_however_they_were_cut() -> None:
    """A line in pieces, two in one piece, an end without a newline, and a deadline between."""
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        lines = Lines(pipe)
        os.write(writing, b"on")
        with pytest.raises(TimeoutError):
            lines.next(time.monotonic() + 0.05)
        os.write(writing, b"e\ntwo\nthr")
        assert [lines.next(), lines.next()] == [b"one", b"two"]
        os.close(writing)
        assert lines.next() is None


def test_a_line_without_end_is_the_end_of_what_a_host_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that sends and sends takes no more memory here than the longest line."""
    monkeypatch.setattr("iolab.agent.ssh_connection.LONGEST_LINE_BYTES", 1000)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        lines = Lines(pipe)
        os.write(writing, b"x" * 900 + b"\n")
        os.write(writing, b"y" * 5000)
        assert [lines.next(), lines.next()] == [b"x" * 900, None]
        assert lines.endless
    os.close(writing)
