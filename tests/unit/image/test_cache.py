"""The image cache: finds complete images, removes shared layers with the last image, and excludes concurrent builds."""

import multiprocessing
from pathlib import Path

import pytest
from tests.unit.image.cached import add

from iolab.errors import InputError
from iolab.image.cache import UNFINISHED, Cache
from iolab.locale import Phrase, Text


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    """Provide an empty cache."""
    return Cache(tmp_path / "cache")


def test_image_is_read_back_as_written(cache: Cache) -> None:
    """Compare manifest, packages and size."""
    image = add(cache, "abc")
    assert image.manifest.features == ("link:vlan",)
    assert image.packages == ("fio=3", "iperf3=3.12")
    assert image.size_bytes == 1000
    assert image.xen is None


def test_images_are_listed_newest_first(cache: Cache) -> None:
    """Sort by build date, not by name."""
    add(cache, "aa", built="2026-01-01")
    add(cache, "bb", built="2026-01-03")
    add(cache, "cc", built="2026-01-02")
    assert [image.manifest.digest for image in cache.list_images()] == ["bb", "cc", "aa"]


def test_incomplete_image_is_not_listed(cache: Cache) -> None:
    """Name a folder only after the block succeeds; leave nothing after a failure."""

    class DiskFullError(Exception):
        pass

    def fill() -> None:
        with cache.new_folder(cache.images / "abc") as folder:
            (folder / "vmlinux").write_bytes(b"half")
            assert cache.list_images() == ()
            raise DiskFullError

    with pytest.raises(DiskFullError):
        fill()
    assert list(cache.images.iterdir()) == []


def test_leftovers_of_a_killed_build_are_deleted_by_the_next_build(cache: Cache) -> None:
    """Delete only unfinished folders."""
    add(cache, "abc")
    (cache.images / f"{UNFINISHED}x" / "deep").mkdir(parents=True)
    (cache.layers / f"{UNFINISHED}old-r").mkdir()
    with cache.locked(print):
        pass
    assert [path.name for path in cache.images.iterdir()] == ["abc"]
    assert sorted(path.name for path in cache.layers.iterdir()) == ["k", "r"]


@pytest.mark.parametrize("text", ["", "{}", '{"schema": 2}', "\xff", '{"digest": 3}'])
def test_image_with_a_damaged_manifest_is_ignored(cache: Cache, text: str) -> None:
    """Rebuild it when it is needed."""
    image = add(cache, "abc")
    (image.folder / "image.json").write_text(text, encoding="latin-1")
    assert cache.find("abc") is None
    assert cache.list_images() == ()


def test_rebuilt_image_replaces_the_old_image(cache: Cache) -> None:
    """Keep one folder per digest, without the old content."""
    add(cache, "abc", built="2026-01-01")
    add(cache, "abc", built="2026-02-02")
    (image,) = cache.list_images()
    assert image.manifest.built == "2026-02-02"
    assert [path.name for path in cache.images.iterdir()] == ["abc"]


def test_image_layer_is_kept_while_an_image_needs_it(cache: Cache) -> None:
    """Remove a shared kernel with the second flavour; count shared files once."""
    first, second = add(cache, "aa", root="r1"), add(cache, "bb", flavour="xen", root="r2")
    assert cache.remove((first,)) >= 1000
    assert sorted(path.name for path in cache.layers.iterdir()) == ["k", "r2"]
    cache.remove((second,))
    assert list(cache.layers.iterdir()) == []
    assert list(cache.images.iterdir()) == []


def test_images_are_selected_by_flavour_or_digest_prefix(cache: Cache) -> None:
    """Expand a flavour to all its images, without duplicates."""
    add(cache, "a1"), add(cache, "a2"), add(cache, "b1", flavour="xen")
    assert {image.manifest.digest for image in cache.choose(("linux", "a1"))} == {"a1", "a2"}
    assert {image.manifest.digest for image in cache.choose(("b",))} == {"b1"}


def test_unknown_image_names_are_all_reported_at_once(cache: Cache) -> None:
    """List the existing images."""
    add(cache, "a1")
    with pytest.raises(InputError) as raised:
        cache.choose(("x", "", "a1"))
    assert len(raised.value.problems) == 2
    assert "linux (a1)" in str(raised.value)


def hold(
    folder: Path, held: "multiprocessing.synchronize.Event", release: "multiprocessing.synchronize.Event"
) -> None:
    """Hold the lock in another process."""
    with Cache(folder).locked(print):
        held.set()
        release.wait(20)


def test_second_image_build_waits_for_the_first(cache: Cache) -> None:
    """Report the wait, and continue after the first build."""
    context = multiprocessing.get_context("fork")
    held, release = context.Event(), context.Event()
    other = context.Process(target=hold, args=(cache.folder, held, release))
    other.start()
    assert held.wait(20)
    told: list[Text] = []

    def waits(text: Text) -> None:
        told.append(text)
        release.set()

    with cache.locked(waits):
        other.join(20)
    assert told == [Phrase("image.waiting-for-build")]
    assert other.exitcode == 0
