"""Run an experiment: its file, its tasks, the workers that share them, and what is kept."""
