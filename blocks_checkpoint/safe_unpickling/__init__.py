"""Pickles of strangers, read without running what they name.

=====================  =====================================================
`log_unpickler`        the log of a checkpoint
`inert_unpickler`      anything, with placeholders for what is not known
`pickle_machine`       runs the opcodes, and nothing else
`vocabulary`           decides what a name in a pickle stands for
=====================  =====================================================
"""
