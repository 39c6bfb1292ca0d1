"""What a person sees of the log while it grows."""

from __future__ import annotations

import datetime
from typing import Any

from .simple import SimpleExtension

__all__ = ["Printing", "Timestamp"]

_RULE = "-" * 79

_TITLES = {
    "before_epoch": "BEFORE FIRST EPOCH",
    "on_resumption": "TRAINING HAS BEEN RESUMED",
    "after_epoch": "AFTER ANOTHER EPOCH",
    "on_interrupt": "TRAINING HAS BEEN INTERRUPTED",
    "after_training": "TRAINING HAS BEEN FINISHED",
}


class Printing(SimpleExtension):
    """Print the status and the current row of the log.

    By default before the first epoch, after every epoch, after training, on
    resumption and, without the records, on interrupt. Names that begin with
    an underscore are not printed.
    """

    def __init__(self, **kwargs: Any) -> None:
        kwargs.setdefault("before_first_epoch", True)
        kwargs.setdefault("on_resumption", True)
        kwargs.setdefault("after_epoch", True)
        kwargs.setdefault("on_interrupt", True)
        kwargs.setdefault("after_training", True)
        super().__init__(**kwargs)

    def do(self, which_callback: str, *args: Any) -> None:
        """Print them under a title that names the event."""
        log = self.main_loop.log
        title = _TITLES.get(str(which_callback), str(which_callback).replace("_", " ").upper())
        print(f"\n{_RULE}\n{title}\n{_RULE}")
        if which_callback != "on_interrupt":
            print("Status:")
            self._print_records(log.status)
            print(f"Records of iteration {log.status['iterations_done']}:")
            self._print_records(log.current_row)
        print(flush=True)

    def _print_records(self, records: dict[str, Any]) -> None:
        for name, value in sorted(records.items()):
            if not name.startswith("_"):
                print(f"\t {name}: {value}")


class Timestamp(SimpleExtension):
    """Write date and time (ISO 8601) into the log.

    By default before and after training, after every epoch, on error, on
    interrupt and on resumption.

    Parameters
    ----------
    log_record : str, optional
        Name of the record.
    separator : str, optional
        Between date and time; one character.
    """

    DEFAULT_LOG_RECORD = "timestamp"

    def __init__(
        self, log_record: str = DEFAULT_LOG_RECORD, separator: str = " ", **kwargs: Any
    ) -> None:
        self.log_record = log_record
        self.separator = separator
        for trigger in (
            "before_training",
            "after_epoch",
            "on_error",
            "on_interrupt",
            "on_resumption",
            "after_training",
        ):
            kwargs.setdefault(trigger, True)
        super().__init__(**kwargs)

    def do(self, which_callback: str, *args: Any) -> None:
        """Write the record."""
        self.main_loop.log.current_row[self.log_record] = self.get_timestamp()

    def get_timestamp(self) -> str:
        """Return the local date and time as a string."""
        return datetime.datetime.now().isoformat(self.separator)
