"""Guest images and the QEMU that starts them: built from Debian packages, stored in the user's cache."""

from iolab.image.build import build, find
from iolab.image.cache import Cache, Image, Manifest, default_cache
from iolab.image.emulator import Emulator, build_qemu, find_cached_qemu, find_qemu
from iolab.image.recipe import read_recipe

__all__ = [
    "Cache",
    "Emulator",
    "Image",
    "Manifest",
    "build",
    "build_qemu",
    "default_cache",
    "find",
    "find_cached_qemu",
    "find_qemu",
    "read_recipe",
]
