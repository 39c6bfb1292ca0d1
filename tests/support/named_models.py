"""Models whose parameters are hard to tell apart by name."""

import numpy as np

from blocks_checkpoint.engines import current
from blocks_checkpoint.miniblocks.bricks import Linear, Sequence
from blocks_checkpoint.miniblocks.initialization import Constant
from blocks_checkpoint.miniblocks.model import Model
from blocks_checkpoint.miniblocks.roles import PARAMETER, add_role


def variable(name=None, owner=None, tag_name=None, parameter=False):
    made = current().shared(np.zeros(2), name=name)
    if owner is not None:
        made.tag.for_parameter = owner
    if tag_name is not None:
        made.tag.name = tag_name
    if parameter:
        add_role(made, PARAMETER)
    return made


def applied(*bricks):
    value = current().tensor.matrix("x")
    for brick in bricks:
        value = brick.apply(value)
    return value.sum()


def linear(name):
    return Linear(2, 2, weights_init=Constant(0), biases_init=Constant(0), name=name)


def two_of_one_name_in_one_brick():
    return Model(applied(Sequence([linear("linear").apply, linear("linear").apply], name="pair")))


def two_top_bricks_of_one_name():
    return Model(applied(linear("linear"), linear("linear")))


def one_brick_with_two_parents():
    tied = linear("tied")
    parents = [Sequence([tied.apply], name="second"), Sequence([tied.apply], name="first")]
    return Model(applied(*parents))


def variables_beside_bricks():
    bare = [variable(name, parameter=True) for name in ("bare", "bare", None, "a/b.c")]
    return Model(applied(linear("linear")) + sum(each.sum() for each in bare))


def one_parameter_in_two_bricks():
    first, second = linear("first"), linear("second")
    first.allocate()
    second.allocate()
    second.parameters[0] = first.parameters[0]
    return Model(applied(first, second))
