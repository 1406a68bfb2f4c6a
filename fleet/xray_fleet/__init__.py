"""Summarizes the xray traces of a fleet into tables in Apache Spark."""

from .dataset import outcomes, summaries
from .summarize import Report, summarize
from .views import account, create, merge, quantile, regressions, stack, with_labels, write_summary
from .why import Thresholds, thresholds, why

__all__ = [
    "Report", "Thresholds", "account", "create", "merge", "outcomes", "quantile", "regressions",
    "stack", "summaries", "summarize", "thresholds", "why", "with_labels", "write_summary",
]
