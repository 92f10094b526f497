"""The report of a run: one HTML page with tables and figures."""

from fastspml.report.summary import about_run, facts, write_report

__all__ = ["about_run", "facts", "write_report"]
