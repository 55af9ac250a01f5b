"""The verdict: honest networks pass, and each kind of trick is found."""

import json

import torch
from contracts.attack import answers, generator, pictures, smooth_network

from continual.robustness import Battery, Target, linf

QUICK = Battery(steps=20, queries=300, noise_draws=50)
THREAT = linf(0.08)


def checked(model, images=None, labels=None, battery=QUICK, threat=THREAT):
    images = images if images is not None else pictures(60)
    honest = smooth_network()
    labels = labels if labels is not None else answers(honest, images)
    return battery(model, images, labels, threat, generator())


def failed(verdict):
    return {check.name for check in verdict.failed}


def test_an_honest_network_passes_everything():
    verdict = checked(smooth_network())
    assert verdict.status == "reliable", str(verdict)
    names = [check.name for check in verdict.checks]
    assert len(names) == len(set(names)) == 10
    assert {check.name for check in verdict.checks if check.passed is None} == {"transfer is not stronger"}


def test_a_verdict_can_be_read_by_a_program():
    verdict = checked(smooth_network())
    plain = json.loads(json.dumps(verdict.as_dict()))
    assert plain["status"] == "reliable"
    assert {"name", "passed", "evidence", "meaning"} == set(plain["checks"][0])
    assert "verdict: reliable" in str(verdict)


def test_rounding_the_input_masks_gradients_and_is_found_in_many_ways():
    model = smooth_network()
    verdict = checked(lambda x: model((x * 32).round() / 32))
    assert verdict.status == "unreliable"
    assert {"gradients", "black box is not stronger", "whole box reaches chance", "noise is not as strong"} <= failed(
        verdict
    )


def test_saturated_single_precision_softmax_starves_cross_entropy_and_is_found():
    model = smooth_network(dtype=torch.float32)
    images = pictures(60, dtype=torch.float32)
    verdict = checked(lambda x: model(x) * 1e4, images, answers(model, images))
    assert {"gradients", "black box is not stronger"} <= failed(verdict)


def test_a_gradient_that_points_the_wrong_way_is_found_by_transfer_too():
    model = smooth_network()

    def backwards(x):
        return model(2 * x.detach() - x)

    verdict = checked(backwards, battery=Battery(steps=20, queries=300, noise_draws=50, source=model))
    assert {"transfer is not stronger", "black box is not stronger", "whole box reaches chance"} <= failed(verdict)
    assert "gradients" not in failed(verdict), "they are not zero, only misleading"


def test_answers_that_depend_on_the_batch_are_found():
    model = smooth_network()
    verdict = checked(lambda x: model(x - 0.3 * (x - x.mean(0))))
    assert "same answers alone" in failed(verdict)


def test_answers_that_change_between_calls_are_found_and_nothing_else_is_asked():
    model = smooth_network()
    verdict = checked(lambda x: model(x) + 0.1 * torch.rand(len(x), 5))
    assert failed(verdict) == {"same answers again"}
    assert all(check.passed is None for check in verdict.checks[1:])
    assert "stochastic=True" in verdict.failed[0].meaning


def test_declared_randomness_is_not_held_against_a_network():
    model = smooth_network()

    def noisy(x):
        return model(x + 0.01 * torch.randn(x.shape, dtype=x.dtype))

    verdict = checked(Target(noisy, stochastic=True, gradient_draws=4, decision_draws=5))
    skipped = {check.name for check in verdict.checks if check.passed is None}
    assert {"same answers again", "same answers alone"} <= skipped
    assert "gradients" not in failed(verdict)


def test_too_few_steps_are_found():
    verdict = checked(smooth_network(), battery=Battery(steps=1, queries=20, noise_draws=5), threat=linf(0.15))
    assert "steps suffice" in failed(verdict)


def test_a_constant_network_has_nothing_to_cross_and_is_not_called_reliable():
    labels = torch.arange(60) % 5
    verdict = checked(lambda x: x.flatten(1)[:, :5] * 0 + torch.eye(5, dtype=x.dtype)[0] * 3, labels=labels)
    whole = next(check for check in verdict.checks if check.name == "whole box reaches chance")
    assert whole.passed is None
    assert "gradients" in failed(verdict)
