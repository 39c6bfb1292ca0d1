"""What a save took is in the file, in the log on request, and in ``info``."""

import json

import pytest
from click.testing import CliRunner
from drifting import make_main_loop, values_of

from blocks_checkpoint import Checkpoint, load_log, open_checkpoint, save_parameters
from blocks_checkpoint.cli.inspecting import main
from blocks_checkpoint.cost import SaveCost
from blocks_checkpoint.replay import RECORDS_APART

STEPS = ["pickle", "copy", "checksum", "write", "sync", "stall"]
RECORDS = [f"save_{step}_seconds" for step in STEPS]


def costs_in(log):
    return {
        time: {name: value for name, value in row.items() if name in RECORDS}
        for time, row in dict.items(log)
        if any(name in RECORDS for name in row)
    }


def test_records_of_a_cost_are_its_steps():
    assert list(SaveCost().as_records()) == RECORDS


def test_file_says_what_was_over_when_its_manifest_was_written(path):
    make_main_loop(Checkpoint(path), epochs=1).run()
    with open_checkpoint(path) as checkpoint:
        cost = checkpoint.manifest["cost"]
        assert list(cost) == STEPS[:4]
        assert cost["pickle"] > 0
        assert cost["write"] > 0
        # Nothing is copied where training waits.
        assert cost["copy"] == 0


def test_file_says_what_the_save_before_took_to_its_end(path):
    make_main_loop(Checkpoint(path, every_n_batches=1), epochs=1).run()
    with open_checkpoint(path) as checkpoint:
        before = checkpoint.manifest["cost_of_save_before"]
    assert list(before) == STEPS
    assert before["sync"] > 0
    assert before["stall"] >= before["pickle"] + before["write"] + before["sync"]


def test_first_file_knows_of_no_save_before(path):
    make_main_loop(Checkpoint(path, after_epoch=False), epochs=1).run()
    with open_checkpoint(path) as checkpoint:
        assert "cost_of_save_before" not in checkpoint.manifest


@pytest.mark.parametrize("background", [False, True], ids=["waiting", "background"])
def test_costs_are_in_the_log_on_request(path, background):
    checkpoint = Checkpoint(
        path,
        every_n_batches=2,
        after_training=False,
        background=background,
        record_cost=True,
    )
    main_loop = make_main_loop(checkpoint, epochs=2)
    main_loop.run()
    costs = costs_in(main_loop.log)
    assert sorted(costs) == [2, 4, 6, 8]
    for cost in costs.values():
        assert list(cost) == RECORDS
        assert cost["save_stall_seconds"] > cost["save_pickle_seconds"] > 0
        assert (cost["save_copy_seconds"] > 0) == background
    # The last was not known when the file was written.
    assert 8 not in costs_in(load_log(path))


def test_costs_of_saves_that_began_in_one_row_are_added_up(path):
    paths = [path, f"{path}.2"]
    both = [Checkpoint(each, after_epoch=False, record_cost=True) for each in paths]
    main_loop = make_main_loop(*both, epochs=1)
    main_loop.run()
    costs = []
    for each in paths:
        with open_checkpoint(each) as checkpoint:
            costs.append(checkpoint.manifest["cost"])
    assert costs[0] != costs[1]
    for step in STEPS[:4]:
        record = main_loop.log.current_row[f"save_{step}_seconds"]
        assert record == sum(cost[step] for cost in costs)


def test_log_says_nothing_of_costs_unless_asked(path):
    main_loop = make_main_loop(Checkpoint(path, every_n_batches=1), epochs=1)
    main_loop.run()
    assert not costs_in(main_loop.log)


def test_cost_of_a_save_that_failed_is_not_recorded(path, tmp_path):
    folder = tmp_path / "folder"
    folder.write_text("a file in its place")
    checkpoint = Checkpoint(
        str(folder / "run.zip"), every_n_batches=2, on_failure="warn", record_cost=True
    )
    main_loop = make_main_loop(checkpoint, epochs=1)
    main_loop.run()
    assert not costs_in(main_loop.log)


def test_recording_costs_changes_nothing_in_training(path):
    with_costs = make_main_loop(Checkpoint(path, every_n_batches=1, record_cost=True))
    with_costs.run()
    without = make_main_loop()
    without.run()
    for name, value in values_of(without).items():
        assert (values_of(with_costs)[name] == value).all()


def test_replay_takes_no_notice_of_them():
    assert set(RECORDS) <= RECORDS_APART


def test_info_shows_the_cost(path):
    make_main_loop(Checkpoint(path), epochs=1).run()
    shown = CliRunner().invoke(main, ["info", path]).output
    line = next(line for line in shown.splitlines() if line.startswith("cost"))
    assert "pickle" in line
    assert "write" in line
    as_json = json.loads(CliRunner().invoke(main, ["info", path, "--json"]).output)
    assert set(as_json["cost"]) == set(STEPS[:4])


def test_info_shows_how_long_training_waited_for_the_save_before(path):
    make_main_loop(Checkpoint(path), epochs=2).run()
    shown = CliRunner().invoke(main, ["info", path]).output
    line = next(line for line in shown.splitlines() if line.startswith("... before"))
    assert "stall" in line
    as_json = json.loads(CliRunner().invoke(main, ["info", path, "--json"]).output)
    assert as_json["cost_of_save_before"]["stall"] > as_json["cost_of_save_before"]["sync"] > 0


def test_info_of_a_file_without_a_cost_says_nothing_of_it(tmp_path):
    path = str(tmp_path / "values.zip")
    save_parameters({}, path)
    shown = CliRunner().invoke(main, ["info", path]).output
    assert "pickle" not in shown
