"""Failing builds: killed half-way, without a network, without space. Each build has a separate cache."""

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
        # Ctrl-C must reach the build even if the tests run in a script's background.
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
    """Return the processes with a folder as working directory or among their arguments."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(process.name) != os.getpid():
            found.append(words.replace("\0", " "))
    return found


def test_killed_build_leaves_no_image_and_no_process(tmp_path: Path) -> None:
    """Delete the remains at the next lock of the cache."""
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


def test_interrupted_build_leaves_nothing_in_the_cache(tmp_path: Path) -> None:
    """Exit with code 4 after Ctrl-C."""
    cache = Cache(tmp_path / "iolab")
    build = begin(tmp_path)
    wait_until_unpacking(cache.folder)
    build.send_signal(signal.SIGINT)
    _, said = build.communicate(timeout=PATIENCE_S)
    assert build.returncode == ExitCode.INTERRUPTED
    assert "interrupted" in said
    assert list(cache.layers.iterdir()) == []


def test_build_without_a_network_reports_the_unreachable_archive(tmp_path: Path) -> None:
    """Report the archive at once, with a remedy."""
    build = begin(tmp_path, "unshare", "--net")
    _, said = build.communicate(timeout=PATIENCE_S)
    assert build.returncode == ExitCode.HOST_CANNOT
    assert "fetching the Debian package lists" in said
    assert "check the network connection" in said
    assert "Traceback" not in said


def test_build_without_disk_space_is_refused_before_it_begins(tmp_path: Path) -> None:
    """Report available space, required space, and the place."""
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
    assert "select a different folder with XDG_CACHE_HOME" in said


def test_build_without_required_programs_names_their_packages(tmp_path: Path) -> None:
    """List all missing packages in one message."""
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
