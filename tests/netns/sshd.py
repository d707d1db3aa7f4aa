"""A remote host for tests: separate namespaces with a real sshd in them, reached over a veth pair.

It has its own /run, home folder, accounts, keys and links; it shares the kernel. Changes made by a test end with it.
"""

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

from tests.netns.runs import PATIENCE_S, until

from iolab.agent.client import Agent
from iolab.agent.ssh import SshTransport
from iolab.agent.transport import find_agent

SSHD = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
CONTROLLER, HOST_NETWORK = "198.18.250.1", "198.18.250"
INSIDE = "/run/host"
"""Path of a host's folder inside the host, because the host's users could not reach a folder below a temporary
folder."""
ACCOUNTS = """root:*:0:0:root:/run/host/home:/bin/bash
user:*:1000:1000:user:/run/host/user:/bin/sh
sshd:*:105:65534::/run/sshd:/bin/false
"""
CONFIG = """
Port 22
ListenAddress {address}
HostKey /run/host/host_key
AuthorizedKeysFile /run/host/authorized_keys
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PrintMotd no
{more}
"""
BEGIN = """
mount --make-rprivate / && mount -t tmpfs tmpfs /run && mkdir -p /run/sshd /run/netns /run/host
chmod 755 /run /run/sshd && mount --bind {folder} /run/host
mount --bind /run/host/passwd /etc/passwd && mount -t sysfs sysfs /sys && ip link set lo up
{prepare}
echo ready
exec sleep 600
"""


class Network:
    """The controller's side: a network namespace from which ssh is started, and the bridge of its hosts."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)
        self._keeper = keeper(["unshare", "--net"], "ip link set lo up && echo ready && exec sleep 600")
        self.inside(
            f"ip link add hosts type bridge && ip addr add {CONTROLLER}/24 dev hosts && ip link set hosts up"
        )
        keygen(folder / "key")
        self.config = folder / "config"
        self.config.write_text(
            f"IdentityFile {folder}/key\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known_hosts\n"
            "GlobalKnownHostsFile none\n"
        )
        self.hosts: list[SshHost] = []

    @property
    def pid(self) -> int:
        """Return the PID of a process in the namespace."""
        return self._keeper.pid

    @property
    def ssh(self) -> str:
        """Return the ssh command that starts in the namespace, for IOLAB_SSH."""
        return f"nsenter --net=/proc/{self.pid}/ns/net ssh -F {self.config}"

    def inside(self, script: str) -> str:
        """Run a script in the namespace."""
        return run(["nsenter", f"--net=/proc/{self.pid}/ns/net", "sh", "-ec", script])

    def host(self, name: str, more: str = "", prepare: str = "", *, known: bool = True) -> "SshHost":
        """Add a host."""
        host = SshHost(self, name, len(self.hosts) + 2, more, prepare)
        self.hosts.append(host)
        with self.config.open("a") as config:
            config.write(f"Host {name}\n HostName {host.address}\n User root\n")
        if known:
            with (self.folder / "known_hosts").open("a") as keys:
                keys.write(f"{host.address} {(host.folder / 'host_key.pub').read_text()}")
        return host

    def cable(self, one: "SshHost", other: "SshHost", interface: str) -> None:
        """Connect two hosts by a separate cable."""
        ends = [["netns", str(host.pid)] for host in (one, other)]
        run(["ip", "link", "add", interface, *ends[0], "type", "veth", "peer", interface, *ends[1]])
        for host in (one, other):
            host.inside(f"ip link set {interface} up")

    def close(self) -> None:
        """End every host and the namespace."""
        for host in self.hosts:
            host.close()
        end(self._keeper)


class SshHost:
    """One host with its sshd."""

    def __init__(self, network: Network, name: str, number: int, more: str, prepare: str) -> None:
        self.name, self.address = name, f"{HOST_NETWORK}.{number}"
        self.folder = network.folder / name
        self.home, self.users_home = self.folder / "home", self.folder / "user"
        self._network = network
        for folder in (self.folder, self.home, self.users_home):
            folder.mkdir()
        os.chown(self.users_home, 1000, 1000)
        keygen(self.folder / "host_key")
        shutil.copy(network.folder / "key.pub", self.folder / "authorized_keys")
        self.folder.chmod(0o755)
        (self.folder / "passwd").write_text(ACCOUNTS)
        settings = CONFIG.format(address=self.address, more=more)
        (self.folder / "sshd_config").write_text(settings)
        script = BEGIN.format(folder=self.folder, prepare=prepare)
        self._keeper = keeper(["unshare", "--net", "--mount"], script)
        link = f"to-{name}"
        run(
            [
                "ip",
                "link",
                "add",
                link,
                "netns",
                str(network.pid),
                "type",
                "veth",
                "peer",
                "eth0",
                "netns",
                str(self.pid),
            ]
        )
        network.inside(f"ip link set {link} master hosts up")
        self.inside(f"ip addr add {self.address}/24 dev eth0 && ip link set eth0 up")
        self.start()

    @property
    def pid(self) -> int:
        """Return the PID of a process in its namespaces."""
        return self._keeper.pid

    @property
    def cache(self) -> Path:
        """Return the folder to which root's agent is copied."""
        return self.home / ".cache/iolab"

    def inside(self, script: str) -> str:
        """Run a script on the host, as root."""
        return run(["nsenter", "-t", str(self.pid), "--net", "--mount", "sh", "-ec", script])

    def start(self) -> None:
        """Start sshd and wait until it listens."""
        assert SSHD is not None
        argv = [
            "nsenter",
            "-t",
            str(self.pid),
            "--net",
            "--mount",
            SSHD,
            "-D",
            "-e",
            "-f",
            f"{self.folder}/sshd_config",
        ]
        with (self.folder / "log").open("ab") as log:
            self._sshd = subprocess.Popen(argv, stdout=log, stderr=log, start_new_session=True)
        until(lambda: self.inside("ss -Hltn sport = :22"), never=f"no sshd listens; see {self.folder}/log")

    def cut(self) -> None:
        """Unplug the cable: the link goes down, and no program is notified."""
        self._network.inside(f"ip link set to-{self.name} down")

    def mend(self) -> None:
        """Plug the cable in again, and wait until the network reaches the host."""
        self._network.inside(f"ip link set to-{self.name} up")
        asked = f"bash -c ': </dev/tcp/{self.address}/22' 2>/dev/null && echo yes || true"
        until(lambda: self._network.inside(asked), never=f"{self.name} is not found again")

    def processes(self, word: str = "iolab") -> list[int]:
        """Return the host's processes whose command line contains the word."""
        own = Path(f"/proc/{self.pid}/ns/mnt").readlink()
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes().decode(errors="replace")
                if word in command and (entry / "ns/mnt").readlink() == own:
                    found.append(int(entry.name))
        return found

    def agents(self) -> list[int]:
        """Return the agents that run on the host, without the programs that start them."""
        found = []
        for pid in self.processes("--silence-s"):
            with contextlib.suppress(OSError):  # the process has ended in the meantime
                if Path(f"/proc/{pid}/exe").readlink().name.startswith("agent-"):
                    found.append(pid)
        return found

    def names(self) -> list[str]:
        """Return the names of all processes on the host."""
        found = []
        for pid in self.processes(""):
            with contextlib.suppress(OSError):  # the process has ended in the meantime
                found.append(Path(f"/proc/{pid}/comm").read_text().strip())
        return found

    def kill(self, word: str) -> None:
        """Kill the host's processes whose command line contains the word, but not the keeper of the namespaces."""
        for pid in self.processes(word):
            if pid != self.pid:
                with contextlib.suppress(ProcessLookupError):  # the process has ended in the meantime
                    os.kill(pid, signal.SIGKILL)

    def crash(self) -> None:
        """Stop everything at once, like a reset: processes, contents of /run, created objects."""
        self.kill("")
        self._sshd.wait()
        self.inside("for name in $(ls /run/netns); do ip netns del $name; done; rm -rf /run/iolab")

    def close(self) -> None:
        """Remove the host."""
        self.kill("")
        self._sshd.wait()
        end(self._keeper)


def reach(destination: str, **options: bool) -> Agent:
    """Return an agent on the host."""
    return Agent(SshTransport(destination, find_agent(), **options), name="pc6")


def make_lab(agent: Agent) -> None:
    """Change the host: a namespace, and a link whose undo is journalled."""
    agent.call("netns.create", {"name": "iolab-far"})
    undo = {"kind": "command", "argv": ["ip", "link", "del", "iolab0"]}
    made = agent.run(["ip", "link", "add", "iolab0", "type", "dummy"], undo=undo, undo_key="link:iolab0")
    assert made.succeeded or agent.run(["ip", "link", "add", "iolab0", "type", "bridge"]).succeeded


def changes(host: SshHost) -> str:
    """Return the existing changes of `make_lab`."""
    return host.inside("ls /run/netns; ip -o link | grep -o iolab0 | head -n 1")


def keeper(into: list[str], script: str) -> subprocess.Popen[str]:
    """Return a process that keeps namespaces alive, after it has reported that they are ready."""
    process = subprocess.Popen([*into, "sh", "-ec", script], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def end(process: subprocess.Popen[str]) -> None:
    """End a process of the tests."""
    process.kill()
    process.wait()


def keygen(path: Path) -> None:
    """Make a key."""
    run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(path)])


def run(argv: list[str]) -> str:
    """Run a command that must succeed; return its output."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=PATIENCE_S)
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout
