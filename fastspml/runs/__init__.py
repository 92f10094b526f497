"""Runs: a folder per training run, with configuration, history, checkpoints and model; resumed by the same command."""
