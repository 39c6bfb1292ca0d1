import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from blocks_checkpoint.archive import zip_structures as zs

GIB4 = 1 << 32
SIZES = st.one_of(
    st.integers(0, 1 << 20), st.integers(GIB4 - (1 << 23), GIB4 + 10), st.integers(0, 1 << 62)
)


@settings(max_examples=200, deadline=None)
@given(
    name=st.text(min_size=1, max_size=80).map(str.encode),
    is_array=st.booleans(),
    method=st.sampled_from([zs.STORED, zs.DEFLATED]),
    size=SIZES,
    offset=SIZES,
)
def test_length_of_a_local_header_follows_from_what_the_directory_knows(
    name, is_array, method, size, offset
):
    name = name + b".npy" if is_array else name
    header = zs.local_header(name, method, 7, size, size, offset)
    assert len(header) == zs.local_length(name, method, size, offset)
    if is_array and method == zs.STORED:
        assert (offset + len(header)) % 64 == 0
        assert len(header) < 30 + len(name) + 20 + 70


@pytest.mark.parametrize("offset", range(64))
def test_extra_of_a_local_header_is_a_list_of_fields(offset):
    name = b"W.npy"
    extra = zs.local_header(name, zs.STORED, 0, 5, 5, offset)[30 + len(name) :]
    while extra:
        identifier, length = struct.unpack_from("<2H", extra)
        assert identifier == 0xD935
        assert extra[4:6] == b"\x40\x00"
        assert len(extra) >= 4 + length
        assert not extra[6 : 4 + length].strip(b"\0")
        extra = extra[4 + length :]


@pytest.mark.parametrize(
    ("size", "offset", "wide"),
    [
        (0, 0, []),
        (GIB4 - 2, GIB4 - 2, []),
        (GIB4 - 1, 0, [GIB4 - 1, GIB4 - 1]),
        (5 * GIB4, 0, [5 * GIB4, 5 * GIB4]),
        (1, GIB4 - 1, [GIB4 - 1]),
        (GIB4, GIB4 + 5, [GIB4, GIB4, GIB4 + 5]),
    ],
)
def test_64_bits_are_used_where_32_do_not_suffice_and_only_there(size, offset, wide):
    entry = zs.central_entry(b"log", zs.STORED, 1, size, size, offset)
    extra = entry[46 + 3 :]
    assert (zs.zip64_values(extra, len(wide)) or []) == wide
    assert bool(extra) == bool(wide)
    assert entry[6] == (45 if wide else 20)
    local = zs.local_header(b"log", zs.STORED, 1, size, size, offset)
    assert (len(local) > 33) == (size >= GIB4 - 1)


@pytest.mark.parametrize(
    ("count", "offset", "is_wide"),
    [(0, 0, False), (65534, 0, False), (65535, 0, True), (1, GIB4 - 1, True), (1, 9, False)],
)
def test_end_has_64_bits_where_needed(count, offset, is_wide):
    end = zs.ending(b"d" * 10, count, offset)
    assert (b"PK\x06\x06" in end) == is_wide
    assert end.endswith(zs.mark(zs.parse_mark(end[-34:])[1]))


def test_mark_is_read_back_and_nothing_else_is_one():
    mark = zs.mark(0xDEADBEEF)
    assert zs.parse_mark(mark) == (1, 0xDEADBEEF)
    assert zs.parse_mark(mark.upper()) is None
    assert zs.parse_mark(b"") is None
    for position in range(len(mark)):
        for bit in range(8):
            changed = bytearray(mark)
            changed[position] ^= 1 << bit
            assert zs.parse_mark(bytes(changed)) != (1, 0xDEADBEEF)
            assert zs.resembles_mark(bytes(changed))
    for damaged in (bytes(34), b"\xff" * 34, mark[:17] + bytes(17)):
        assert zs.resembles_mark(damaged)
    for other in (b"", b"the comment of somebody else, here", bytes(33)):
        assert not zs.resembles_mark(other)


@pytest.mark.parametrize(
    ("extra", "wanted", "values"),
    [
        (b"", 1, None),
        (b"\x01\x00\x08\x00" + bytes(8), 1, [0]),
        (b"\x01\x00\x08\x00" + bytes(8), 2, None),
        (b"\x01\x00\x10\x00" + bytes(8), 2, None),
        (b"UT\x01\x00x" + b"\x01\x00\x08\x00\x07" + bytes(7), 1, [7]),
        (b"UT\xff\xff" + b"\x01\x00\x08\x00" + bytes(8), 1, None),
        (b"\x01", 1, None),
    ],
)
def test_64_bit_values_are_found_among_other_fields(extra, wanted, values):
    assert zs.zip64_values(extra, wanted) == values
