"""`iolab image`: exit codes and messages, in a cache of the test's own."""

import json
import os
import time
from pathlib import Path

import pytest
from tests.unit.image.cached import add

from iolab.cli.main import run
from iolab.errors import ExitCode
from iolab.image import Cache
from iolab.image.cache import UNUSED_S
from iolab.image.programs import demand, pipe
from iolab.image.programs import run as run_program


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cache:
    """Return this test's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return Cache(tmp_path / "iolab")


def test_an_unknown_flavour_is_refused_before_anything_is_built(
    capsys: pytest.CaptureFixture[str], cache: Cache
) -> None:
    """With what is allowed; the right name beside it is not built."""
    assert run(["image", "build", "linux", "windows"]) == ExitCode.INPUT_WRONG
    complaint = capsys.readouterr().err
    assert "'windows'" in complaint
    assert "linux, linux-cloud, linux-backports, nested, xen, host, qemu" in complaint
    assert not cache.folder.exists()


def test_an_empty_cache_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """With what makes an image."""
    assert run(["image", "list"]) == ExitCode.DONE
    assert "run `iolab image build` to build one" in capsys.readouterr().out


def test_images_are_listed_for_readers_and_for_programs(
    capsys: pytest.CaptureFixture[str], cache: Cache
) -> None:
    """The table has flavour and digest; JSON has all of the manifest."""
    image = add(cache, "abc")
    assert run(["image", "list"]) == ExitCode.DONE
    assert "abc" in capsys.readouterr().out
    assert run(["image", "list", "--json"]) == ExitCode.DONE
    document = json.loads(capsys.readouterr().out)
    assert document["images"][0]["folder"] == str(image.folder)
    assert document["images"][0]["features"] == ["link:vlan"]


def test_images_are_removed_by_name(capsys: pytest.CaptureFixture[str], cache: Cache) -> None:
    """It says what was freed; a name that fits nothing removes nothing."""
    add(cache, "abc"), add(cache, "def", flavour="xen")
    assert run(["image", "remove", "xen", "nothing"]) == ExitCode.INPUT_WRONG
    assert len(cache.list_images()) == 2
    assert run(["image", "remove", "xen"]) == ExitCode.DONE
    assert "freed" in capsys.readouterr().out
    assert [image.manifest.digest for image in cache.list_images()] == ["abc"]
    assert run(["image", "remove", "--all"]) == ExitCode.DONE
    assert cache.list_images() == ()


def test_a_flavour_is_removed_with_all_its_digests(cache: Cache) -> None:
    """Older ones are of older recipes and agents, which nobody asks for any more."""
    add(cache, "abc"), add(cache, "def", built="2025-01-01"), add(cache, "123", flavour="xen")
    assert run(["image", "remove", "linux"]) == ExitCode.DONE
    assert [image.manifest.flavour for image in cache.list_images()] == ["xen"]


def test_what_nobody_used_for_a_month_goes_when_an_image_is_built(
    capsys: pytest.CaptureFixture[str], cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so; the one that was asked for stays however old it is, and so does one that a guest was started from."""
    asked, used, unused = add(cache, "abc"), add(cache, "def", root="r2"), add(cache, "123", root="r3")
    for image in (asked, used, unused):
        os.utime(image.folder, times=(time.time() - UNUSED_S - 60,) * 2)
    used.mark_used()
    monkeypatch.setattr("iolab.cli.image.build", lambda *_, **__: asked)
    assert run(["image", "build", "linux"]) == ExitCode.DONE
    assert "removed linux 123" in capsys.readouterr().err
    assert {image.manifest.digest for image in cache.list_images()} == {"abc", "def"}
    assert not (cache.layers / "r3").exists()


@pytest.mark.parametrize("arguments", [[], ["linux", "--all"]])
def test_what_to_remove_is_said_in_one_way(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Names or --all: never nothing, never both."""
    assert run(["image", "remove", *arguments]) == ExitCode.INPUT_WRONG
    assert "image names or --all" in capsys.readouterr().err


def test_missing_programs_are_named_with_their_packages() -> None:
    """All of them at once; the packages are those of Debian."""
    with pytest.raises(
        Exception, match=r"no mksquashfs-x, depmod-x.*install the Debian packages depmod-x mksquashfs-x"
    ):
        demand(["sh", "mksquashfs-x", "depmod-x"], "building")


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("echo gone wrong >&2; exit 3", "status 3: gone wrong"),
        ("exit 4", "status 4: it said nothing"),
        ("echo 'E: Temporary failure resolving x'; exit 100", "is there a network"),
        ("echo 'write: No space left on device'; exit 1", "make room"),
    ],
)
def test_a_failed_program_is_told_with_its_last_words(script: str, told: str) -> None:
    """And with what to do where that is known."""
    with pytest.raises(Exception, match=told):
        run_program(["sh", "-c", script], "trying")


@pytest.mark.parametrize(("first", "second"), [("exit 7", "cat"), ("echo hello", "cat >&2; exit 7")])
def test_a_pipe_fails_when_either_end_does(first: str, second: str, tmp_path: Path) -> None:
    """A root whose maker failed is never taken for complete."""
    with pytest.raises(Exception, match="status 7"):
        pipe(["sh", "-c", first], ["sh", "-c", second], "trying", tmp_path / "log")
