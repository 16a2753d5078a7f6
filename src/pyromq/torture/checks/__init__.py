"""The promises, each a function that looks at the evidence of a run."""
