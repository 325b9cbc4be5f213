"""The exit statuses of streamguard's own verdicts."""

from __future__ import annotations

from streamguard.report.model import Report

CLEAN = 0
USAGE = 2
RACES = 66
BUDGET = 66
CHECKED_NOTHING = 67


def of_report(report: Report) -> int:
    """The status of a report; misuses and hints never change it."""
    match report.status:
        case "races":
            return RACES
        case "checked-nothing":
            return CHECKED_NOTHING
        case "clean":
            return CLEAN
