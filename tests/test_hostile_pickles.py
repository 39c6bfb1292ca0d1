"""Ways round lists of allowed names, and bombs: none of them does anything.

Each attack is a pickle. What it would run leaves a file, the canary, behind.
Each is tried on the unpickler of logs, which refuses it, and on the inert
one, which may read it and must not run it.
"""

import collections
import copyreg
import os
import pickle
import resource

import pytest
from hostile_pickles import ATTACKS, BOMBS, HEAVY, SYSTEM, called, whole

from blocks_checkpoint.errors import CheckpointError, DamagedCheckpoint, HostileCheckpoint
from blocks_checkpoint.miniblocks.log import TrainingLog
from blocks_checkpoint.safe_unpickling.inert_unpickler import load_inert
from blocks_checkpoint.safe_unpickling.log_unpickler import load_log_pickle


@pytest.fixture
def canary(tmp_path, monkeypatch):
    """Work in an empty folder; afterwards nothing may be in it."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "canary"
    assert not list(tmp_path.iterdir())


@pytest.fixture
def little_memory():
    """Allow little more memory than there is already."""
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("how much memory is used is not told here")
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * resource.getpagesize()
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 29), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


def test_the_canary_sings_when_it_is_let_out(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pickle.loads(ATTACKS["os-system"])
    assert (tmp_path / "canary").exists()


@pytest.mark.parametrize("name", ATTACKS)
def test_attack_is_refused(name, canary):
    with pytest.raises(CheckpointError) as caught:
        load_log_pickle(ATTACKS[name], path="run.zip")
    assert "run.zip" in str(caught.value)


@pytest.mark.parametrize("name", ATTACKS)
def test_inert_unpickler_runs_nothing_of_an_attack(name, canary):
    try:
        load_inert(ATTACKS[name])
    except CheckpointError:
        pass


def test_classes_are_as_before_all_attacks():
    before = dict(vars(TrainingLog))
    for attack in ATTACKS.values():
        for load in (load_log_pickle, load_inert):
            try:
                load(attack)
            except CheckpointError:
                pass
    assert dict(vars(TrainingLog)) == before
    assert collections.defaultdict(int)["x"] == 0


@pytest.mark.parametrize("load", [load_log_pickle, load_inert])
def test_registry_of_extension_codes_is_not_asked(load, canary):
    """The standard unpickler hands out what it has cached, whatever find_class says."""
    copyreg.add_extension("os", "system", 77)
    try:
        attack = whole(called(pickle.EXT1 + bytes([77]), SYSTEM))
        # So that the code is in the cache.
        assert pickle.loads(whole(pickle.EXT1 + bytes([77]))) is os.system
        with pytest.raises(HostileCheckpoint, match="extension codes"):
            load(attack)
    finally:
        copyreg.remove_extension("os", "system", 77)


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_is_refused_before_it_goes_off(name, little_memory):
    with pytest.raises((HostileCheckpoint, DamagedCheckpoint)):
        load_log_pickle(BOMBS[name])


@pytest.mark.parametrize("name", BOMBS)
def test_bomb_does_not_go_off_in_the_inert_unpickler(name, little_memory):
    try:
        load_inert(BOMBS[name])
    except CheckpointError:
        pass


@pytest.mark.parametrize("load", [load_log_pickle, load_inert])
@pytest.mark.parametrize("name", HEAVY)
def test_heavy_pickle_costs_what_it_weighs(name, load, little_memory):
    try:
        load(HEAVY[name])
    except CheckpointError:
        pass


def test_every_truncation_is_an_error_of_ours():
    log = TrainingLog()
    log[3]["cost"] = 0.5
    for protocol in (0, 2, 5):
        content = pickle.dumps(log, protocol)
        for length in range(len(content)):
            with pytest.raises(CheckpointError):
                load_log_pickle(content[:length])


def test_any_byte_changed_gives_a_value_or_an_error_of_ours(canary):
    log = TrainingLog()
    log[3]["cost"] = 0.5
    content = pickle.dumps(log, 4)
    for position in range(len(content)):
        for other in (0, 0x28, 0x52, 0x62, 0x81, 0x93, 0xFF):
            changed = content[:position] + bytes([other]) + content[position + 1 :]
            for load in (load_log_pickle, load_inert):
                try:
                    load(changed)
                except CheckpointError:
                    pass
