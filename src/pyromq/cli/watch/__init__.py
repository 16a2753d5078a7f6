"""Commands that watch a cluster or load it: `top`, `doctor`, `bench`."""
