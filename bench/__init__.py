"""Measurements: what the README claims, made again by one command each."""
