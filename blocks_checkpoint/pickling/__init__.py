"""What the pickles of a checkpoint are made of.

=====================  =====================================================
`array_table`          which arrays are stored, and which are views
`memory_views`         arrays that share memory
`deep`                 room for deep nesting
`log_sharing`          what log and main loop both hold
`log_cache`            rows of a log that are final
`reachable`            every shared variable of a main loop
`foreign_objects`      generators, and what engines put into graphs
`devices`              arrays that are not in main memory
`random_state`         the global generators
=====================  =====================================================
"""
