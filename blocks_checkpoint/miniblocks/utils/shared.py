"""Making shared variables."""

from __future__ import annotations

from typing import Any

import numpy

from ...engines import current

__all__ = [
    "shared_floatx",
    "shared_floatx_nans",
    "shared_floatx_zeros",
    "shared_floatx_zeros_matching",
    "shared_like",
]


def shared_floatx(
    value: Any,
    name: str | None = None,
    borrow: bool = False,
    dtype: Any = None,
    **kwargs: Any,
) -> Any:
    """Make a shared variable of the engine's default floating point type.

    Parameters
    ----------
    value : array_like
    name : str, optional
    borrow : bool, optional
        Whether the variable may keep the array itself.
    dtype : str or numpy.dtype, optional
        Another type than the default.
    **kwargs
        For the engine's ``shared``.
    """
    engine = current()
    value = numpy.asarray(value, dtype=dtype or engine.floatX)
    return engine.shared(value, name=name, borrow=borrow, **kwargs)


def shared_floatx_zeros(shape: Any, name: str | None = None, **kwargs: Any) -> Any:
    """Make a shared variable full of zeros."""
    return shared_floatx(numpy.zeros(shape), name=name, **kwargs)


def shared_floatx_nans(shape: Any, name: str | None = None, **kwargs: Any) -> Any:
    """Make a shared variable full of NaN, which shows where it is used too early."""
    return shared_floatx(numpy.full(shape, numpy.nan), name=name, **kwargs)


def shared_floatx_zeros_matching(
    shared_variable: Any, name: str | None = None, **kwargs: Any
) -> Any:
    """Make a shared variable of zeros with shape and type of another one.

    The broadcast pattern is kept too: without it, an update computed from
    both would have another type than the variable it is for.
    """
    value = shared_variable.get_value(borrow=True)
    return current().shared(
        numpy.zeros(value.shape, dtype=value.dtype),
        name=name,
        **_static_shape(shared_variable),
        **kwargs,
    )


def shared_like(variable: Any, name: str | None = None, **kwargs: Any) -> Any:
    """Make a shared variable of the type of ``variable``, with no elements yet.

    Parameters
    ----------
    variable : variable of the graph, or a number
    name : str, optional
        That of ``variable`` by default.
    **kwargs
        For the engine's ``shared``.
    """
    variable = current().tensor.as_tensor_variable(variable)
    # One where the type says one; elsewhere the first value decides.
    shape = tuple(1 if is_one else 0 for is_one in variable.type.broadcastable)
    value = numpy.zeros(shape, dtype=variable.dtype)
    return current().shared(value, name=name or variable.name, **_static_shape(variable), **kwargs)


def _static_shape(variable: Any) -> dict[str, Any]:
    broadcastable = variable.type.broadcastable
    if current().name == "theano":
        return {"broadcastable": broadcastable}
    return {"shape": tuple(1 if is_one else None for is_one in broadcastable)}
