"""Refreshes: computations that go on beyond their levels, and keys in pieces."""

import numpy as np
import pytest

from tobari import Error, ckks

# the set of half the degree: a gigabyte of keys, and a second for a refresh
SET, SCALE = "pbwt-bits", 29


@pytest.fixture(scope="module")
def party():
    parameters = ckks.Parameters(SET)
    secret, refresh = ckks.SecretKey(parameters), ckks.Refresh(parameters, slots=16)
    told = []
    keys = refresh.keys(secret, progress=lambda *now: told.append(now))
    assert told == sorted(told) and told[-1] == (len(refresh), len(refresh))
    assert refresh.keys_memory <= keys.memory < 1.01 * refresh.keys_memory
    # 51 bits of a slot, over the degree: 2^11 here, 2^16 in the named sets
    assert 34 < refresh.failure_bits < 48
    return secret, refresh, keys


def test_a_computation_goes_on_for_three_refreshes(party):
    secret, refresh, keys = party
    numbers = np.linspace(-0.9, 0.9, 10)
    x = secret.encrypt(numbers, level=refresh.least_level, scale_bits=SCALE)
    for _ in range(3):
        x = refresh.refresh(x, keys)
        assert x.level == refresh.level == 8 and x.shape == (10,)
        # the result has keys for products; the first level's prime is too large for this scale
        x = x.to_level(7)
        x, numbers = x * x * -1 + 0.5, 0.5 - numbers**2
        x = x.with_scale_of(secret.encrypt(0, level=5, scale_bits=SCALE))
        assert np.abs(secret.decrypt(x) - numbers).max() < min(x.error, 0.02)
    assert len(secret.decrypt(refresh.refresh(secret.encrypt([0.5] * 16, level=5, scale_bits=SCALE), keys))) == 16


def test_a_refresh_tells_its_steps_and_can_be_interrupted(party):
    secret, refresh, keys = party
    x = secret.encrypt([0.5, -0.25], level=4, scale_bits=SCALE)
    told = []
    y = refresh.refresh(x, keys, progress=lambda *now: told.append(now))
    assert told == sorted(told) and told[-1][0] == told[-1][1] >= 8
    assert np.abs(secret.decrypt(y) - [0.5, -0.25]).max() < y.error

    def interrupted(*_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        refresh.refresh(x, keys, progress=interrupted)
    assert np.abs(secret.decrypt(refresh.refresh(x, keys)) - [0.5, -0.25]).max() < y.error


def test_keys_in_pieces_and_wrong_ones(party):
    secret, refresh, keys = party
    parameters = ckks.Parameters(SET)
    stranger = ckks.SecretKey(parameters)
    with pytest.raises(Error, match="missing"):
        ckks.RefreshKeys.from_pieces(refresh, [refresh.piece(secret, 0)])
    with pytest.raises(Error, match="key"):
        ckks.RefreshKeys.from_pieces(refresh, [refresh.piece(secret, 1), refresh.piece(stranger, 2)])
    with pytest.raises(Error, match="below"):
        refresh.piece(secret, len(refresh))
    x = secret.encrypt(np.ones(17), level=4, scale_bits=SCALE)
    with pytest.raises(Error, match="Refresh of more slots"):
        refresh.refresh(x, keys)
    with pytest.raises(Error, match="smaller scale"):
        refresh.refresh(secret.encrypt([1.0], level=4, scale_bits=40), keys)
    with pytest.raises(Error, match="Keys|key|refresh"):
        refresh.refresh(stranger.encrypt([1.0], level=4, scale_bits=SCALE), keys)
    with pytest.raises(Error, match="power of two"):
        ckks.Refresh(parameters, slots=3)
    with pytest.raises(Error, match="bits alone"):
        ckks.Refresh(parameters, slots=4, bits=33, complex=True)


def test_bits_become_bits_again(party):
    secret, _, _ = party
    refresh = ckks.Refresh(ckks.Parameters(SET), slots=4, bits=33)
    keys = ckks.RefreshKeys.from_pieces(refresh, (refresh.piece(secret, number) for number in range(len(refresh))))
    x = secret.encrypt([1.0, 0.0, 0.97, 0.03], level=5, scale_bits=33)
    found = secret.decrypt(refresh.refresh(x, keys))
    assert np.abs(found - [1, 0, 1, 0]).max() < 3e-3
