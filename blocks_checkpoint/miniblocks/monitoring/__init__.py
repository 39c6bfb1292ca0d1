"""Evaluating variables over the batches of a data set."""
