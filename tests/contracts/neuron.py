"""What every neuron layer owes its users; a member's test class inherits this and says how to build itself."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from neuro import Static
from neuro.neurons import Neuron
from neuro.types import unroll


class NeuronContract:
    """Inherit, and define `make`; where parameters have the layer's shape, `make_for` too."""

    constants = ("tau=", "decay=")

    def make(self) -> Neuron:
        raise NotImplementedError

    def make_for(self, shape, dtype=torch.float64) -> Neuron:
        """A neuron that fits one tick's input, whose shape without the batch is given."""
        return self.make()

    def currents(self, *shape, seed=0, dtype=torch.float64):
        return torch.rand(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype) * 1.5

    def loop(self, neuron, current, state=None):
        """The obvious reference: one step after the other."""
        outputs = []
        state = neuron.initial_state(current[0]) if state is None else state
        for tick in current:
            output, state = neuron.step(tick, state)
            outputs.append(output)
        return torch.stack(outputs), state

    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
    @pytest.mark.parametrize("shape", [(1, 2, 3), (7, 2, 5), (4, 2, 3, 5, 5)])
    def test_simulate_is_the_step_loop(self, dtype, shape):
        neuron, current = self.make_for(shape[2:], dtype), self.currents(*shape, dtype=dtype)
        outputs, state = neuron.simulate(current)
        expected, last = self.loop(neuron, current)
        assert torch.equal(outputs, expected)
        assert all(torch.equal(a, b) for a, b in zip(state, last, strict=True))
        assert outputs.shape == current.shape
        assert outputs.dtype == dtype

    def test_simulate_and_the_step_loop_have_the_same_gradient(self):
        neuron = self.make_for((5,))
        weights = torch.linspace(-1, 1, 7, dtype=torch.float64)[:, None, None]
        gradients = []
        for run in (neuron.simulate, lambda current: self.loop(neuron, current)):
            current = self.currents(7, 2, 5).requires_grad_()
            outputs, state = run(current)
            ((outputs * weights).sum() + state[0].sum()).backward()
            gradients.append(current.grad)
        assert gradients[0].abs().sum() > 0
        torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-12, atol=1e-14)

    def test_calling_twice_gives_the_same(self):
        neuron, current = self.make_for((5,)), self.currents(6, 2, 5)
        first, second = neuron(current), neuron(current)
        assert torch.equal(first[0], second[0])
        assert torch.equal(first[1][0], second[1][0])

    def test_the_input_and_the_state_given_are_not_written_to(self):
        neuron, current = self.make_for((3,)), self.currents(5, 2, 3)
        _, state = neuron.simulate(current)
        copies = current.clone(), state[0].clone()
        neuron.simulate(current, state)
        assert torch.equal(current, copies[0])
        assert torch.equal(state[0], copies[1])

    @given(cut=st.integers(1, 7), seed=st.integers(0, 1000))
    def test_a_cut_in_time_changes_nothing_when_the_state_is_passed_on(self, cut, seed):
        neuron, current = self.make_for((3,)), self.currents(8, 2, 3, seed=seed)
        whole, last = neuron.simulate(current)
        early, state = neuron.simulate(current[:cut])
        late, final = neuron.simulate(current[cut:], state)
        assert torch.equal(torch.cat([early, late]), whole)
        assert torch.equal(final[0], last[0])

    def test_the_state_matters(self):
        neuron, current = self.make_for((3,)), torch.full((5, 2, 3), 0.55, dtype=torch.float64)
        charged = tuple(part + 0.7 for part in neuron.initial_state(current[0]))
        assert not torch.equal(neuron.simulate(current, charged)[0], neuron.simulate(current)[0])

    @given(order=st.permutations(range(5)), seed=st.integers(0, 1000))
    def test_permuting_the_batch_permutes_the_outputs(self, order, seed):
        neuron, current = self.make_for((3,)), self.currents(6, 5, 3, seed=seed)
        outputs, state = neuron.simulate(current)
        moved, moved_state = neuron.simulate(current[:, list(order)])
        assert torch.equal(moved, outputs[:, list(order)])
        assert torch.equal(moved_state[0], state[0][list(order)])

    def test_a_static_input_is_the_input_repeated(self):
        neuron, value = self.make_for((4,)), self.currents(3, 4)
        outputs, state = neuron.simulate(Static(value, 6))
        expected, last = neuron.simulate(unroll(Static(value, 6)).clone())
        assert torch.equal(outputs, expected)
        assert torch.equal(state[0], last[0])

    def test_spikes_are_zeros_and_ones(self):
        neuron = self.make_for((5,))
        outputs, _ = neuron.simulate(self.currents(30, 4, 5) * 2 - 1)
        binary = ((outputs == 0) | (outputs == 1)).all()
        assert bool(binary) is neuron.is_spiking
        assert 0 < outputs.abs().sum() < outputs.numel() * 10

    def test_no_time_step_at_all_is_refused(self):
        with pytest.raises(ValueError, match=r"At least one time step.*T = 0"):
            self.make_for((3,)).simulate(torch.zeros(0, 2, 3))
        with pytest.raises(ValueError, match=r"T = 0"):
            self.make_for((3,)).simulate(Static(torch.zeros(2, 3), 0))

    def test_a_state_of_another_shape_is_refused_naming_both(self):
        neuron = self.make_for((3,))
        state = neuron.initial_state(torch.zeros(2, 4))
        with pytest.raises(ValueError, match=rf"{type(neuron).__name__}.*\[2, 4\].*\[2, 3\]"):
            neuron.simulate(torch.zeros(5, 2, 3), state)

    def test_a_state_of_another_dtype_is_refused_naming_both(self):
        neuron = self.make_for((3,))
        state = neuron.initial_state(torch.zeros(2, 3, dtype=torch.float64))
        with pytest.raises(ValueError, match=r"float64.*float32"):
            neuron.simulate(torch.zeros(5, 2, 3), state)

    def test_the_state_never_enters_the_state_dict(self):
        neuron = self.make_for((3,))
        learned = {name for name, _ in neuron.named_parameters()}
        assert set(neuron.state_dict()) == learned
        neuron.simulate(self.currents(3, 2, 3))
        assert set(neuron.state_dict()) == learned
        assert not list(neuron.buffers())

    def test_it_runs_on_every_device(self, device):
        neuron, current = self.make_for((5,), torch.float32), self.currents(6, 2, 5, dtype=torch.float32)
        expected, _ = neuron.simulate(current)
        outputs, state = neuron.to(device).simulate(current.to(device))
        assert outputs.device.type == state[0].device.type == device.type
        torch.testing.assert_close(outputs.cpu(), expected)

    def test_a_state_on_another_device_is_refused_naming_both(self):
        neuron = self.make_for((3,), torch.float32)
        state = neuron.initial_state(torch.zeros(2, 3, device="meta"))
        with pytest.raises(ValueError, match=r"on meta.*on cpu"):
            neuron.simulate(torch.zeros(5, 2, 3), state)

    def test_it_shows_its_constants(self):
        assert any(constant in repr(self.make()) for constant in self.constants)
