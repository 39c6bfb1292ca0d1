"""Small helpers, as ``blocks.utils`` and ``fuel.utils`` have them."""

from .containers import change_recursion_limit, dict_subset, pack, unpack
from .lazy import do_not_pickle_attributes
from .shared import (
    shared_floatx,
    shared_floatx_nans,
    shared_floatx_zeros,
    shared_floatx_zeros_matching,
    shared_like,
)

__all__ = [
    "change_recursion_limit",
    "dict_subset",
    "do_not_pickle_attributes",
    "pack",
    "shared_floatx",
    "shared_floatx_nans",
    "shared_floatx_zeros",
    "shared_floatx_zeros_matching",
    "shared_like",
    "unpack",
]
