import errno
import os

import pytest

from blocks_checkpoint import partial_file
from blocks_checkpoint.commit import replacing
from blocks_checkpoint.errors import SaveError
from blocks_checkpoint.partial_file import PartialFile

OLD = b"the old file"
NEW = b"the new file"


@pytest.fixture
def target(tmp_path):
    path = tmp_path / "run.zip"
    path.write_bytes(OLD)
    return path


def listing(folder):
    return sorted(os.listdir(folder))


def save(path, content=NEW, **options):
    with replacing(path, **options) as file:
        file.write(content)


def test_partial_file_of_another_thread_is_left_alone(target):
    with replacing(target) as outer:
        outer.write(b"outer")
        save(target)
        assert target.read_bytes() == NEW
    assert target.read_bytes() == b"outer"


@pytest.mark.parametrize(
    ("name", "is_swept"),
    [
        (".run.zip.1-0123456789abcdef.partial", True),
        (".run.zip.99999999-ff.partial", True),
        (".run.zip.x-ff.partial", False),
        (".run.zip.old.1-ff.partial", False),
        (".run.1-ff.partial", False),
        (".other.zip.1-ff.partial", False),
        ("run.zip.1-ff.partial", False),
        (".run.zip.1-ff.partial.bak", False),
        ("run.zip.tmp", False),
        ("run.zip.bak", False),
    ],
)
def test_only_what_an_earlier_save_to_this_path_left_is_removed(target, name, is_swept):
    (target.parent / name).write_bytes(b"left")
    save(target)
    assert listing(target.parent) == sorted({"run.zip"} | (set() if is_swept else {name}))


def test_what_cannot_be_removed_hinders_no_save(target):
    (target.parent / ".run.zip.1-ff.partial").mkdir()
    (target.parent / ".run.zip.2-ff.partial").symlink_to("elsewhere")
    os.mkfifo(target.parent / ".run.zip.3-ff.partial")
    (target.parent / "elsewhere").write_bytes(b"not to be removed")
    save(target)
    assert target.read_bytes() == NEW
    assert (target.parent / "elsewhere").read_bytes() == b"not to be removed"


def test_partial_file_swept_away_before_it_is_locked_is_made_anew(target, monkeypatch):
    lock = PartialFile.lock
    swept = []

    def sweep_first(file):
        if len(swept) < 3:
            swept.append(file.path)
            partial_file._remove_if_dead(file.path)
        return lock(file)

    monkeypatch.setattr(PartialFile, "lock", sweep_first)
    save(target)
    assert len(swept) == 3
    assert target.read_bytes() == NEW
    assert listing(target.parent) == ["run.zip"]


def test_partial_file_that_is_always_swept_away_is_an_error(target, monkeypatch):
    monkeypatch.setattr(PartialFile, "lock", lambda file: False)
    with pytest.raises(SaveError, match="keeps removing"):
        save(target)
    assert listing(target.parent) == ["run.zip"]


def test_file_system_that_cannot_reserve_is_asked_for_its_free_space(target, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    monkeypatch.setattr(partial_file, "_allocate", fail)
    with pytest.raises(SaveError, match="ENOSPC"):
        save(target, expected_bytes=1 << 60)
    assert target.read_bytes() == OLD
    save(target, expected_bytes=100)
    assert target.read_bytes() == NEW


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the system reserves nothing")
def test_reserving_takes_blocks_and_leaves_the_length(tmp_path):
    file = PartialFile.create(str(tmp_path / "run.zip"), None)
    with file:
        file.reserve(1 << 20)
        status = os.stat(file.path)
        assert status.st_size == 0
        assert status.st_blocks * 512 >= 1 << 20
        file.write(b"x")
        file.trim()
        assert os.stat(file.path).st_blocks * 512 < 1 << 20
        file.discard()
    assert listing(tmp_path) == []


def test_file_without_locks_is_written_all_the_same(target, monkeypatch):
    def fail(*arguments):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(partial_file.fcntl, "flock", fail)
    (target.parent / ".run.zip.1-ff.partial").write_bytes(b"whose?")
    save(target)
    assert target.read_bytes() == NEW
    assert ".run.zip.1-ff.partial" in listing(target.parent)
