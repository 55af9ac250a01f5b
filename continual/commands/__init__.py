"""What each command of `python -m continual` does, a file for each kind."""
