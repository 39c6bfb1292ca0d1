"""A manifest that takes far more memory or time to parse than its length would tell."""

import io
import sys

import pytest
from forged import Entry, archive, memory_within

from blocks_checkpoint import open_checkpoint
from blocks_checkpoint.errors import LoadError
from blocks_checkpoint.manifest import BASE_BYTES

HEAD = b'{"format": "blocks_checkpoint", "format_version": 1, "x": '


@pytest.mark.parametrize(
    ("manifest", "reason"),
    [
        pytest.param(b"9" * 1_000_000, "more than 4300 digits", id="number-without-end"),
        pytest.param(b'"%s"' % (b"9" * 5000), "more than 4300 digits", id="digits-as-text"),
        pytest.param(b"[" * 500_000, "nests deeper", id="nested-lists"),
        pytest.param(b'{"x":' * 500_000, "nests deeper", id="nested-objects"),
        pytest.param(b" " * (BASE_BYTES + 10_000), "no more than 16785408", id="long"),
    ],
)
def test_manifest_that_is_a_bomb_is_refused(manifest, reason):
    content = archive(Entry("checkpoint.json", HEAD + manifest + b"}"))
    limit = sys.getrecursionlimit()
    with memory_within(40 << 20), pytest.raises(LoadError, match=reason) as caught:
        open_checkpoint(io.BytesIO(content))
    assert caught.value.member == "checkpoint.json"
    assert sys.getrecursionlimit() == limit
