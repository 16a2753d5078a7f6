"""The parts of `bench/versus.py`: servers, cases, measuring, what came of it, charts."""
