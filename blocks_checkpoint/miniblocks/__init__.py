"""The Blocks protocol on a living engine, small.

Main loop, log, extensions, algorithms, bricks and data streams, module for
module as in Blocks and Fuel: a script moves over by changing the import root.

=====================  ===================================================
Blocks, Fuel           here
=====================  ===================================================
``blocks.X``           ``blocks_checkpoint.miniblocks.X``
``fuel.datasets``      ``blocks_checkpoint.miniblocks.datasets``
``fuel.schemes``       ``blocks_checkpoint.miniblocks.schemes``
``fuel.streams``       ``blocks_checkpoint.miniblocks.streams``
``fuel.transformers``  ``blocks_checkpoint.miniblocks.transformers``
=====================  ===================================================

Everything pickles with Python's own pickler, at any batch. Importing a
module of this package imports no engine; building a graph does.
"""
