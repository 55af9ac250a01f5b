"""What a sequence of tasks did to each of them: every figure of the report as a pure function of the accuracy matrix.

``R[i, j]`` is the accuracy on task ``j`` after training on task ``i`` (``T`` tasks, counted from 1 in the formulas
below and from 0 in the arrays), ``b_j`` that of the untrained network and ``n_j`` the number of test samples. Metrics
of one name differ between papers and libraries, so each function states its own formula and, in one line, what others
print under that name. A metric that is undefined (too few tasks, an entry it needs is NaN) is NaN, never 0.

Sources: Lopez-Paz and Ranzato (2017) for backward and forward transfer; Chaudhry et al. (2018) for forgetting and
intransigence; Diaz-Rodriguez et al. (2018) for the triangular average; Rebuffi et al. (2017) for the incremental
average; De Lange et al. (2023) for minimum and worst-case accuracy. Deliberate difference: averages over old tasks
divide by T-1, the number of terms, where the code released with Gradient Episodic Memory divides by T.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .accuracy_matrix import checked_counts

Vector = NDArray[np.float64]


def acc_final(R: ArrayLike) -> float:
    """Average the last row over tasks: ``(1/T) sum_j R[T, j]`` (Lopez-Paz and Ranzato, 2017, "ACC").

    Elsewhere: some libraries weight by test samples under the same name; here that is :func:`acc_final_weighted`.

    Args:
        R: ``[T, T]`` accuracies.

    Returns:
        Accuracy in [0, 1], or NaN when an entry of the last row is missing.
    """
    return float(_matrix(R)[-1].mean())


def acc_final_weighted(R: ArrayLike, counts: ArrayLike) -> float:
    """Average the last row over test samples: ``sum_j n_j R[T, j] / sum_j n_j``.

    Elsewhere: called "stream accuracy" or "total accuracy", or simply accuracy.

    Args:
        R: ``[T, T]`` accuracies.
        counts: ``[T]`` test samples per task, all above zero.

    Returns:
        Accuracy in [0, 1], or NaN when an entry of the last row is missing.
    """
    matrix = _matrix(R)
    return float(np.average(matrix[-1], weights=checked_counts(counts, len(matrix))))


def acc_inc_avg_taskmean(R: ArrayLike) -> float:
    """Average over steps the plain mean over tasks seen: ``(1/T) sum_i (1/i) sum_{j<=i} R[i, j]``.

    Elsewhere: "average incremental accuracy" names this or the weighted form; some leave out the first step.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.

    Returns:
        Accuracy in [0, 1], or NaN when an entry of the lower triangle is missing.
    """
    return float(mean_over_seen(R).mean())


def acc_inc_avg_weighted(R: ArrayLike, counts: ArrayLike) -> float:
    """Average over steps the sample-weighted accuracy on tasks seen (Rebuffi et al., 2017, iCaRL).

    ``(1/T) sum_i (sum_{j<=i} n_j R[i, j] / sum_{j<=i} n_j)``. Elsewhere: see :func:`acc_inc_avg_taskmean`.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.
        counts: ``[T]`` test samples per task, all above zero.

    Returns:
        Accuracy in [0, 1], or NaN when an entry of the lower triangle is missing.
    """
    matrix = _matrix(R)
    weights = checked_counts(counts, len(matrix))
    steps = [np.average(matrix[i, : i + 1], weights=weights[: i + 1]) for i in range(len(matrix))]
    return float(np.mean(steps))


def acc_a(R: ArrayLike) -> float:
    """Average all entries with ``i >= j``: ``(2 / (T (T+1))) sum_{i>=j} R[i, j]`` (Diaz-Rodriguez et al., 2018).

    Elsewhere: printed as plain "accuracy" by one data library; early tasks weigh more than in :func:`acc_final`.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.

    Returns:
        Accuracy in [0, 1], or NaN when an entry of the lower triangle is missing.
    """
    matrix = _matrix(R)
    return float(matrix[np.tril_indices(len(matrix))].mean())


def acc_learning(R: ArrayLike) -> float:
    """Average the diagonal, each task's accuracy right after learning it: ``(1/T) sum_j R[j, j]``.

    Elsewhere: "learning accuracy" (Riemer et al., 2019), also used as a proxy of plasticity.

    Args:
        R: ``[T, T]`` accuracies.

    Returns:
        Accuracy in [0, 1], or NaN when a diagonal entry is missing.
    """
    return float(np.diagonal(_matrix(R)).mean())


def bwt(R: ArrayLike) -> float:
    """Average what later tasks did to earlier ones: ``(1/(T-1)) sum_{j<T} (R[T, j] - R[j, j])``.

    Source: Lopez-Paz and Ranzato (2017). Negative means forgetting; read it beside :func:`acc_learning`, for a network
    that learns nothing forgets nothing. Elsewhere: divided by T in released code; averaged over the lower triangle by
    Diaz-Rodriguez et al. (2018).

    Args:
        R: ``[T, T]`` accuracies.

    Returns:
        Value in [-1, 1]; NaN for T = 1 or where an entry is missing.
    """
    matrix = _matrix(R)
    return _mean((matrix[-1] - np.diagonal(matrix))[:-1])


def fwt(R: ArrayLike, baseline: ArrayLike) -> float:
    """Average what earlier tasks gave to a task not yet trained: ``(1/(T-1)) sum_{j>=2} (R[j-1, j] - b_j)``.

    Source: Lopez-Paz and Ranzato (2017). It has no meaning where the rows of the head for task j are still untrained at
    step j-1; the matrix cannot tell, so the caller must (``untrained_rows`` of :func:`continual.metrics.summarise`).
    Elsewhere: divided by T; without the baseline; over the whole upper triangle; or for
    :func:`transfer_independent`, another quantity.

    Args:
        R: ``[T, T]`` accuracies including the first upper diagonal.
        baseline: ``[T]`` accuracies of the untrained network of the same run.

    Returns:
        Value in [-1, 1]; NaN for T = 1 or where an entry is missing.
    """
    matrix = _matrix(R)
    untrained = _vector("baseline", baseline, len(matrix))
    return _mean(np.diagonal(matrix, offset=1) - untrained[1:])


def forgetting_per_task(R: ArrayLike) -> Vector:
    """Compare each old task's best accuracy with its last: ``f_j = max_{j<=l<=T-1} R[l, j] - R[T, j]`` for ``j < T``.

    Source: Chaudhry et al. (2018). Negative when the last task improved on the best so far. Elsewhere: the maximum
    includes the final row (then never negative) or rows before j (zero-shot), or gives way to ``R[j, j]`` (then -BWT).

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.

    Returns:
        ``[T-1]`` values in [-1, 1], NaN where an entry is missing; empty for T = 1.
    """
    matrix = _matrix(R)
    return np.array([matrix[j:-1, j].max() - matrix[-1, j] for j in range(len(matrix) - 1)], dtype=np.float64)


def forgetting(R: ArrayLike) -> float:
    """Average :func:`forgetting_per_task` over the T-1 old tasks (Chaudhry et al., 2018).

    Elsewhere: some code divides by T, some clips at zero; see :func:`forgetting_per_task` for the maximum.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.

    Returns:
        Value in [-1, 1]; NaN for T = 1 or where an entry is missing.
    """
    return _mean(forgetting_per_task(R))


def intransigence_per_task(R: ArrayLike, joint_reference: ArrayLike) -> Vector:
    """Compare joint training with each task's accuracy when learnt: ``a*_k - R[k, k]`` (Chaudhry et al., 2018).

    Elsewhere: the reference may be trained on all tasks or on 1..k, with equal or with unlimited budget; name the run.

    Args:
        R: ``[T, T]`` accuracies.
        joint_reference: ``[T]``, ``a*_k`` = accuracy on task k of a model trained jointly on tasks 1..k, same budget.

    Returns:
        ``[T]`` values in [-1, 1]; positive = the sequence made the task harder to learn.
    """
    matrix = _matrix(R)
    return _vector("joint_reference", joint_reference, len(matrix)) - np.diagonal(matrix)


def intransigence(R: ArrayLike, joint_reference: ArrayLike) -> float:
    """Average :func:`intransigence_per_task` over all T tasks.

    Elsewhere: given for the last task only in the source paper's tables.

    Args:
        R: ``[T, T]`` accuracies.
        joint_reference: ``[T]`` accuracies of the joint references.

    Returns:
        Value in [-1, 1], or NaN where an entry is missing.
    """
    return float(intransigence_per_task(R, joint_reference).mean())


def transfer_independent(R: ArrayLike, alone: ArrayLike) -> Vector:
    """Compare each task's accuracy when learnt in sequence and alone: ``R[k, k] - s_k``.

    Elsewhere: papers on trust-region projection print its mean as "FWT"; it is not forward transfer in the sense of
    :func:`fwt`.

    Args:
        R: ``[T, T]`` accuracies.
        alone: ``[T]``, ``s_k`` = accuracy on task k trained alone from the same initial weights.

    Returns:
        ``[T]`` values in [-1, 1]; positive = the earlier tasks helped.
    """
    matrix = _matrix(R)
    return np.diagonal(matrix) - _vector("alone", alone, len(matrix))


def plasticity(R: ArrayLike, alone: ArrayLike) -> float:
    """Average :func:`transfer_independent` over all T tasks: ``(1/T) sum_k (R[k, k] - s_k)``.

    Elsewhere: papers on loss of plasticity plot ``R[k, k]`` against k, or count dead units.

    Args:
        R: ``[T, T]`` accuracies.
        alone: ``[T]`` accuracies of each task trained alone.

    Returns:
        Value in [-1, 1], or NaN where an entry is missing.
    """
    return float(transfer_independent(R, alone).mean())


def min_acc(R: ArrayLike) -> Vector:
    """Take each task's lowest accuracy at the ends of later tasks: ``min_{l>j} R[l, j]``, and ``R[T, T]`` for the last.

    Source: De Lange et al. (2023), who evaluate within tasks too; this matrix knows only the ends of tasks, so dips in
    between are not seen. Elsewhere: the number depends on how often one evaluates.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.

    Returns:
        ``[T]`` values in [0, 1], NaN where an entry is missing.
    """
    matrix = _matrix(R)
    old = [matrix[j + 1 :, j].min() for j in range(len(matrix) - 1)]
    return np.array([*old, matrix[-1, -1]], dtype=np.float64)


def wc_acc(R: ArrayLike) -> float:
    """Weigh the newest task against the worst moments of the old: ``R[T, T]/T + (1 - 1/T) mean_{j<T} min_acc_j``.

    Source: De Lange et al. (2023), here at the ends of tasks only. Elsewhere: with evaluations within tasks, so lower.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.

    Returns:
        Accuracy in [0, 1], or NaN where an entry is missing; for T = 1 the accuracy itself.
    """
    # The two weights of the formula, 1/T for the last and (1 - 1/T)/(T - 1) for each other task, are equal.
    return float(min_acc(R).mean())


def mean_over_seen(R: ArrayLike) -> Vector:
    """Average each row over the tasks seen so far: ``A_i = (1/i) sum_{j<=i} R[i, j]``.

    Elsewhere: "average accuracy" names the whole curve, its last point or its mean.

    Args:
        R: ``[T, T]`` accuracies; the upper triangle is not read.

    Returns:
        ``[T]`` values in [0, 1], NaN where an entry is missing.
    """
    matrix = _matrix(R)
    return np.array([matrix[i, : i + 1].mean() for i in range(len(matrix))], dtype=np.float64)


def _matrix(R: ArrayLike) -> NDArray[np.float64]:
    matrix = np.asarray(R, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.size == 0:
        raise ValueError(f"R must be a T x T matrix with T >= 1, but its shape is {matrix.shape}.")
    return matrix


def _vector(name: str, values: ArrayLike, num_tasks: int) -> Vector:
    vector = np.asarray(values, dtype=np.float64)
    if vector.shape != (num_tasks,):
        raise ValueError(
            f"{name} must have shape ({num_tasks},), but it has {vector.shape}; give one accuracy per task."
        )
    return vector


def _mean(terms: Vector) -> float:
    """Return the mean, or NaN of no terms (numpy would warn)."""
    return float(terms.mean()) if terms.size else math.nan
