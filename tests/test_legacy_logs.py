"""The log of an old checkpoint is read, and nothing else of it is run."""

import io
import pickle
import tarfile

import pytest
from old_checkpoints import (
    FILES,
    KINDS,
    Canary,
    as_of_blocks,
    make_log,
    pickled_main_loop,
    write_tar,
    write_zip,
)

from blocks_checkpoint.errors import (
    CheckpointWarning,
    LoadError,
)
from blocks_checkpoint.legacy import open_legacy


@pytest.fixture
def log():
    return make_log()


def test_log_is_taken_out_of_a_main_loop_that_would_run_code(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp.W"], pickled_main_loop(log, before=Canary(), z=[Canary()]))
    with open_legacy(path) as checkpoint:
        assert checkpoint.log()[2] == {"cost": 0.5}
        assert checkpoint.parameters["/mlp.W"].shape == (2,)
        assert checkpoint.verify() == []
    assert not (tmp_path / "canary").exists()


def test_record_that_is_no_plain_value_is_inert_and_reported(log, tmp_path):
    log[1]["odd"] = Canary()
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp.W"], pickled_main_loop(log))
    with open_legacy(path) as checkpoint, pytest.warns(CheckpointWarning, match=r"\.system"):
        loaded = checkpoint.log()
    assert repr(loaded[1]["odd"]) == "<inert object of posix.system>"


def test_log_of_its_own_member_is_read_by_the_restricted_unpickler(log, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    log[1]["odd"] = Canary()
    path = tmp_path / "new.tar"
    write_tar(path, ["|mlp.W"], log=as_of_blocks(log))
    with open_legacy(path) as checkpoint, pytest.raises(LoadError, match=r"system.*allow="):
        checkpoint.log()
    assert not (tmp_path / "canary").exists()


def test_log_in_a_database_is_said_to_be_there(tmp_path):
    sqlite = b"(cblocks.log.sqlite\nSQLiteLog\no}S'database'\nS'here.db'\nsb"
    main_loop = b"(cblocks.main_loop\nMainLoop\no}S'log'\n" + sqlite + b"sb."
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp.W"], main_loop)
    with open_legacy(path) as checkpoint, pytest.raises(LoadError, match=r"database 'here\.db'"):
        checkpoint.log()


@pytest.mark.parametrize(
    ("pickled", "why"),
    [
        pytest.param(b"(cblocks.model\nModel\no.", "is a blocks.model.Model", id="a-model"),
        pytest.param(pickle.dumps([1]), "is a list", id="a-list"),
        pytest.param(
            b"(cblocks.main_loop\nMainLoop\no}S'log'\n(cmy.log\nMine\nosb.",
            "the log is a my.log.Mine",
            id="a-log-of-another-class",
        ),
        pytest.param(
            b"(cblocks.main_loop\nMainLoop\no}S'log'\nS'x'\nsb.", "the log is a str", id="no-log"
        ),
    ],
)
def test_pickle_without_a_log_says_what_it_is(pickled, why, tmp_path):
    path = tmp_path / "old.zip"
    write_zip(path, ["mlp.W"], pickled)
    with open_legacy(path) as checkpoint:
        with pytest.raises(LoadError, match=why):
            checkpoint.log()
        assert checkpoint.status == {}
        assert checkpoint.verify() == []


@pytest.mark.parametrize("protocol", [0, 1, 2])
def test_log_pickled_into_a_file_of_its_own_is_read(protocol, log, tmp_path):
    path = tmp_path / "run_log.pkl"
    content = pickle.dumps(log, protocol)
    path.write_bytes(content.replace(b"blocks_checkpoint.miniblocks.log", b"blocks.log"))
    with open_legacy(path) as checkpoint:
        assert checkpoint.kind == "pickle"
        assert checkpoint.log()[2] == {"cost": 0.5}
        assert len(checkpoint.parameters) == 0


def test_file_without_a_log_says_so():
    with open_legacy(FILES / KINDS["npz"][0]) as checkpoint:
        with pytest.raises(LoadError, match="no log in it"):
            checkpoint.log()
        with pytest.raises(LoadError, match="no main loop in it"):
            checkpoint.main_loop()
        assert checkpoint.status == {}


def test_member_that_add_to_dump_replaced_counts_once(log, tmp_path):
    path = tmp_path / "new.tar"
    write_tar(path, ["|mlp.W"], log=b"rubbish")
    content = as_of_blocks(log)
    info = tarfile.TarInfo("log")
    info.size = len(content)
    with tarfile.open(path, "a") as archive:
        archive.addfile(info, io.BytesIO(content))
    with open_legacy(path) as checkpoint:
        assert checkpoint.log()[2] == {"cost": 0.5}


ODD_LOG = b"cblocks.log.log\nTrainingLog\n)R}S'status'\n(cmy\nStatus\nosb"


@pytest.mark.parametrize(
    "pickles",
    [
        pytest.param({"log": pickle.dumps("text", 2)}, id="no-log-at-all"),
        pytest.param(
            {"pickled": b"(cblocks.main_loop\nMainLoop\no}S'log'\n" + ODD_LOG + b"sb."},
            id="status-that-is-no-dictionary",
        ),
    ],
)
def test_log_that_is_odd_leaves_the_status_empty(pickles, tmp_path):
    path = tmp_path / "old.tar"
    write_tar(path, ["|mlp.W"], **pickles)
    with open_legacy(path) as checkpoint:
        checkpoint.log()
        assert checkpoint.status == {}
        assert list(checkpoint.arrays) == ["/mlp.W"]
