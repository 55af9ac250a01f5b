"""Every attack keeps the contract."""

from contracts.attack import AttackContract

from continual.robustness import (
    APGD,
    FAB,
    FGSM,
    MIFGSM,
    PGD,
    Boundary,
    CarliniWagner,
    Margin,
    RandomNoise,
    Square,
    TargetedAPGD,
    TargetedMargin,
    WorstCase,
    l2,
)


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


class TestAPGD(AttackContract):
    def make(self):
        return APGD(steps=15, restarts=2)


class TestMarginAPGD(AttackContract):
    def make(self):
        return APGD(steps=15, loss=Margin())


class TestTargetedAPGD(AttackContract):
    def make(self):
        return TargetedAPGD(steps=10, num_targets=3, loss=TargetedMargin())


class TestFAB(AttackContract):
    def make(self):
        return FAB(steps=15, num_targets=3)


class TestSquare(AttackContract):
    def make(self):
        return Square(queries=100)


class TestBoundary(AttackContract):
    threats = (l2(0.3),)

    def make(self):
        return Boundary(steps=60, starts=50)


class TestWorstCase(AttackContract):
    def make(self):
        return WorstCase([FGSM(), APGD(steps=5, loss=Margin()), Square(queries=20)])


class TestRandomNoise(AttackContract):
    def make(self):
        return RandomNoise(draws=60)

    def test_finds_most_of_what_there_is_to_find(self):
        """It does not, and that is the point of it."""
