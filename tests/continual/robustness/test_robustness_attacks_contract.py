"""Every attack keeps the contract."""

from contracts.attack import AttackContract

from continual.robustness import FGSM, MIFGSM, PGD, CarliniWagner, l2


class TestFGSM(AttackContract):
    def make(self):
        return FGSM()


class TestPGD(AttackContract):
    def make(self):
        return PGD(steps=10, restarts=2)


class TestMIFGSM(AttackContract):
    def make(self):
        return MIFGSM(steps=8)


class TestCarliniWagner(AttackContract):
    threats = (l2(0.3),)

    def make(self):
        return CarliniWagner(steps=40, searches=4, learning_rate=0.05, initial_constant=0.1)
