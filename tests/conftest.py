"""What every test file shares: devices, one torch thread, and how hypothesis looks for counterexamples."""

import os

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Shapes and types of the engine's signatures are enforced while tests run, and only then.
install_import_hook(["neuro.kernels", "neuro.lateral.hebbian", "neuro.lateral.projection"], "beartype.beartype")

pytest.register_assert_rewrite("contracts")

# A contract's law is inherited by each member's test class, which hypothesis would otherwise take for a mistake.
INHERITED = [HealthCheck.differing_executors, HealthCheck.too_slow]
settings.register_profile("local", deadline=None, max_examples=25, suppress_health_check=INHERITED)
settings.register_profile("ci", parent=settings.get_profile("local"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture(scope="session", autouse=True)
def _one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(params=["cpu", "cuda", "mps"])
def device(request):
    """Every kind of device there is; the others are skipped with the reason."""
    present = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not present[request.param]:
        pytest.skip(f"no {request.param} device on this machine")
    return torch.device(request.param)
