"""Images put into a cache for tests."""

import os

from iolab.image.cache import Cache, Image, Manifest, write_manifest


def add(
    cache: Cache,
    digest: str,
    flavour: str = "linux",
    root: str = "r",
    built: str = "2026-01-01",
    added: tuple[str, ...] = (),
) -> Image:
    """Put a small image and its layers in the cache."""
    for layer in ("k", root):
        (cache.layers / layer).mkdir(parents=True, exist_ok=True)
        (cache.layers / layer / "file").write_bytes(bytes(1000))
    with cache.new_folder(cache.images / digest) as folder:
        os.link(cache.layers / root / "file", folder / "root.squashfs")
        (folder / "packages.txt").write_text("fio=3\niperf3=3.12\n")
        write_manifest(
            folder,
            Manifest(
                digest=digest, flavour=flavour, suite="bookworm", architecture="amd64", kernel_release="6.1",
                kernel_version="6.1-1", agent_sha256="a", kernel_layer="k", root_layer=root, features=("link:vlan",),
                sizes_bytes={"root.squashfs": 1000}, packages_sha256="p", built=built, build_s=1.5, added=added,
            ),
        )  # fmt: skip
    found = cache.find(digest)
    assert found is not None
    return found
