"""Files of concatenated zstd frames that end with a footer; `zstd -d` reads them too, and skips the footer.

The codec is pyarrow's; pyarrow is slow to import, so it is imported only for files in this form.
"""

import json
import os
import struct
from pathlib import Path
from typing import IO, Any

from iolab.locale import Phrase
from iolab.untrusted_json import read_untrusted

LEVEL = 6
"""Compression level; higher levels make lines of trials less than 3 % smaller."""
SKIPPABLE = 0x184D2A50
"""Magic number of a frame that decompressors skip (RFC 8878, section 3.1.2)."""
MAX_FOOTER = 1 << 20
"""Maximum size of a footer [bytes]; a larger footer was not written by iolab."""
_HEAD, _SIZE = struct.Struct("<II"), struct.Struct("<I")


def compressed(data: bytes) -> bytes:
    """Return data as one zstd frame."""
    import pyarrow as pa

    frame: bytes = pa.Codec("zstd", compression_level=LEVEL).compress(data, asbytes=True)
    return frame


def decompressed(frame: bytes, size: int) -> bytes:
    """Return the content of one frame.

    Raises:
        OSError: the frame is damaged, or its content is larger than `size`.
    """
    import pyarrow as pa

    content: bytes = pa.decompress(frame, decompressed_size=size, codec="zstd", asbytes=True)
    return content


def skippable(content: bytes) -> bytes:
    """Return a frame that decompressors skip."""
    return _HEAD.pack(SKIPPABLE, len(content)) + content


def footer(values: dict[str, Any]) -> bytes:
    """Return the footer of a file; the footer's last four bytes contain the size of its values."""
    text = json.dumps(values, separators=(",", ":")).encode()
    return skippable(text + _SIZE.pack(len(text)))


def read_footer(file: IO[bytes]) -> tuple[dict[str, Any], int]:
    """Return the values of a file's footer, and the place of the footer's first byte.

    Raises:
        ValueError: the file does not end with a footer, because the file is truncated or was written by a different
            program.
    """
    end = file.seek(0, os.SEEK_END)
    around = _HEAD.size + _SIZE.size
    file.seek(max(0, end - _SIZE.size))
    length = _SIZE.unpack(file.read(_SIZE.size))[0] if end >= around else MAX_FOOTER + 1
    begin = end - around - length
    if length > MAX_FOOTER or begin < 0:
        raise ValueError(Phrase("store.no-footer"))
    file.seek(begin)
    magic, size = _HEAD.unpack(file.read(_HEAD.size))
    if (magic, size) != (SKIPPABLE, length + _SIZE.size):
        raise ValueError(Phrase("store.no-footer"))
    values = read_untrusted(file.read(length))
    if not isinstance(values, dict):
        raise ValueError(Phrase("store.no-footer"))
    return values, begin


def whole_number(values: dict[str, Any], name: str) -> int:
    """Return a size or count that a footer contains.

    Raises:
        ValueError: the value is missing, negative or not a whole number.
    """
    value = values.get(name)
    if type(value) is not int or value < 0:
        raise ValueError(Phrase("store.no-footer"))
    return value


def sync_folder(path: Path) -> None:
    """Sync a folder to make its entries durable: without its directory entry, even a synced file is lost."""
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
