"""An ordinary user for tests: an account, a sudo rule for one command, and private mounts."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.netns.runs import PATIENCE_S
from tests.netns.sshd import end, keeper, run

from iolab.agent.client import Agent
from iolab.agent.transport import LocalTransport, find_agent

UID, STRANGER = 1000, 1001
OPENER = "/usr/local/libexec/iolab-agent"
ALLOWED = f"user ALL=(root) NOPASSWD: {OPENER} open-macvtap"
ACCOUNTS = f"""root:*:0:0:root:/root:/bin/sh
user:*:{UID}:{UID}:user:/run/user:/bin/sh
stranger:*:{STRANGER}:{STRANGER}:stranger:/run/user:/bin/sh
"""
PYTHON = Path(sys.executable).resolve()
"""A Python that others may start: the tests' own may be in a closed folder."""
BEGIN = """
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run
mkdir -p /run/netns /run/local /run/cache && mkdir -m 700 /run/user && chown {uid}:{uid} /run/user
cp {agent} /run/agent && chmod 755 /run/agent
mount --bind /usr/local /run/local && mount -t tmpfs -o mode=755 tmpfs /usr/local
for folder in /run/local/*/; do
    mkdir /usr/local/$(basename $folder) && mount --bind $folder /usr/local/$(basename $folder)
done
mkdir -p /usr/local/libexec && mount -t tmpfs -o mode=755 tmpfs /usr/local/libexec
cp {agent} {opener} && chmod 755 {opener}
cp {folder}/passwd {folder}/sudoers /run && chmod 440 /run/sudoers
mount --bind /run/passwd /etc/passwd && mount --bind /run/sudoers /etc/sudoers
mkdir -p {cache} && mount --bind {cache} /run/cache
mount -t tmpfs -o mode=755 tmpfs {home} && mkdir -p {cache} && mount --bind /run/cache {cache}
echo ready
exec sleep 600
"""
"""Makes the home folder accessible, with only the guest images in it."""


def is_possible() -> bool:
    """Return whether this computer meets the requirements of such a user, who cannot see root's home folder."""
    return shutil.which("sudo") is not None and os.geteuid() == 0 and not PYTHON.is_relative_to(Path.home())


class OrdinaryUser:
    """One user, for the duration of the test."""

    def __init__(self, folder: Path, sudoers: str = ALLOWED) -> None:
        self._folder = folder
        folder.mkdir()
        (folder / "passwd").write_text(ACCOUNTS)
        (folder / "sudoers").write_text(f"Defaults use_pty\n{sudoers}\n")
        home = Path.home()
        places = {"home": home, "cache": home / ".cache/iolab", "folder": folder, "agent": find_agent()}
        script = BEGIN.format(uid=UID, opener=OPENER, **places)
        self._keeper = keeper(["unshare", "--mount"], script)

    @property
    def inside(self) -> list[str]:
        """Return the prefix that runs a command of root in the user's mount namespace."""
        return ["nsenter", "-t", str(self._keeper.pid), "--mount"]

    def argv(self, *words: object, uid: int = UID) -> list[str]:
        """Return the command that starts a program as this or a different user."""
        identity = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]
        clean = ["env", "-i", f"PATH={os.environ['PATH']}", "HOME=/run/user", "XDG_RUNTIME_DIR=/run/user"]
        return [*self.inside, *identity, *clean, *map(str, words)]

    def run(self, *words: object) -> subprocess.CompletedProcess[str]:
        """Run a program as the user."""
        return subprocess.run(self.argv(*words), capture_output=True, text=True, timeout=PATIENCE_S)

    def namespace(self, script: str, uid: int = UID) -> tuple[subprocess.Popen[str], str]:
        """Create a network namespace of a user; return its keeper, and a file of it that everybody may open."""
        into = self.argv("unshare", "--user", "--net", "--map-root-user", uid=uid)
        process = keeper(into, f"{script}; echo ready; exec sleep 600")
        name = f"/run/netns/of-{process.pid}"
        bind = f": >{name}; mount --bind /proc/{process.pid}/ns/net {name}"
        run([*self.inside, "sh", "-ec", bind])
        return process, name

    def agent(self) -> Agent:
        """Start an agent as the user."""
        start = self._folder / "start"
        start.write_text(f"#!/bin/sh\nexec {' '.join(self.argv('/run/agent'))}\n")
        start.chmod(0o755)
        return Agent(LocalTransport(start))

    def close(self) -> None:
        """Remove the user."""
        end(self._keeper)
