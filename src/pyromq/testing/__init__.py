"""What our own tests use, shipped for yours: clusters in this process, a clock that you move, waiting."""
