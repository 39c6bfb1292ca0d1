"""What the status of a main loop says about events that have been announced.

An event that comes before something (training, a batch) may be the moment at
which the state is saved. Whoever goes on from there must not announce the
same thing a second time, nor skip it.
"""

__all__ = ["BATCH_ANNOUNCED", "TRAINING_ANNOUNCED"]

#: Whether the extensions have seen ``before_training``, and training has not
#: begun yet.
TRAINING_ANNOUNCED = "_training_announced"

#: Whether they have seen ``before_batch`` of the batch that is next.
BATCH_ANNOUNCED = "_batch_announced"
