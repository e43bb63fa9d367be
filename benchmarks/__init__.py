"""Speed and memory, each figure beside a naive reference measured in the same run."""
