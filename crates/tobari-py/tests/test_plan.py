import pytest

import tobari
from tobari import plan


def test_what_is_not_protected_is_done_where_it_is_cheapest():
    free, guarded = plan.infer(protect=[]), plan.infer(protect=["data", "model"])
    assert free.seconds < guarded.seconds
    assert free.seconds == pytest.approx(sum(step.seconds + step.moving_seconds for step in free.steps))
    assert len(free.steps) == len(guarded.steps) and {step.site for step in free.steps} == {"process"}
    assert guarded.relaxations and all(way.seconds < guarded.seconds for way in guarded.relaxations)
    for step in guarded.steps:
        assert step.layer in str(guarded)


def test_without_an_enclave_everything_is_encrypted_or_there_is_no_plan():
    found = plan.infer(protect=["data"], enclave=False)
    assert {step.site for step in found.steps} == {"process"}
    assert found.seconds > plan.infer(protect=["data"]).seconds


def test_words_that_mean_nothing_are_refused():
    for wrong in ({"protect": ["everything"]}, {"reset": "often"}):
        with pytest.raises(tobari.Error, match="expected"):
            plan.infer(**wrong)


def test_less_memory_moves_more_and_never_takes_more_than_it_has():
    roomy, tight = plan.matrix(4, 12, memory=4 << 30), plan.matrix(4, 12, memory=400 << 20)
    assert roomy.program_steps == tight.program_steps and roomy.inputs == tight.inputs
    assert tight.peak <= 400 << 20 < roomy.peak <= 4 << 30
    assert tight.read > roomy.read and tight.kept >= roomy.kept
    assert "GiB" in str(tight) or "MiB" in str(tight)


def test_a_plan_that_there_is_none_for_is_refused():
    for wrong in ((4, 12, 1 << 20), (0, 1, 1 << 30), (10_000, 1, 1 << 30)):
        with pytest.raises(tobari.Error):
            plan.matrix(*wrong)
