import json
import os
import subprocess

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


def test_a_search_and_a_batch_of_sensors_are_planned_within_their_memory():
    search, sense = plan.search(memory=1 << 30, length=4, haplotypes=500), plan.sense(memory=10 << 30)
    for found, job, memory, step in ((search, "search", 1 << 30, "rotate_hoisted"), (sense, "sense", 10 << 30, "bilinear")):
        assert found.job == job and 0 < found.peak <= found.memory == memory
        assert found.steps == found.program_steps + found.again
        assert step in str(found) and str(found).startswith("costs are not measured")
    assert sense.inputs > sense.memory and sense.read > 0
    # a longer pattern has more maps, and one more place beside the others
    assert plan.search(memory=1 << 30, length=5, haplotypes=500).program_steps > search.program_steps
    assert plan.search(memory=1 << 30, length=4, haplotypes=500, places=2).inputs < search.inputs * 2


def test_a_search_has_the_steps_and_the_peak_that_the_command_line_plans(binary, tmp_path):
    # it measures costs first, and stores them here, not in the user's own folder
    environment = {**os.environ, "TOBARI_CACHE": str(tmp_path)}
    words = ["plan", "search", "--json", "--memory", "2GiB", "--threads", "1", "--length", "2", "--haplotypes", "30"]
    ran = subprocess.run([str(binary), *words], capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    here = plan.search(memory=told["values"], length=2, haplotypes=30)
    assert (here.job, here.steps, here.peak, here.read) == (told["job"], told["steps"], told["peak"], told["read"])


def test_a_plan_that_there_is_none_for_is_refused():
    for wrong in ((4, 12, 1 << 20), (0, 1, 1 << 30), (10_000, 1, 1 << 30)):
        with pytest.raises(tobari.Error):
            plan.matrix(*wrong)
    for wrong in ({"length": 11}, {"places": 5}, {"haplotypes": 0}):
        with pytest.raises(tobari.Error, match="expected"):
            plan.search(memory=1 << 30, **wrong)
    for job in (plan.search, plan.sense):
        with pytest.raises(tobari.Error, match="needs .* bytes"):
            job(memory=1 << 20)
