"""Recordings in formats that other tools open. Each format is a sink that takes a recording bit by bit."""
