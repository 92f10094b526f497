"""Ranking: scores of candidate links under a metric, nearest nodes, and how well links are ranked."""
