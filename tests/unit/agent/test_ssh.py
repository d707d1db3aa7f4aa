"""Agents over ssh, with a local stand-in for ssh: login shells, greetings, deadlines, messages."""

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
"""An ssh that passes the command to a local login shell."""
AGENT = """#!/bin/sh
[ "$1" = --version ] && exit 0
build=$(sha256sum <"$0" | cut -c 1-64)
echo '{"jsonrpc":"2.0","method":"hello","params":{"protocol":"1.6","version":"0.1.0","build":"sha256:'$build'",\
"pid":1,"uid":0,"rootless":false,"state_dir":"/run/iolab","capabilities":[]}}'
while read -r line; do echo "$line" >>"$HOME/heard"; done
exit 0
"""
"""An agent that greets, and records its input."""
SHELLS = [["sh"], ["bash"], ["dash"], ["busybox", "sh"], ["zsh"], ["fish"], ["tcsh"], ["ksh"]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a home folder with an awkward name; sudo is not available."""
    folder = tmp_path / 'it\'s a "home" $HOME'
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    use_shell(["sh"], tmp_path, monkeypatch)
    return folder


@pytest.fixture
def binary(tmp_path: Path) -> Path:
    """Write an agent binary."""
    path = tmp_path / "iolab-agent"
    path.write_text(AGENT)
    path.chmod(0o755)
    return path


def use_shell(shell: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, before: str = "") -> None:
    """Replace ssh by a local login shell."""
    script = folder / "ssh"
    script.write_text(before + STAYING.format(shell=" ".join(shell)))
    monkeypatch.setenv("IOLAB_SSH", f"sh {script}")


@pytest.mark.parametrize("shell", [pytest.param(shell, id=shell[-1]) for shell in SHELLS])
def test_agent_is_copied_and_started_under_any_login_shell(
    shell: list[str], home: Path, binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Store the file completely and for its owner only, under any shell."""
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


def test_sent_lines_arrive_complete_and_closing_ends_the_agents_input(home: Path, binary: Path) -> None:
    """Keep lines whole and in order; the agent ends because its input ended."""
    transport = SshTransport("pc6", binary)
    assert transport.receive() is not None
    transport.send("one")
    transport.send("two")
    assert transport.close(5) == ""
    assert (home / "heard").read_text().splitlines()[:2] == ["one", "two"]


def test_agent_whose_digest_differs_from_the_copied_file_is_refused(home: Path, binary: Path) -> None:
    """Compare the digest in the greeting."""
    binary.write_text(AGENT.replace('sha256sum <"$0"', "echo 0123"))
    with pytest.raises(
        AgentError, match=r"starting the agent on pc6: the agent that started is build sha256:\w+, but"
    ):
        SshTransport("pc6", binary)


def test_error_for_an_agent_that_fails_to_start_contains_its_error_output(home: Path, binary: Path) -> None:
    """Quote the last lines of its error output."""
    binary.write_text('#!/bin/sh\n[ "$1" = --version ] || echo "the state folder is a link" >&2\n')
    with pytest.raises(
        AgentError, match=r"starting the agent on pc6: the agent exited \(the state folder is a link\)"
    ):
        SshTransport("pc6", binary)


def test_killed_agent_is_distinguished_from_a_lost_connection(
    home: Path, binary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report the host to clean after a killed agent, whose connection stays open."""
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


def test_cleanup_removes_agent_files_and_keeps_other_files_in_the_cache(home: Path, binary: Path) -> None:
    """Remove the cache folder when it is empty."""
    SshTransport("pc6", binary, leave_file=False).close(5)
    assert not (home / ".cache/iolab").exists()
    (home / ".cache/iolab").mkdir()
    (home / ".cache/iolab/calibration.json").write_text("{}")
    connection = SshConnection("pc6")
    remove_agents(connection)
    connection.close()
    assert [path.name for path in (home / ".cache/iolab").iterdir()] == ["calibration.json"]


STRANGER = 61_000
"""A different user of the host."""
RACES = int(os.environ.get("PUSH_RACES", "3"))
"""Number of races; 100 for the figure of the safety record."""
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
"""Repeatedly replaces the cache by folders of its own with a program of the agent's name."""


def as_root() -> None:
    """Skip the test if folders of a different user cannot be created."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to be two users")


def test_programs_in_a_folder_of_a_different_user_are_never_started(
    binary: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refuse a folder of a different user, even if it is swapped after the check."""
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
            with pytest.raises(
                AgentError, match=r"(?:belongs to|owned by) user|may be written|cannot be created|answer"
            ):
                SshTransport("pc6", binary)
            assert not marker.exists()
    finally:
        swap.kill()
        swap.wait()
        shutil.rmtree(shared, ignore_errors=True)


@pytest.mark.parametrize("mode", [0o770, 0o777, 0o1777])
def test_cache_folder_writable_by_others_is_refused(home: Path, binary: Path, mode: int) -> None:
    """Refuse the folder itself, even with the sticky bit, because others can create files in it."""
    (home / ".cache/iolab").mkdir(parents=True)
    (home / ".cache/iolab").chmod(mode)
    with pytest.raises(
        AgentError, match=r"iolab may be written by others: other users can change the folder.*chmod go-w"
    ):
        SshTransport("pc6", binary)
    (home / ".cache/iolab").chmod(0o755)
    SshTransport("pc6", binary).close(5)
    assert (home / ".cache/iolab").stat().st_mode & 0o777 == 0o700


def test_cache_below_a_group_writable_folder_is_refused(home: Path, binary: Path) -> None:
    """Refuse it, because whoever can rename the cache decides on its contents."""
    (home / ".cache").mkdir()
    (home / ".cache").chmod(0o775)
    with pytest.raises(AgentError, match=r"cache may be written by others"):
        SshTransport("pc6", binary)


def test_planted_agent_file_is_replaced_and_not_started(home: Path, binary: Path) -> None:
    """Replace a link, a folder, and a file that a different user may have open for writing."""
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


def test_ssh_failure_is_reported_with_its_error_output_and_a_remedy(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Show the error output, its meaning, and the command to try."""
    use_shell(["sh"], tmp_path, monkeypatch, "echo 'Host key verification failed.' >&2; exit 255\n")
    with pytest.raises(
        AgentError, match=r"connecting to pc6 with ssh: Host key .*accept it once with `sh .*/ssh pc6`"
    ):
        SshConnection("pc6")


def test_unresponsive_ssh_is_ended_at_the_deadline(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wait no longer than the deadline, and end the process."""
    use_shell(["sh"], tmp_path, monkeypatch, "exec sleep 60\n")
    began = time.monotonic()
    with pytest.raises(AgentError, match=r"no answer within 0 s"):
        SshConnection("pc6", deadline_s=0.2)
    assert time.monotonic() - began < 40


def test_missing_ssh_program_and_malformed_iolab_ssh_are_reported(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report a missing program, and a value that is not a command line."""
    monkeypatch.setenv("IOLAB_SSH", "no-such-ssh -v")
    with pytest.raises(AgentError, match=r"starting no-such-ssh: .*openssh-client"):
        SshConnection("pc6")
    monkeypatch.setenv("IOLAB_SSH", "ssh -F 'half")
    with pytest.raises(AgentError, match="reading IOLAB_SSH"):
        SshConnection("pc6")
    monkeypatch.delenv("IOLAB_SSH")
    assert ssh_command() == ("ssh",)


def test_folders_of_killed_controllers_are_removed_and_used_folders_stay(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Remove an old empty folder; keep a new one, and one with a socket."""
    monkeypatch.setattr("tempfile.tempdir", "/tmp")
    made = [Path(tempfile.mkdtemp(prefix="iolab-ssh-")) for _ in range(3)]
    (made[1] / "s").touch()
    for folder in made[:2]:
        os.utime(folder, (0, 0))
    SshConnection("pc6").close()
    assert [folder.exists() for folder in made] == [False, True, True]
    shutil.rmtree(made[1])
    made[2].rmdir()


def test_known_ssh_errors_are_explained_and_unknown_ones_are_shown_unchanged() -> None:
    """Show the relevant line with its meaning, and unknown output unchanged."""
    words = "banner\nssh: Could not resolve hostname pc6: Name or service not known\n"
    told = str(explained(words, ("ssh",), "pc6"))
    assert told.startswith("ssh: Could not resolve hostname pc6")
    assert "nor an alias" in told
    assert "banner" not in told
    assert explained("something else", ("ssh",), "pc6") == "something else"


def test_lines_are_reassembled_from_any_fragments() -> None:
    """Accept a line in pieces, two in one piece, an end without a newline, and a deadline in between."""
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


def test_line_beyond_the_maximum_length_ends_the_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound the memory for a line of a host that never stops sending."""
    monkeypatch.setattr("iolab.agent.ssh_connection.LONGEST_LINE_BYTES", 1000)
    reading, writing = os.pipe()
    with os.fdopen(reading, "rb") as pipe:
        lines = Lines(pipe)
        os.write(writing, b"x" * 900 + b"\n")
        os.write(writing, b"y" * 5000)
        assert [lines.next(), lines.next()] == [b"x" * 900, None]
        assert lines.endless
    os.close(writing)
