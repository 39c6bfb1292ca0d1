"""Count the tests in JUnit reports, one line a report and one for the total.

Usage: count_tests.py NAME=REPORT.xml ... The exit code is 1 if a test failed,
a report is missing (its run died), or one holds no test that ran: an
environment in which nothing was tested must not pass.
"""

import pathlib
import sys
import xml.etree.ElementTree as ElementTree


def count(path: pathlib.Path) -> "tuple[int, int, int]":
    """Return how many tests passed, failed and were skipped; zeros for a run that died."""
    try:
        root = ElementTree.parse(path).getroot()
    except (OSError, ElementTree.ParseError):
        return 0, 0, 0
    passed = failed = skipped = 0
    for suite in root.iter("testsuite"):
        bad = int(suite.get("failures", 0)) + int(suite.get("errors", 0))
        left_out = int(suite.get("skipped", 0))
        failed += bad
        skipped += left_out
        passed += max(0, int(suite.get("tests", 0)) - bad - left_out)
    return passed, failed, skipped


def main(arguments: "list[str]") -> int:
    totals = [0, 0, 0]
    complaints = []
    for argument in arguments:
        name, _, report = argument.partition("=")
        counts = count(pathlib.Path(report))
        if not counts[0] + counts[1]:
            complaints.append(f"{name}: no test ran")
        print(f"{name}: {counts[0]} passed, {counts[1]} failed, {counts[2]} skipped")
        totals = [total + more for total, more in zip(totals, counts)]
    for complaint in complaints:
        print(complaint)
    print(f"{totals[0]} passed, {totals[1] + len(complaints)} failed, {totals[2]} skipped")
    return 1 if totals[1] or complaints else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
