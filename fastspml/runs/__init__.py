"""Runs: a folder per training, with configuration, history, checkpoints and model; the same command resumes it."""
