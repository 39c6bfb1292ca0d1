"""What the pickles of a checkpoint are made of.

=====================  =====================================================
`array_table`          a number for each array that is met
`array_plan`           which of them are stored, and which are views
`memory_views`         arrays that share memory
`devices`              arrays that are not in main memory
`reachable`            every shared variable of a main loop
`foreign_objects`      what other libraries' own pickles lose
`deep`                 room for deep nesting
`cures`                what to do about what cannot be pickled
`log_sharing`          what log and main loop both hold
`log_cache`            rows of a log that are final
`row_pickler`          such rows, as bytes for any pickle
`stateful`             streams that say what their state is
`loaders`              data loaders of torchdata and Grain
`present_parts`        objects of a new main loop that take a state
`extension_states`     what extensions say that their state is
`exact_json`           plain values as JSON, and exactly back
`random_state`         the global generators
`torch_random`         those of PyTorch
`generator_states`     the state of one generator
`generator_variables`  variables whose value is a generator
`generator_places`     where else in a main loop generators hang
`generators`           both of these, put into a new main loop
=====================  =====================================================
"""
