"""Guest images: built from Debian packages, kept in the user's cache, found by what they are made of."""

from iolab.image.build import build, find
from iolab.image.cache import Cache, Image, Manifest, default_cache

__all__ = ["Cache", "Image", "Manifest", "build", "default_cache", "find"]
