"""What the broker does for each request, one file an area; each class is given just what it uses."""
