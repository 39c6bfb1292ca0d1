"""What a checkpoint needs of the script that ran, and where it is found again."""

import functools
import pickle
import re
import subprocess
import sys
import textwrap
import types

import pytest

from blocks_checkpoint import CheckpointWarning, LoadError, MainModuleError
from blocks_checkpoint.main_module import (
    MainModule,
    import_script,
    is_main_module,
    module_of,
    names_needed,
    script_of,
)

#: A training script with all kinds of things that pickles name instead of holding.
SCRIPT = """
    import enum, functools, sys, typing
    from drifting import At, make_main_loop
    from blocks_checkpoint import Checkpoint, MainModuleWarning, continue_training

    def note(main_loop):
        main_loop.log.current_row["noted"] = True

    class Holder:
        class Inner:
            pass

    class Color(enum.Enum):
        RED = 1

    class Count(int):
        pass

    def decorated(function):
        @functools.wraps(function)
        def wrapper(*args):
            return function(*args)
        return wrapper

    @decorated
    def shout(text):
        return text.upper()

    @functools.lru_cache(maxsize=None)
    def cached(number):
        return number

    def scale(number, by):
        return number * by

    class Saver(Checkpoint):
        pass

    def build(path, epochs=1):
        main_loop = make_main_loop(At(note, after_batch=True), Saver(path), epochs=epochs)
        main_loop.holder = Holder()
        main_loop.things = [Holder.Inner, Color.RED, Count(3), shout, cached,
                            functools.partial(scale, by=2), Color]
        main_loop.text = ["__main__", "__mp_main__", {"__main__": "__main__"}]
        return main_loop
"""
NEEDED = ["Color", "Count", "Holder", "Holder.Inner", "Saver", "cached", "note", "scale", "shout"]


def write(folder, name, *parts):
    path = folder / name
    path.write_text("\n".join(textwrap.dedent(part) for part in parts))
    return path


def run(*command, cwd, code=0):
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=str(cwd),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A folder with train.py, and run.zip that it saved; and what it printed."""
    folder = tmp_path_factory.mktemp("trained")
    write(
        folder,
        "train.py",
        SCRIPT,
        """
        if __name__ == "__main__":
            if len(sys.argv) > 1:
                print("epochs", continue_training("run.zip").status["epochs_done"])
            else:
                build("run.zip").run()
                build("run.zip").run()
        """,
    )
    done = run("-W", "always", "train.py", cwd=folder)
    return folder, done


# What is said when it is saved


def test_one_warning_for_a_path_names_all_with_the_way_to_each_and_the_cure(trained):
    _, done = trained
    warnings = re.findall(r"MainModuleWarning: (.*)", done.stderr)
    # Two main loops were run, and each saved twice.
    assert len(warnings) == 2
    assert warnings[0].startswith("run.zip: the main loop depends on the functions or classes")
    for words in ("continue_training will need them", "from within this script", "train.py'"):
        assert words in warnings[0]
    places = dict(re.findall(r"  - (\S+), at (\S+)", done.stderr))
    assert places == {
        "Color": "main_loop.things[1]",
        "Count": "main_loop.things[2]",
        "Holder": "main_loop.holder",
        "Holder.Inner": "main_loop.things[0]",
        "Saver": "main_loop.extensions[3]",
        "cached": "main_loop.things[4]",
        "note": "main_loop.extensions[2].function",
        "scale": "main_loop.things[5].func",
        "shout": "main_loop.things[3]",
    }


def test_needs_are_in_the_manifest_with_the_script_and_its_digest(trained):
    import hashlib
    from pathlib import Path

    from blocks_checkpoint import open_checkpoint

    folder, _ = trained
    with open_checkpoint(folder / "run.zip") as checkpoint:
        needs = checkpoint.manifest["main_module"]
    assert needs == {
        "names": NEEDED,
        "script": str(folder / "train.py"),
        "sha256": hashlib.sha256(Path(folder / "train.py").read_bytes()).hexdigest(),
    }


def test_series_of_files_is_one_path_to_warn_of(tmp_path):
    write(
        tmp_path,
        "series.py",
        SCRIPT,
        """
        if __name__ == "__main__":
            build("run-{epochs_done}.zip", epochs=3).run()
        """,
    )
    done = run("-W", "always", "series.py", cwd=tmp_path)
    assert done.stderr.count("MainModuleWarning") == 1
    assert len(list(tmp_path.glob("run-*.zip"))) == 3


def test_module_alone_warns_of_nothing(tmp_path):
    write(
        tmp_path,
        "plain.py",
        """
        from drifting import make_main_loop
        from blocks_checkpoint import Checkpoint, open_checkpoint
        main_loop = make_main_loop(Checkpoint("run.zip"), epochs=1)
        main_loop.text = ["__main__", b"__main__", ("__mp_main__", "note")]
        main_loop.run()
        with open_checkpoint("run.zip") as checkpoint:
            print(checkpoint.manifest["main_module"])
        """,
    )
    done = run("-W", "error", "plain.py", cwd=tmp_path)
    assert done.stdout == "None\n"


# Where it is found again


def test_the_script_itself_continues(trained):
    folder, _ = trained
    assert run("train.py", "on", cwd=folder).stdout == "epochs 1\n"


CONTINUE = "from blocks_checkpoint import continue_training as go; "


def test_another_process_is_told_what_is_missing_and_both_ways_out(trained):
    folder, _ = trained
    done = run("-c", CONTINUE + "go('run.zip')", cwd=folder, code=1)
    message = done.stderr.splitlines()[-1]
    assert message.startswith("blocks_checkpoint.errors.MainModuleError: run.zip, ")
    for words in [*NEEDED, str(folder / "train.py"), "main=", "--main", "under its if __name__"]:
        assert words in message


def test_another_process_can_name_the_script(trained, tmp_path):
    folder, _ = trained
    code = CONTINUE + f"print(go({str(folder / 'run.zip')!r}, main={str(folder / 'train.py')!r}))"
    assert "MainLoop" in run("-W", "error", "-c", code, cwd=tmp_path).stdout


def test_parameters_and_log_need_no_script(trained):
    from blocks_checkpoint import load_log, load_parameters

    folder, _ = trained
    assert len(load_parameters(folder / "run.zip")) == 4
    assert load_log(folder / "run.zip")[4]["noted"]


def test_run_that_was_continued_by_naming_the_script_can_be_continued_again(trained, tmp_path):
    """By the script, by another process, and again by naming it."""
    import shutil

    folder, _ = trained
    for name in ("run.zip", "train.py"):
        shutil.copy(folder / name, tmp_path / name)
    go_on = CONTINUE + textwrap.dedent(
        """
        from blocks_checkpoint.miniblocks.extensions import FinishAfter
        import sys
        done = go('run.zip', main='train.py', extensions=[FinishAfter(after_n_epochs={})])
        print(done.status['epochs_done'], done.log.current_row['noted'])
        """
    )
    assert run("-c", go_on.format(2), cwd=tmp_path).stdout == "2 True\n"
    assert run("-c", go_on.format(3), cwd=tmp_path).stdout == "3 True\n"
    assert run("train.py", "on", cwd=tmp_path).stdout == "epochs 3\n"
    from blocks_checkpoint import open_checkpoint

    with open_checkpoint(tmp_path / "run.zip") as checkpoint:
        needs = checkpoint.manifest["main_module"]
    assert (needs["names"], needs["script"]) == (NEEDED, str(tmp_path / "train.py"))


def test_modules_beside_the_script_are_found_with_it(tmp_path):
    write(tmp_path, "beside.py", "class Beside:\n    pass")
    write(tmp_path, "later.py", "class Later:\n    pass")
    write(
        tmp_path,
        "train.py",
        SCRIPT,
        """
        def use():
            import later
            return later.Later()

        if __name__ == "__main__":
            import beside
            main_loop = build("run.zip")
            main_loop.beside = [beside.Beside(), use()]
            main_loop.run()
        """,
    )
    run("train.py", cwd=tmp_path)
    (tmp_path / "elsewhere").mkdir()
    code = CONTINUE + "print(go('../run.zip', main='../train.py').beside[1])"
    assert "Later" in run("-c", code, cwd=tmp_path / "elsewhere").stdout


def test_changed_script_is_said_to_have_changed(trained, tmp_path):
    folder, _ = trained
    changed = write(tmp_path, "train.py", SCRIPT, "# and one line more")
    code = CONTINUE + f"go({str(folder / 'run.zip')!r}, main={str(changed)!r})"
    done = run("-c", code, cwd=tmp_path)
    assert re.search(r"CheckpointWarning: the script .*train\.py has changed since", done.stderr)


def test_script_that_lacks_them_is_named_as_lacking_them(trained, tmp_path):
    folder, _ = trained
    other = write(tmp_path, "other.py", "def note(main_loop):\n    pass")
    code = CONTINUE + f"go({str(folder / 'run.zip')!r}, main={str(other)!r})"
    message = run("-c", code, cwd=tmp_path, code=1).stderr.splitlines()[-1]
    assert "MainModuleError" in message
    assert "needs Color, Count, Holder" in message
    assert f"{other} does not have them" in message


@pytest.mark.parametrize("how", ["stdin", "option", "pdb", "spawn"])
def test_ways_to_run_python_are_all_understood(tmp_path, how):
    body = textwrap.dedent(SCRIPT) + "\nif __name__ == '__main__':\n    build('run.zip').run()\n"
    if how == "option":
        done = run("-c", body, cwd=tmp_path)
    elif how == "stdin":
        done = subprocess.run(
            [sys.executable, "-"],
            input=body,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=True,
        )
    elif how == "pdb":
        script = write(tmp_path, "train.py", body)
        done = run("-m", "pdb", "-c", "continue", "-c", "quit", script, cwd=tmp_path)
    else:
        write(
            tmp_path,
            "train.py",
            SCRIPT,
            """
            def child():
                build('run.zip').run()

            if __name__ == '__main__':
                import multiprocessing
                process = multiprocessing.get_context('spawn').Process(target=child)
                process.start(); process.join()
                sys.exit(process.exitcode)
            """,
        )
        done = run("train.py", cwd=tmp_path)
    assert "MainModuleWarning" in done.stderr
    from blocks_checkpoint import open_checkpoint

    with open_checkpoint(tmp_path / "run.zip") as checkpoint:
        needs = checkpoint.manifest["main_module"]
    assert needs["names"] == NEEDED
    script = None if how in ("stdin", "option") else str(tmp_path / "train.py")
    assert needs["script"] == script


# The parts


@pytest.fixture
def main_names(monkeypatch):
    """Put a class and a function into the running ``__main__``."""
    main = sys.modules["__main__"]

    class Thing:
        pass

    def work():
        return 1

    for name, value in (("Thing", Thing), ("work", work)):
        value.__module__, value.__qualname__ = "__main__", name
        monkeypatch.setattr(main, name, value, raising=False)
    return types.SimpleNamespace(Thing=Thing, work=work)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_names_are_read_from_pickles_of_every_protocol(main_names, protocol):
    thing = main_names.Thing()
    thing.partial = functools.partial(main_names.work)
    thing.itself = thing
    thing.containers = {"__main__": [{3, "__main__"}, (thing,), frozenset([1])], 2: bytearray(3)}
    content = pickle.dumps(thing, protocol)
    assert names_needed([[content]]) == {"Thing": "__main__", "work": "__main__"}


def test_names_are_read_from_chains_whose_later_pickles_refer_to_earlier_ones(main_names):
    import io

    file = io.BytesIO()
    pickler = pickle.Pickler(file)
    parts = []
    for thing in ([main_names.Thing], [main_names.Thing(), "__main__"], [main_names.work]):
        file.seek(0)
        file.truncate()
        pickler.dump(thing)
        parts.append(file.getvalue())
    assert sorted(names_needed([parts])) == ["Thing", "work"]


def test_nothing_is_called_while_names_are_read(monkeypatch):
    def explode(*args):
        raise AssertionError("called")

    explode.__module__, explode.__qualname__ = "__main__", "explode"
    monkeypatch.setattr(sys.modules["__main__"], "explode", explode, raising=False)

    class Loud:
        def __reduce__(self):
            return explode, (1,), {"state": 1}, iter([1]), iter([(1, 2)])

    assert names_needed([[pickle.dumps(Loud())]]) == {"explode": "__main__"}


def test_text_about_main_is_no_need():
    assert names_needed([[pickle.dumps(["__main__", "__mp_main__", "Thing"])]]) == {}


def test_deep_pickles_are_read_without_recursion(main_names):
    lists, thing = 100_000, b"c__main__\nThing\n"
    content = b"\x80\x02" + pickle.EMPTY_LIST * lists + thing + pickle.APPEND * lists + pickle.STOP
    assert names_needed([[content]]) == {"Thing": "__main__"}


@pytest.mark.parametrize(
    ("name", "expected"),
    [("__main__", True), ("__mp_main__", True), ("main", False), ("numpy", False)],
)
def test_main_modules_have_two_names(name, expected):
    assert is_main_module(name) is expected


def test_names_of_all_main_modules_have_a_part_in_common(tmp_path):
    """It is what pickles are searched for."""
    from blocks_checkpoint.main_module import _IN_ALL_NAMES

    imported = import_script(write(tmp_path, "any.py", "")).__name__
    for name in ("__main__", "__mp_main__", imported):
        assert is_main_module(name)
        assert _IN_ALL_NAMES in name.encode()


def test_imported_script_is_a_main_module_and_imported_once(tmp_path):
    script = write(tmp_path, "once.py", "import sys\nvalue = object()\n__name__ == '__main__' or 1")
    module = import_script(script)
    assert is_main_module(module.__name__)
    assert import_script(str(script)) is module
    assert script_of(module.__name__)["script"] == str(script)
    changed = write(tmp_path, "once.py", "value = 2")
    assert import_script(changed).value == 2
    other = write(tmp_path, "other.py", "value = 3")
    assert import_script(other).__name__ != module.__name__


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("raise ValueError('broken')", "broken"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("def half(", "SyntaxError"),
    ],
)
def test_script_that_cannot_be_imported_is_a_load_error_with_its_path(tmp_path, text, message):
    script = write(tmp_path, "broken.py", text)
    before = list(sys.modules)
    with pytest.raises(LoadError, match=message) as caught:
        import_script(script)
    assert caught.value.path == str(script)
    assert [name for name in sys.modules if name not in before and is_main_module(name)] == []


def test_script_that_is_not_there_is_a_load_error(tmp_path):
    with pytest.raises(LoadError, match="no such script"):
        import_script(tmp_path / "train.py")


def test_module_can_be_given_in_place_of_a_script(main_names):
    module = types.ModuleType("train")
    module.Thing = main_names.Thing
    assert module_of(module) is module
    assert module_of(None) is sys.modules["__main__"]
    assert MainModule({"names": ["Thing"]}, module).find("Thing") is main_names.Thing
    with pytest.raises(MainModuleError) as caught:
        MainModule({"names": ["Thing", "gone", "Thing.Inner"]}, module)
    assert caught.value.missing == ["gone", "Thing.Inner"]
    assert isinstance(caught.value, AttributeError)


def test_named_script_wins_over_names_of_the_running_one(main_names, tmp_path):
    script = write(tmp_path, "mine.py", "class Thing:\n    mine = True")
    assert MainModule({"names": ["Thing"]}, script).find("Thing").mine


def test_unchanged_script_is_not_said_to_have_changed(tmp_path, recwarn):
    script = write(tmp_path, "same.py", "value = 1")
    needs = {"names": ["value"], **script_of(import_script(script).__name__)}
    MainModule(needs, script)
    assert not [w for w in recwarn if issubclass(w.category, CheckpointWarning)]
