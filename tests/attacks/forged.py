"""Archives as no honest program writes them, made without the code under test."""

import contextlib
import struct
import tracemalloc
import zlib

LOCAL = (
    "<4s5H3I2H",
    "signature needed flags method time date crc stored size name_length extra_length".split(),
)
CENTRAL = (
    "<4s6H3I5H2I",
    (
        "signature made_by needed flags method time date crc stored size name_length "
        "extra_length comment_length disk internal external offset"
    ).split(),
)
END = ("<4s4H2IH", "signature disk first_disk here count size offset comment_length".split())


def record(layout, **fields):
    """Return the bytes of a record from its fields by name; those not given are 0."""
    form, names = layout
    unknown = set(fields) - set(names)
    assert not unknown, unknown
    kinds = struct.Struct(form)
    values = [fields.get(name, b"" if name == "signature" else 0) for name in names]
    return kinds.pack(*values)


class Entry:
    """One member.

    What `local` and `central` hold replaces fields of the one header or the
    other; `before` and `after` are bytes around the member that the directory
    does not speak of; `offset` is where the directory says that it begins.
    """

    def __init__(
        self,
        name="W.npy",
        data=b"",
        *,
        packed=None,
        local=(),
        central=(),
        local_name=None,
        extra=b"",
        central_extra=b"",
        before=b"",
        after=b"",
        offset=None,
    ):
        self.name = name if isinstance(name, bytes) else name.encode()
        self.local_name = self.name if local_name is None else local_name
        self.stored = data if packed is None else packed
        self.common = {
            "needed": 20,
            "date": 0x21,
            "flags": 0 if self.name.isascii() else 0x800,
            "method": 0 if packed is None else 8,
            "crc": zlib.crc32(data),
            "size": len(data),
            "stored": len(self.stored),
        }
        self.changes = dict(local), dict(central)
        self.extras = extra, central_extra
        self.before, self.after, self.offset = before, after, offset

    def local_part(self):
        fields = {
            **self.common,
            "signature": b"PK\x03\x04",
            "name_length": len(self.local_name),
            "extra_length": len(self.extras[0]),
            **self.changes[0],
        }
        return record(LOCAL, **fields) + self.local_name + self.extras[0] + self.stored

    def central_part(self, offset):
        fields = {
            **self.common,
            "signature": b"PK\x01\x02",
            "made_by": 0x314,
            "name_length": len(self.name),
            "extra_length": len(self.extras[1]),
            "offset": offset if self.offset is None else self.offset,
            **self.changes[1],
        }
        return record(CENTRAL, **fields) + self.name + self.extras[1]


def archive(*entries, prefix=b"", before_end=b"", comment=b"", marked=False, end=()):
    """Return an archive of the entries, with our mark at its end if asked for."""
    content = bytearray(prefix)
    directory = b""
    for entry in entries:
        content += entry.before
        directory += entry.central_part(len(content))
        content += entry.local_part() + entry.after
    fields = {
        "signature": b"PK\x05\x06",
        "here": len(entries),
        "count": len(entries),
        "size": len(directory),
        "offset": len(content),
        "comment_length": 34 if marked else len(comment),
        **dict(end),
    }
    tail = directory + before_end + record(END, **fields)
    if marked:
        comment = b"blocks_checkpoint 1 crc32=%08x" % zlib.crc32(tail)
    return bytes(content + tail + comment)


def npy(descr="'<f4'", shape="(3,)", data=bytes(12), order="False", header=None):
    """Return an NPY file whose header says what it is told to."""
    if header is None:
        header = f"{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}, }}"
    raw = header.encode()
    raw = raw.ljust(-(-(len(raw) + 11) // 64) * 64 - 11) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(raw)) + raw + data


def deflated(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


@contextlib.contextmanager
def memory_within(limit):
    """Fail if Python and numpy take more than `limit` bytes at any time."""
    tracemalloc.start()
    try:
        yield
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak <= limit, f"{peak} bytes of memory were taken"
