"""The project's own benchmark: `python -m tests.bench` prints round trips, tasks and seconds."""
