"""Building goes wrong: killed half-way, without a network, without room. Each in a cache of the test's own."""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

from tests.netns.runs import PATIENCE_S, until

from iolab.errors import ExitCode
from iolab.image.cache import UNFINISHED, Cache

IOLAB = Path(sys.executable).with_name("iolab")


def begin(cache: Path, *prefix: str) -> subprocess.Popen[str]:
    """Start a build into this cache."""
    return subprocess.Popen(
        # Ctrl-C shall reach it even where the tests themselves run in a script's background.
        [*prefix, "env", "--default-signal=INT", str(IOLAB), "image", "build"],
        env={**os.environ, "XDG_CACHE_HOME": str(cache)},
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_until_unpacking(folder: Path) -> None:
    """Wait until the kernel's package is there."""
    until(lambda: any(folder.glob(f"layers/{UNFINISHED}*/tmp*/*.deb")), never="no package came")


def processes_in(folder: Path) -> list[str]:
    """Return the processes that work in a folder, or have it among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(process.name) != os.getpid():
            found.append(words.replace("\0", " "))
    return found


def test_a_build_killed_half_way_leaves_no_image_and_no_process(tmp_path: Path) -> None:
    """kill -9; what lies about is deleted by the next command that locks the cache."""
    cache = Cache(tmp_path / "iolab")
    build = begin(tmp_path)
    wait_until_unpacking(cache.folder)
    build.kill()
    build.communicate()
    until(lambda: not processes_in(tmp_path))
    assert cache.list_images() == ()
    assert list(cache.layers.iterdir()) != []
    with cache.locked(print):
        assert list(cache.layers.iterdir()) == []


def test_an_interrupted_build_cleans_up_after_itself(tmp_path: Path) -> None:
    """Ctrl-C: exit code 4, nothing in the cache."""
    cache = Cache(tmp_path / "iolab")
    build = begin(tmp_path)
    wait_until_unpacking(cache.folder)
    build.send_signal(signal.SIGINT)
    _, said = build.communicate(timeout=PATIENCE_S)
    assert build.returncode == ExitCode.INTERRUPTED
    assert "interrupted" in said
    assert list(cache.layers.iterdir()) == []


def test_without_a_network_the_archive_is_not_reached(tmp_path: Path) -> None:
    """It says so at once, with what to look at."""
    build = begin(tmp_path, "unshare", "--net")
    _, said = build.communicate(timeout=PATIENCE_S)
    assert build.returncode == ExitCode.HOST_CANNOT
    assert "fetching the lists of Debian packages" in said
    assert "is there a network" in said
    assert "Traceback" not in said


def test_without_room_nothing_is_begun(tmp_path: Path) -> None:
    """The message has what is free, what is needed, and where."""
    mount = [
        "unshare",
        "--mount",
        "sh",
        "-c",
        'mount -t tmpfs -o size=50m small "$0" && exec "$@"',
        str(tmp_path),
    ]
    build = begin(tmp_path, *mount)
    _, said = build.communicate(timeout=PATIENCE_S)
    assert build.returncode == ExitCode.HOST_CANNOT
    assert "1500 MB are needed" in said
    assert "XDG_CACHE_HOME names another place" in said


def test_without_the_programs_their_packages_are_named(tmp_path: Path) -> None:
    """All of them in one message."""
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("apt-get", "apt-cache", "dpkg-deb", "setpriv", "unshare"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path), "PATH": str(programs)}
    script = (
        "import iolab.image.programs as p; p.SYSTEM_PATHS = ''; import sys; from iolab.cli.main import run; "
    )
    script += "sys.exit(run(['image', 'build']))"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert done.returncode == ExitCode.HOST_CANNOT
    assert "install the Debian packages kmod mmdebstrap squashfs-tools" in done.stderr
