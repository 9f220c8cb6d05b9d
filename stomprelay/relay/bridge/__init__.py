"""Frames from one STOMP version to another: the steps whose facts differ, and nothing else."""
