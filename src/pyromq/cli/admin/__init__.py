"""`pyromq admin`: what `mqadmin` does, under its names and options."""
