"""A vision transformer in the runner: token rows are presynaptic rows, and what has none stands still."""

import numpy as np
import pytest
import torch
from tiny_runs import launch, records_of, weights_of

from continual.models import vision_transformer
from neuro.lateral import Eigen, GrowingShare, protect, weight_sites

SMALL = ("model=vision_transformer", "model.patch=4", "model.width=8", "model.heads=2", "model.inner=16")
TASK = ("scenario=split", "scenario.mode=task", "scenario.num_tasks=5", "optimizer=adam", "optimizer.lr=0.01")


@pytest.mark.parametrize("strategy", ["naive", "naive_frozen", "er", "ewc", "gpm", "hlop"])
def test_every_kind_of_strategy_trains_it(tmp_path, strategy):
    result = launch(tmp_path, *SMALL, *TASK, f"strategy={strategy}", "epochs=2")
    assert np.isfinite(result.metrics["acc_final"])
    ranks = [line["subspaces"] for line in records_of(result.folder) if line["event"] == "task_end"][-1]
    protected = {layer["name"] for layer in ranks}
    if strategy in ("gpm", "hlop"):
        assert sum("projections" in name for name in protected) == 2 * 4
        assert "vit.embedding.project" in protected
        assert all(0 < layer["rank"] <= layer["width"] for layer in ranks)
    else:
        assert protected == set()


@pytest.mark.parametrize("strategy", ["naive_frozen", "gpm", "hlop"])
def test_what_has_no_presynaptic_side_stands_still_from_the_second_task_on(tmp_path, strategy):
    first, *later = weights_of(launch(tmp_path, *SMALL, *TASK, f"strategy={strategy}").folder)
    sites = {f"{site.layer}.weight" for site in weight_sites(vision_transformer((8, 8), 10, 4, 8, 2, 16))}
    still = {name for name in first if name not in sites and not name.startswith("vit.head")}
    assert any("positions" in name for name in still)
    assert "vit.class_token" in still
    assert any("bias" in name for name in still)
    for weights in later:
        assert all(torch.equal(weights[name], first[name]) for name in still)
        assert any(not torch.equal(weights[name], first[name]) for name in sites)


def test_an_old_image_is_answered_as_before_whatever_is_learned_later():
    """Every linear map keeps what it does to the old tokens' rows, and all else stands still: so does the answer."""
    torch.manual_seed(0)
    model = vision_transformer((8, 8), 4, 4, 32, 2, 48).double()
    old = torch.rand(1, 8, 8, dtype=torch.float64)
    before = model(old).detach()
    protection = protect(model, Eigen(), GrowingShare(1 - 1e-13))
    protection.end_task([old])
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=0.05)
    for step in range(3):
        optimizer.zero_grad()
        fresh = torch.rand(5, 8, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(step))
        model(fresh).square().sum().backward()
        optimizer.step()
        protection.after_step()
    torch.testing.assert_close(model(old), before, rtol=0, atol=1e-5)
    assert float((model(fresh) - before).abs().max()) > 0.1


def test_patches_that_do_not_tile_the_image_are_refused():
    with pytest.raises(ValueError, match="do not tile"):
        vision_transformer((28, 28), 10, patch=5)
