"""Every example in a doc-string of neuro runs, and importing neuro has no side effect."""

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import neuro

MODULES = ["neuro", *(module.name for module in pkgutil.walk_packages(neuro.__path__, "neuro."))]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_its_doc_strings_run(name):
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module)
    assert failed == 0
    assert module.__doc__


def test_there_are_examples():
    found = sum(len(doctest.DocTestFinder().find(importlib.import_module(name))) for name in MODULES)
    examples = sum(
        len(test.examples) > 0
        for name in MODULES
        for test in doctest.DocTestFinder().find(importlib.import_module(name))
    )
    assert found > examples >= 6


@pytest.mark.parametrize("name", MODULES)
def test_what_a_package_exports_exists_and_is_sorted_as_the_linter_sorts_it(name):
    module = importlib.import_module(name)
    exported = getattr(module, "__all__", [])
    assert len(set(exported)) == len(exported)
    assert all(hasattr(module, attribute) for attribute in exported)


def test_importing_neuro_touches_neither_torchs_random_stream_nor_its_defaults_nor_the_runner():
    check = (
        "import sys, torch\n"
        "torch.manual_seed(0); before = torch.random.get_rng_state(); kept = torch.get_default_dtype()\n"
        "import neuro, neuro.lateral, neuro.models, neuro.learning\n"
        "assert torch.equal(torch.random.get_rng_state(), before)\n"
        "assert torch.get_default_dtype() == kept and torch.is_grad_enabled()\n"
        "assert not {'continual', 'transformers_core', 'hydra', 'matplotlib.pyplot'} & set(sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
