"""Tools of our own tests, shipped for yours: clusters in this process, a clock that you move, waiting."""
