"""Functions with derivatives of their own, vector spaces, and traces by hand."""

from __future__ import annotations

import gc
import weakref

import numpy as onp  # noqa: ICN001  # np is the module under test
import pytest

import tapegrad
import tapegrad.compat.autograd.numpy as np
from tapegrad.compat.autograd import grad, hessian, jacobian, make_jvp, make_vjp
from tapegrad.compat.autograd.builtins import isinstance as is_instance, type as type_of
from tapegrad.compat.autograd.core import backward_pass
from tapegrad.compat.autograd.extend import (
    Box,
    JVPNode,
    Node,
    SparseObject,
    VJPNode,
    VSpace,
    def_linear,
    defjvp,
    defjvp_argnum,
    defvjp,
    defvjp_argnum,
    defvjp_argnums,
    notrace_primitive,
    primitive,
    vspace,
)
from tapegrad.compat.autograd.misc import const_graph, flatten
from tapegrad.compat.autograd.misc.flatten import flatten_func
from tapegrad.compat.autograd.misc.tracers import full_graph
from tapegrad.compat.autograd.test_util import (
    check_equivalent,
    check_grads,
    check_jvp,
    check_vjp,
    combo_check,
)
from tapegrad.compat.autograd.tracer import getval, isbox, new_box, trace
from tapegrad.core.values.tensor import Tensor

X = onp.array([0.3, -1.2, 2.0])


@pytest.mark.usefixtures("on_the_cpu")
def test_a_primitive_gets_raw_values_and_so_do_its_rules():
    seen = []

    @primitive
    def logsumexp(x):
        seen.append(type(x))
        top = onp.max(x)
        return top + onp.log(onp.sum(onp.exp(x - top)))

    def rule(ans, x):
        seen.extend([type(ans), type(x)])
        return lambda g: onp.full(x.shape, g) * onp.exp(x - ans)

    defvjp(logsumexp, rule)
    found = grad(logsumexp)(X)

    onp.testing.assert_allclose(found, onp.exp(X) / onp.exp(X).sum())
    assert seen == [onp.ndarray, onp.float64, onp.ndarray]


def test_rules_written_with_our_numpy_give_every_order_and_mode():
    @primitive
    def scaled_exp(x, y):
        return onp.exp(x) * y

    defvjp(
        scaled_exp, lambda ans, x, y: lambda g: g * ans, lambda ans, x, y: lambda g: g * np.exp(x)
    )

    check_grads(scaled_exp, (0, 1))(X, X**2)
    onp.testing.assert_allclose(
        hessian(lambda x: np.sum(scaled_exp(x, 1.0)))(X), onp.diag(onp.exp(X))
    )
    onp.testing.assert_allclose(jacobian(scaled_exp)(X, X), onp.diag(onp.exp(X) * X))


def test_rules_belong_to_numbered_arguments():
    @primitive
    def pick(name, x, y):
        return x * y

    defvjp(pick, None, lambda ans, name, x, y: lambda g: g * x, argnums=[1, 2])

    assert grad(pick, 2)("name", 3.0, 4.0) == 3.0
    assert grad(pick, 1)("name", 3.0, 4.0) == 0.0


def test_one_rule_can_serve_all_arguments():
    product = primitive(lambda *xs: onp.prod(xs))
    defvjp_argnum(product, lambda n, ans, xs, kwargs: lambda g: g * ans / xs[n])
    both = primitive(lambda x, y: x * y)
    defvjp_argnums(both, lambda ns, ans, xs, kwargs: lambda g: (g * xs[1 - n] for n in ns))

    assert grad(product, (0, 2))(2.0, 3.0, 4.0) == (12.0, 6.0)
    assert grad(both, (0, 1))(2.0, 3.0) == (3.0, 2.0)


def test_forward_rules_are_used_in_forward_mode():
    square = primitive(lambda x, k: x**2 * k)
    defjvp(square, lambda g, ans, x, k: 2 * x * k * g, "same")
    linear = primitive(lambda a, x: a @ x)
    def_linear(linear)
    by_number = primitive(lambda x, y: x + y)
    defjvp_argnum(by_number, lambda argnum, g, ans, args, kwargs: (argnum + 1.0) * g)
    flat = primitive(lambda x: onp.floor(x))
    defjvp(flat, None)

    assert make_jvp(square)(3.0, 2.0)(1.0) == (18.0, 12.0)
    assert make_jvp(square, 1)(3.0, 2.0)(1.0)[1] == 9.0
    onp.testing.assert_allclose(make_jvp(linear, 1)(onp.eye(3), X)(X)[1], X)
    assert make_jvp(by_number, (0, 1))(1.0, 1.0)((1.0, 1.0))[1] == 3.0
    assert make_jvp(flat)(1.5)(1.0)[1] == 0.0
    check_grads(square, (0, 1), modes=["fwd"])(3.0, 2.0)


def test_missing_rules_are_named():
    nothing = primitive(lambda x: x**2)
    nothing.__name__ = "nothing"
    half = primitive(lambda x, y: x * y)
    defvjp(half, lambda ans, x, y: lambda g: g * y)
    defjvp(half, lambda g, ans, x, y: g * y)

    with pytest.raises(NotImplementedError, match=r"VJP of nothing for arguments \[0\] is not"):
        grad(nothing)(2.0)
    with pytest.raises(NotImplementedError, match="for argument 1 is not defined"):
        grad(half, 1)(2.0, 3.0)
    with pytest.raises(NotImplementedError, match=r"JVP of .* for argument 1 is not defined"):
        make_jvp(half, 1)(2.0, 3.0)(1.0)


def test_rules_that_are_none_or_no_functions_are_refused():
    f = primitive(lambda x: x)

    with pytest.raises(TypeError, match="must be a function or None"):
        defvjp(f, "same")
    with pytest.raises(TypeError, match="must be a function, 'same' or None"):
        defjvp(f, 3)


def test_a_rule_with_the_wrong_shape_is_named():
    f = primitive(lambda x: onp.sum(x))
    defvjp(f, lambda ans, x: lambda g: onp.ones(2))

    with pytest.raises(ValueError, match=r"must have shape \(3,\).*Its rule returned \(2,\)"):
        grad(f)(X)


def test_primitives_take_and_return_containers():
    @primitive
    def swap(pair):
        return {"first": pair[1] * 2.0, "second": pair[0]}

    defvjp(swap, lambda ans, pair: lambda g: (g["second"], 2.0 * g["first"]))

    def f(x, y):
        out = swap((x, y))
        return out["first"] * out["second"]

    assert grad(f, (0, 1))(3.0, 5.0) == (10.0, 6.0)


def test_a_rule_may_return_a_sparse_object():
    take = primitive(lambda x, i: x[i])

    def rule(ans, x, i):
        def add_to(whole, g):
            whole[i] += g
            return whole

        return lambda g: SparseObject(vspace(x), lambda whole: add_to(whole, g))

    defvjp(take, rule)

    assert grad(lambda x: take(x, 1) ** 2)(X).tolist() == [0.0, -2.4, 0.0]


def test_a_derivative_can_be_given_to_a_function_of_numpy():
    from tapegrad.compat.autograd.dispatch import dispatched
    from tapegrad.compat.autograd.primitives import primitive_vjps

    cube = dispatched("cube", lambda x: x**3, lambda x: x**3)
    defvjp(cube, lambda ans, x: lambda g: -g)

    assert grad(cube)(2.0) == -1.0
    del primitive_vjps[cube]
    assert grad(cube)(2.0) == 12.0


def test_primitives_can_be_methods():
    class Model:
        @primitive
        def energy(self, x):
            return x**2

    defvjp(Model.energy, None, lambda ans, self, x: lambda g: 2 * x * g)

    assert grad(Model().energy)(3.0) == 6.0


def test_old_spellings_of_rules_work_and_warn():
    times = primitive(lambda x, y: x * y)
    with pytest.warns(DeprecationWarning, match="defvjp is deprecated"):
        times.defvjp(lambda g, ans, vs, gvs, x, y: g * y)
    with pytest.warns(DeprecationWarning, match="defgrad is deprecated"):
        times.defgrad(lambda ans, x, y: lambda g: g * x, argnum=1)
    zero = primitive(lambda x: 0.0 * x)
    with pytest.warns(DeprecationWarning, match="defvjp_is_zero is deprecated"):
        zero.defvjp_is_zero()

    assert grad(times, (0, 1))(2.0, 3.0) == (3.0, 2.0)
    assert grad(zero)(2.0) == 0.0


def test_a_primitive_frees_its_history_without_the_collector():
    f = primitive(lambda x, scale: onp.exp(x) * scale)
    defvjp(f, lambda ans, x, scale: lambda g: g * ans)
    constant = onp.ones(3)
    alive = weakref.ref(constant)
    gc.collect()
    gc.disable()
    try:
        before = sum(isinstance(x, Tensor) for x in gc.get_objects())
        grad(lambda x, scale: np.sum(f(x, scale)))(X, constant)
        hessian(lambda x, scale: np.sum(f(x, scale)))(X, constant)
        after = sum(isinstance(x, Tensor) for x in gc.get_objects())
        del constant
        freed = alive() is None
    finally:
        gc.enable()

    assert after == before
    assert freed


def test_what_is_not_traced_is_a_constant():
    count = notrace_primitive(lambda x: float(onp.sum(x > 0)))

    assert grad(lambda x: np.sum(x) * count(x))(X).tolist() == [2.0, 2.0, 2.0]


@pytest.mark.usefixtures("on_the_cpu")
def test_boxes_are_traced_values():
    seen = []

    def f(x):
        seen.append((isbox(x), isinstance(x, Box), type(getval(x))))
        seen.append((type_of(x), is_instance(x, float), new_box(x, 0, None) is x))
        return x * 2.0

    grad(f)(1.0)

    assert seen == [(True, True, onp.float64), (onp.float64, True, True)]
    assert not isbox(1.0)
    with pytest.raises(TypeError, match="tracing starts with"):
        new_box(1.0, 0, None)
    with pytest.raises(TypeError, match="Values of type str cannot be traced"):
        Box.register(str)


def test_nodes_of_ones_own_see_every_operation():
    class Named(Node):
        def __init__(self, value, fun, args, kwargs, parent_argnums, parents):
            self.words = f"{fun.__name__}({', '.join(p.words for p in parents)})"

        def initialize_root(self, words):
            self.words = words

    value, node = trace(Named.new_root("x"), lambda x: np.sin(x) * x + 1.0, 2.0)

    assert value == onp.sin(2.0) * 2.0 + 1.0
    assert node.words == "add(multiply(sin(x), x))"
    assert trace(Named.new_root("x"), lambda x: 3.0, 2.0) == (3.0, None)


def test_nodes_of_both_modes_can_be_traced():
    value, node = trace(VJPNode.new_root(), lambda x: x**3, 2.0)
    assert (value, backward_pass(1.0, node)) == (8.0, 12.0)

    value, node = trace(JVPNode.new_root(1.0), lambda x: x**3, 2.0)
    assert (value, node.g) == (8.0, 12.0)


def test_a_constant_graph_runs_python_once():
    calls = []

    def f(x, y):
        calls.append(1)
        return grad(lambda x: np.sin(x) + x * 2)(x * y)

    again = const_graph(f)

    for pair in ((0.0, 0.0), (1.0, 0.5), (0.3, 2.0)):
        onp.testing.assert_allclose(again(*pair), onp.cos(pair[0] * pair[1]) + 2.0)
    assert len(calls) == 1
    with pytest.raises(ValueError, match="depends on the argument"):
        const_graph(lambda x: 1.0)(2.0)


def test_a_full_graph_holds_values_and_recipes():
    node = full_graph(lambda x, y: x * y, 3.0, 4.0)

    assert node.value == 12.0
    assert node.recipe[0](3.0, 5.0) == 15.0
    assert [place for place, _ in node.recipe[3]] == [0, 1]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_rule_with_another_number_of_parts_is_refused(count):
    both = primitive(lambda pair: (pair[0] * pair[1], pair[0] + pair[1]))
    defvjp(both, lambda ans, pair: lambda g: (1.0,) * count)
    defjvp(both, lambda g, ans, pair: (1.0,) * count)

    def total(x):
        return sum(both((x, 2.0)))

    words = r"must have as many parts as {}, 2\. Its rule returned " + str(count)
    with pytest.raises(ValueError, match=words.format("argument 0")):
        grad(total)(3.0)
    with pytest.raises(ValueError, match=words.format("the result")):
        make_jvp(total)(3.0)(1.0)


@pytest.mark.parametrize("value", [1.5, X, 1j * X, [1.0, {"a": X}], (2.0, 3.0)])
def test_spaces_have_zeros_ones_and_a_basis(value):
    space = vspace(value)
    basis = list(space.standard_basis())

    assert len(basis) == space.size
    check_equivalent(space.add(space.zeros(), value), value)
    total = space.zeros()
    for vector in basis:
        total = space.mut_add(total, vector)
    check_equivalent(total, space.ones())
    assert vspace(space.randn()) == space
    check_grads(space.add)(value, value)
    check_grads(space.inner_prod)(space.randn(), space.randn())


def test_arrays_are_added_in_place_and_tensors_are_not():
    x, y = onp.array([1.0, 2.0]), onp.array([10.0, 20.0])
    a, b = tapegrad.constant(x), tapegrad.constant(y)
    space = vspace(onp.array([1.0, 2.0]))

    sums = [space.mut_add(a, b), space.mut_add(x.copy(), b), space.mut_add(a, y)]
    total = space.mut_add(x, y)

    assert total is x
    for found in (*sums, total):
        assert onp.asarray(found).tolist() == [11.0, 22.0]
    assert (a.numpy().tolist(), b.numpy().tolist(), y.tolist()) == ([1, 2], [10, 20], [10, 20])
    assert vspace(1.0).mut_add(1.0, 2.0) == 3.0


def test_values_of_other_types_have_no_space_unless_one_is_registered():
    class Point(VSpace):
        def __init__(self, value):
            self.size = 2

    with pytest.raises(TypeError, match="no vector space for values of type range"):
        vspace(range(2))
    Point.register(range)
    assert vspace(range(2)).size == 2
    with pytest.raises(NotImplementedError, match=r"Point has no zeros\(\)"):
        vspace(range(2)).zeros()
    del VSpace.mappings[range]


def test_flatten_and_back_in_both_directions():
    value = (1.0, onp.ones((2, 3)), [X, {"x": 2, "y": ()}])
    vector, unflatten = flatten(value)

    assert vector.tolist() == [1.0] + [1.0] * 6 + [*X, 2.0]
    check_equivalent(
        unflatten(vector), (1.0, onp.ones((2, 3)), [X, {"x": onp.float64(2.0), "y": ()}])
    )
    back, _ = make_vjp(unflatten)(vector)
    onp.testing.assert_allclose(back(unflatten(vector)), vector)
    assert flatten_func(lambda p: p["a"] ** 2, {"a": X})[0](X).tolist() == (X**2).tolist()
    assert flatten([])[0].shape == (0,)


def test_the_checks_notice_wrong_derivatives():
    wrong = primitive(lambda x: x**2)
    defvjp(wrong, lambda ans, x: lambda g: g * 3 * x)
    defjvp(wrong, lambda g, ans, x: g * 3 * x)

    with pytest.raises(AssertionError, match=r"\(VJP\) check of .* failed"):
        check_vjp(wrong, 3.0)
    with pytest.raises(AssertionError, match="The values differ"):
        check_jvp(wrong, 3.0)
    with pytest.raises(AssertionError, match="different spaces"):
        check_equivalent(1.0, X)
    with pytest.raises(ValueError, match="modes may hold"):
        check_grads(wrong, modes=["backwards"])(3.0)
    combo_check(lambda x, y, power: x * y**power, (0, 1))([1.0, 2.0], [3.0], power=[1, 2])
