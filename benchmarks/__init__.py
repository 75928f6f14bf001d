"""Benchmarks: each module here with a function `run` measures one thing and checks it against its bounds."""
