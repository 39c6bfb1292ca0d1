"""The commands ``blocks-checkpoint`` and ``blocks-continue``."""
