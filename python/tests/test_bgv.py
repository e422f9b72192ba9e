import pickle

import numpy as np
import pytest

import tobari
from tobari import bgv

T = 65_537


@pytest.fixture(scope="module")
def secret():
    return bgv.SecretKey(bgv.Parameters("bgv-c"))


@pytest.fixture(scope="module")
def keys(secret):
    return secret.evaluation_keys(rotations=[1, -3], swap=True)


def centred(values):
    return (np.asarray(values) + T // 2) % T - T // 2


@pytest.fixture
def vectors():
    rng = np.random.default_rng(1)
    return rng.integers(-(2**40), 2**40, size=(2, 16_384))


def test_every_slot_is_that_of_numpy_modulo_t(secret, keys, vectors):
    a, b = vectors
    x, y = secret.encrypt(a), secret.public_key().encrypt(b)
    cases = {
        "x + y": (x + y, a + b),
        "x - y": (x - y, a - b),
        "-x": (-x, -a),
        "x + array": (x + b, a + b),
        "array - x": (b - x, b - a),
        "x * array": (x * b, (a % T) * (b % T)),
        "array * x": (b * x, (a % T) * (b % T)),
        "x + 5": (x + 5, a + 5),
        "7 - x": (7 - x, 7 - a),
        "x * -3": (x * -3, a * -3),
        "x * y": (keys.mul(x, y), (a % T) * (b % T)),
        "x ** 3": (x.with_keys(keys) ** 3, [pow(int(value), 3, T) for value in a]),
    }
    for name, (found, expected) in cases.items():
        assert (secret.decrypt(found) == centred(expected)).all(), name


def test_rotations_turn_both_rows_and_rows_are_swapped(secret, keys):
    rows = np.arange(16_384).reshape(2, 8_192)
    x = secret.encrypt(rows.ravel())
    for steps in (1, -3):
        expected = np.roll(rows, -steps, axis=1).ravel()
        assert (secret.decrypt(keys.rotate(x, steps)) == expected).all(), steps
    assert (secret.decrypt(keys.swap_rows(x)) == rows[::-1].ravel()).all()
    with pytest.raises(tobari.Error, match="expected a key"):
        keys.rotate(x, 2)


def test_sums_inner_products_and_polynomials_have_the_names_of_ckks(secret):
    keys = secret.evaluation_keys(multiply=True, sums=8)
    a, b = np.array([3, -1, 4, 1, -5]), np.array([2, 7, -1, 8, 2])
    x, y = secret.encrypt(a), secret.encrypt(b)
    for total in (keys.sum(x), x.with_keys(keys).sum()):
        assert total.shape == (1,) and secret.decrypt(total).tolist() == [a.sum()]
    assert secret.decrypt(keys.dot(x, y)).tolist() == [a @ b]
    # 7 - 2 x + 3 x^3, without and with a constant
    for constant in (0, 7, -(2**63), 2**63 - 1):
        coefficients = [constant, -2, 0, 3]
        expected = centred([(constant - 2 * int(v) + 3 * int(v) ** 3) % T for v in a])
        for value in (keys.polynomial(x, coefficients), x.with_keys(keys).polynomial(coefficients)):
            assert value.shape == (5,) and (secret.decrypt(value) == expected).all()
            # the slots behind the vector are zero still
            assert (secret.decrypt(value, count=16)[5:8] == 0).all()
    assert secret.decrypt(keys.sum(x.with_keys(keys).polynomial([1, 1]))).tolist() == [(a + 1).sum()]
    with pytest.raises(tobari.Error, match="with_keys"):
        x.polynomial([1, 2, 3])
    with pytest.raises(tobari.Error, match="at least one"):
        keys.polynomial(x, [])
    with pytest.raises(tobari.Error, match="expected integers"):
        keys.polynomial(x, [0.5])


def test_whatever_numpy_takes_without_a_change_comes_in(secret):
    for values in ([1, 2], (1, 2), np.array([1, 2], np.uint8), np.array([1, 2, 9])[:2], np.array([1, 9, 2])[::2], np.array([True, 0]) + [0, 2]):
        assert secret.decrypt(secret.encrypt(values)).tolist() == [1, 2]
    assert secret.decrypt(secret.encrypt(7)).tolist() == [7]
    assert secret.decrypt(secret.encrypt([[1, 2, 3], [4, 5, 6]])).tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    "values, text",
    [
        ([1.5], "expected integers"),
        ([2**63], "expected integers"),
        (["1"], "expected integers"),
        ([], "at least one number"),
        ([[[1, 2], [3, 4]]], "vector or a matrix"),
        (np.zeros(16_385, int), "fits 16384 slots"),
        (np.zeros((3, 4_097), int), "fits 16384 slots"),
    ],
)
def test_other_numbers_are_refused_and_told(secret, values, text):
    with pytest.raises(tobari.Error, match=text):
        secret.encrypt(values)


def test_a_single_number_fits_every_vector_and_other_lengths_do_not(secret, keys):
    x, one = secret.encrypt([1, 2, 3]), secret.encrypt(10)
    for found in (x + np.array([10]), x + np.int64(10), x + one, one + x, one + [1, 2, 3], one + np.array([1, 2, 3])):
        assert found.shape == (3,) and secret.decrypt(found).tolist() == [11, 12, 13]
    assert secret.decrypt(one - x).tolist() == [9, 8, 7]
    assert secret.decrypt(keys.mul(x, one)).tolist() == [10, 20, 30]
    for wrong in (lambda: x + [1, 2], lambda: x * [1, 2], lambda: x + secret.encrypt([1, 2]), lambda: keys.mul(x, secret.encrypt([1] * 4))):
        with pytest.raises(tobari.Error, match="two equal shapes"):
            wrong()


def test_slots_behind_a_vector_stay_zero_so_that_sums_are_right(secret):
    keys = secret.evaluation_keys(sums=8)
    x = secret.encrypt([1, 2, 3, 4, 5], keys=keys)
    one = secret.encrypt(10)
    for found, expected in [
        (x + 1, 20),
        (1 - x, -10),
        (x + one, 65),
        (one - x, 35),
        (x * x + 1, 60),
        (x * one - one, 100),
        ((x + 1) ** 2, 90),
        (-x * 3 + np.array([2]), -35),
    ]:
        assert found.shape == (5,) and secret.decrypt(found.sum()).tolist() == [expected]
        assert not secret.decrypt(found, count=8)[5:].any()
    # the sum is a number, which fits the vector again
    assert secret.decrypt(x - x.sum()).tolist() == [-14, -13, -12, -11, -10]
    with pytest.raises(tobari.Error, match="sums=16"):
        secret.encrypt(range(9), keys=keys).sum()


def test_products_with_matrices_are_those_of_numpy(secret):
    rng = np.random.default_rng(4)
    for n, m in [(1, 1), (5, 5), (8, 3), (3, 8), (20, 1), (1, 20), (33, 7), (64, 64)]:
        keys = secret.evaluation_keys(matrices=[(n, m)], multiply=False, level=3)
        matrix, vector = rng.integers(-50, 50, (n, m)), rng.integers(-50, 50, n)
        x = secret.encrypt(vector, level=3, keys=keys)
        for found in (x @ matrix, matrix.T @ x, x.dot(matrix)):
            assert found.shape == (m,) and (secret.decrypt(found) == vector @ matrix).all(), (n, m)
        assert (secret.decrypt(x @ matrix + 1, count=m) == vector @ matrix + 1).all()
    with pytest.raises(tobari.Error, match=r"matrices=\[\(100, 3\)\]"):
        secret.encrypt(range(100), level=3, keys=keys) @ rng.integers(0, 9, (100, 3))
    with pytest.raises(tobari.Error, match="as many rows"):
        x @ rng.integers(0, 9, (63, 64))


def test_encrypted_matrices_are_multiplied(secret):
    rng = np.random.default_rng(5)
    a, b, v = rng.integers(-9, 9, (5, 6)), rng.integers(-9, 9, (6, 3)), rng.integers(-9, 9, 6)
    keys = secret.evaluation_keys(matrices=[(5, 6, 3), (5, 6, 1), (6, 64)], sums=64)
    x, y = secret.encrypt(a, keys=keys), secret.encrypt(v)
    for found, expected in [
        (x + a, a + a),
        (x * a, a * a),
        (x * x, a * a),
        (x @ b, a @ b),
        (x @ v, a @ v),
        (x @ y, a @ v),
        (x.sum(), [a.sum()]),
        (x.sum(axis=1), a.sum(axis=1)),
    ]:
        assert (secret.decrypt(found) == expected).all() and secret.decrypt(found).shape == np.shape(expected)
    for wrong in (lambda: b.T @ x, lambda: x @ x, lambda: x.sum(axis=0), lambda: x.sum(axis=2), lambda: x @ 3, lambda: x + v):
        with pytest.raises(tobari.Error, match="expected"):
            wrong()


def test_vectors_of_more_than_a_row_have_sums_and_no_matrices(secret):
    keys = secret.evaluation_keys(sums=16_384, multiply=False)
    x = secret.encrypt(np.arange(9_000), keys=keys)
    assert secret.decrypt(x.sum()).tolist() == [int(centred(np.arange(9_000).sum()))]
    with pytest.raises(tobari.Error, match="8192 slots"):
        x @ np.ones((9_000, 1), int)


def test_operators_without_keys_say_where_keys_go(secret, keys):
    x = secret.encrypt([1, 2])
    for wrong in (lambda: x * x, lambda: x**2, lambda: x @ [1, 2], lambda: x.sum(), lambda: x @ x):
        with pytest.raises(tobari.Error, match="give keys= to encrypt"):
            wrong()
    y = x.with_keys(keys)
    for found in (y * x, x * y, y**2):
        assert secret.decrypt(found).tolist() == [1, 4]
    read = bgv.Ciphertext.from_bytes(bgv.Parameters("bgv-c"), x.to_bytes(), keys=keys)
    assert read.shape is None and secret.decrypt(read * read, count=2).tolist() == [1, 4]
    # 1 behind a vector of unknown length would count in a sum
    for wrong in (lambda: read.sum(), lambda: (read + 1).with_shape([2]), lambda: read.with_shape([2])):
        with pytest.raises(tobari.Error, match="known shape"):
            wrong()
    eight = secret.encrypt([[1, 2], [3, 4], [5, 6], [7, 8]])
    assert secret.decrypt(eight.with_shape([8])).tolist() == [1, 3, 5, 7, 2, 4, 6, 8]
    assert secret.decrypt(secret.encrypt([1, 2, 3]).with_shape([4])).tolist() == [1, 2, 3, 0]
    for shape in ([7], [4], [16], [4, 1], [3, 2]):
        with pytest.raises(tobari.Error, match="all numbers of"):
            eight.with_shape(shape)
    read = bgv.Ciphertext.from_bytes(bgv.Parameters("bgv-c"), x.to_bytes(), shape=(2,), keys=keys)
    assert secret.decrypt(read * read).tolist() == [1, 4]
    with pytest.raises(tobari.Error, match="expected an exponent of at least 1"):
        y**0


def test_parameters_are_made_for_a_depth_and_read_by_name():
    for options, modulus in [({"depth": 2}, T), ({"depth": 1, "modulus": 1_032_193}, 1_032_193), ({"depth": 1, "range": 10**9}, None)]:
        parameters = bgv.Parameters(**options)
        assert parameters.security_bits >= 128 and bgv.Parameters(parameters.name) == parameters
        assert parameters.modulus == modulus if modulus else parameters.modulus > 2 * 10**9
        secret = bgv.SecretKey(parameters)
        keys = secret.evaluation_keys(sums=4)
        x = secret.public_key().encrypt([3, -4, 100], keys=keys)
        for _ in range(options["depth"]):
            x = x * x
        expected = [value ** 2 ** options["depth"] for value in (3, -4, 100)]
        found = [int(value) for value in secret.decrypt(x)]
        assert [(a - b) % parameters.modulus for a, b in zip(found, expected)] == [0, 0, 0]
        assert (int(secret.decrypt(x.sum())[0]) - sum(expected)) % parameters.modulus == 0
        # the other side knows the name alone
        other = bgv.Ciphertext.from_bytes(bgv.Parameters(parameters.name), x.to_bytes(), noise="claimed")
        assert (secret.decrypt(other, count=3) == secret.decrypt(x)).all()
    for wrong, text in [
        ({"depth": 50}, "reduce the depth"),
        ({"depth": 1, "modulus": 7}, "leave the modulus out"),
        ({"depth": 1, "modulus": T, "range": 5}, "found both"),
        ({"name": "bgv-c", "depth": 1}, "found both"),
        ({"range": 5}, "expected a depth"),
        ({"name": "bgv-65537:12:50,50:50:2"}, "at most 106 bits"),
        ({"name": "ckks:14:50,30:50:2"}, "for integers"),
    ]:
        with pytest.raises(tobari.Error, match=text):
            bgv.Parameters(**wrong)


def test_objects_come_back_from_their_bytes_and_compute_the_same(secret, keys):
    parameters = bgv.Parameters("bgv-c")
    again = bgv.SecretKey.from_bytes(parameters, secret.to_bytes())
    public = bgv.PublicKey.from_bytes(parameters, secret.public_key().to_bytes())
    server = bgv.EvaluationKeys.from_bytes(parameters, keys.to_bytes())
    x = secret.encrypt([1, 2, 3])
    seeded, whole = x.to_bytes(), (x + 0).to_bytes()
    assert len(seeded) < 0.6 * len(whole)
    for data in (seeded, whole):
        assert bgv.Ciphertext.from_bytes(parameters, data).to_bytes() == data
        read = bgv.Ciphertext.from_bytes(parameters, data, noise="fresh")
        product = server.mul(read, public.encrypt([4, 5, 6]))
        assert again.decrypt(product, count=3).tolist() == [4, 10, 18]


def test_bytes_do_not_say_how_much_noise_there_is(secret, keys):
    parameters, x = bgv.Parameters("bgv-c"), secret.encrypt([1, 2, 3])
    product = keys.mul(x, x)
    data = product.to_bytes()
    read = bgv.Ciphertext.from_bytes(parameters, data)
    assert read.noise == float("inf") and read.noise_budget == float("-inf") and "unknown noise" in repr(read)
    for unknown in (read, read + 1, read + x, keys.rotate(read, 1)):
        with pytest.raises(tobari.Error, match="nothing is known about the noise"):
            secret.decrypt(unknown)
        with pytest.raises(tobari.Error, match="nothing is known about the noise"):
            unknown.flood(secret.public_key(), 1)
    for noise in ("claimed", product.noise, product.noise + 1):
        known = bgv.Ciphertext.from_bytes(parameters, data, noise=noise)
        assert known.noise_budget > 0 and secret.decrypt(known + 1, count=3).tolist() == [2, 5, 10]
    # the key holder knows that the result has more noise than fits, whatever the bytes claim
    with pytest.raises(tobari.Error, match="expected noise below a quarter"):
        secret.decrypt(bgv.Ciphertext.from_bytes(parameters, data, noise=400))
    for wrong in ("fresher", -1, float("nan"), b"fresh"):
        with pytest.raises((tobari.Error, TypeError)):
            bgv.Ciphertext.from_bytes(parameters, data, noise=wrong)


def test_objects_of_two_keys_do_not_mix(secret, keys):
    parameters = bgv.Parameters("bgv-c")
    other = bgv.SecretKey(parameters)
    x, y = secret.encrypt([1, 2]), other.public_key().encrypt([3, 4])
    read = bgv.Ciphertext.from_bytes(parameters, y.to_bytes(), noise="fresh")
    server = bgv.EvaluationKeys.from_bytes(parameters, other.evaluation_keys(rotations=[1]).to_bytes())
    mixtures = [
        lambda: x + y,
        lambda: x - read,
        lambda: keys.mul(x, y),
        lambda: server.mul(x, x),
        lambda: server.rotate(x + 1, 1),
        lambda: x.flood(other.public_key(), 1),
        lambda: secret.decrypt(y),
        lambda: bgv.SecretKey.from_bytes(parameters, secret.to_bytes()).decrypt(read),
    ]
    for mixture in mixtures:
        with pytest.raises(tobari.Error, match="expected an object of key [0-9a-f]{16}, found one of key"):
            mixture()
    assert other.decrypt(server.mul(read, y), count=2).tolist() == [9, 16]


def test_bytes_that_are_no_object_are_refused(secret, keys):
    parameters = bgv.Parameters("bgv-c")
    data = secret.encrypt([1]).to_bytes()
    for wrong in (b"", data[:-1], data + b"\0", bytes([data[0] ^ 1]) + data[1:], secret.public_key().to_bytes()):
        with pytest.raises(tobari.DecodeError):
            bgv.Ciphertext.from_bytes(parameters, wrong)
    with pytest.raises(tobari.DecodeError):
        bgv.Ciphertext.from_bytes(bgv.Parameters("search"), data)
    with pytest.raises(tobari.DecodeError):
        bgv.SecretKey.from_bytes(parameters, keys.to_bytes())


@pytest.mark.parametrize("least", [-(2**63), 2**63 - 1, -(2**63) + 1])
def test_fault_29_the_ends_of_64_bits_are_taken_modulo_t_in_every_operator(secret, least):
    modulus = bgv.Parameters("bgv-c").modulus
    x = secret.encrypt([5, 7])
    for value in (least, np.array([least, least])):
        for found, expected in [
            (x - value, lambda a: a - least),
            (value - x, lambda a: least - a),
            (x + value, lambda a: a + least),
            (x * value, lambda a: a * least),
        ]:
            assert [int(slot) % modulus for slot in secret.decrypt(found, 2)] == [expected(a) % modulus for a in (5, 7)]


def test_levels_and_noise_are_told_and_no_wrong_number_is_given(secret, keys):
    x = secret.encrypt([3])
    assert x.level == 6 and x.noise_budget > 200
    assert secret.decrypt(x.to_level(1), count=1) == [3]
    for level in (0, 7):
        with pytest.raises(tobari.Error):
            x.to_level(level)
        with pytest.raises(tobari.Error):
            secret.encrypt([1], level=level)
    for _ in range(20):
        x = keys.mul(x, x)
    assert x.noise_budget <= 0
    with pytest.raises(tobari.Error, match="noise"):
        secret.decrypt(x)


def test_a_flooded_result_is_the_same_and_has_less_room(secret):
    x = secret.encrypt([3, 4])
    flooded = (x * [5, 6]).flood(secret.public_key(), 60)
    assert secret.decrypt(flooded, count=2).tolist() == [15, 24]
    assert x.flood(secret.public_key(), 160).noise_budget < flooded.noise_budget - 90
    with pytest.raises(tobari.Error):
        x.flood(secret.public_key(), 4000)


def test_objects_of_different_sets_do_not_mix(secret):
    other = bgv.SecretKey(bgv.Parameters("search"))
    with pytest.raises(tobari.Error, match="bgv-c.*search"):
        secret.decrypt(other.encrypt([1]))
    with pytest.raises(tobari.Error, match="bgv-c.*search"):
        secret.encrypt([1]) + other.encrypt([1])


def test_secrets_are_neither_printed_nor_pickled(secret):
    assert repr(secret) == "<bgv.SecretKey of bgv-c>"
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_sets_are_named_and_others_refused():
    assert bgv.Parameters("bgv-c") == bgv.Parameters() != bgv.Parameters("search")
    assert bgv.Parameters().slots == 16_384 and bgv.Parameters().modulus == T and bgv.Parameters().security_bits == 128
    for name in ("ckks-a", "nothing"):
        with pytest.raises(tobari.Error, match=name):
            bgv.Parameters(name)
    sets = {one["name"]: one for one in tobari.parameter_sets()}
    assert sets["bgv-c"]["scheme"] == "bgv" and sets["ckks-a"]["scheme"] == "ckks"
    assert all(one["security_bits"] >= 128 for one in sets.values())


def test_encrypted_numbers_are_not_compared_in_silence(secret):
    x = secret.encrypt([1])
    for compare in (
        lambda: x == 1,
        lambda: 1 == x,
        lambda: x != x,
        lambda: x < x,
        lambda: np.array([1]) == x,
        lambda: bool(x),
        lambda: not x,
    ):
        with pytest.raises(tobari.Error, match="are hidden"):
            compare()
    assert x is not None and {x: 1}[x] == 1


def test_long_histories_are_those_of_numpy_and_leave_the_padding_alone():
    """Random operations on random shapes: every result is NumPy's, and all slots behind it stay 0."""
    parameters = bgv.Parameters(depth=4)
    secret = bgv.SecretKey(parameters)
    keys = secret.evaluation_keys(rotations=[1], sums=64, matrices=[(3, 5), (5, 3), (8, 2)])
    rng = np.random.default_rng(9)

    def encrypted(array):
        return secret.encrypt(array, keys=keys) if rng.integers(2) else secret.public_key().encrypt(array, keys=keys)

    def numbers(shape):
        return rng.integers(-30, 30, shape)

    def sent(x):
        return x + encrypted(np.zeros(x.shape, int)) if x.is_transparent else x

    done = set()
    for shape in [(1,), (3,), (5,), (8,), (13,), (2, 3), (4, 4), (5, 2)] * 3:
        expected = numbers(shape)
        x = encrypted(expected)
        for _ in range(8):
            other, one = numbers(shape), int(rng.integers(-9, 9))
            plain = {
                "+ array": (lambda: x + other, expected + other),
                "array -": (lambda: other - x, other - expected),
                "+ number": (lambda: x + one, expected + one),
                "number -": (lambda: one - x, one - expected),
                "* number": (lambda: x * one, expected * one),
                "- ciphertext": (lambda: x - encrypted(other), expected - other),
                "+ encrypted number": (lambda: x + encrypted(one), expected + one),
                "encrypted number -": (lambda: encrypted(one) - x, one - expected),
                "-": (lambda: -x, -expected),
                "bytes": (lambda: bgv.Ciphertext.from_bytes(parameters, sent(x).to_bytes(), "claimed", x.shape, keys), expected),
                "* ciphertext": (lambda: x * encrypted(other), expected * other),
                "* encrypted number": (lambda: encrypted(one) * x, expected * one),
                "squared": (lambda: x**2, expected**2),
                "- sum": (lambda: x - x.sum(), expected - expected.sum()),
            }
            for length, width in [(3, 5), (5, 3), (8, 2)]:
                if expected.shape == (length,):
                    matrix = numbers((length, width))
                    plain["@"] = (lambda: x @ matrix, expected @ matrix)
            name = sorted(plain)[rng.integers(len(plain))]
            operation, result = plain[name]
            found = operation()
            if found.noise_budget <= 0:
                with pytest.raises(tobari.Error, match="noise"):
                    secret.decrypt(found)
                break
            x, expected = found, centred(result)
            shape = expected.shape
            assert x.shape == shape and (secret.decrypt(x) == expected).all(), name
            padded = [1 << (length - 1).bit_length() for length in shape]
            slots = np.zeros(padded, int)
            slots[tuple(slice(length) for length in shape)] = expected
            repeated = np.tile(slots.ravel(order="F"), parameters.slots // slots.size)
            assert (secret.decrypt(x, count=parameters.slots) == repeated).all(), name
            done.add(name)
    assert len(done) == 15, done


def test_what_everybody_can_read_is_not_sent(secret):
    x = secret.encrypt([3, 4])
    for zero in (x - x, x * 0):
        assert zero.is_transparent and (secret.decrypt(zero) == 0).all()
        with pytest.raises(tobari.Error, match="transparent"):
            zero.to_bytes()
    assert not x.is_transparent and (x - x + x).to_bytes()
