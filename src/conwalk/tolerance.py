"""Every tolerance of the library, by dtype and size; the only place that holds one."""

import torch

_RECONSTRUCTION = {
    torch.float64: 1e-12,
    torch.float32: 5e-6,
    torch.float16: 1e-2,
    torch.bfloat16: 3e-2,
}
_ROUNDING_STEPS = 64.0
_STORED_ROW = 4.0


def reconstruction(dtype: torch.dtype) -> float:
    """Largest relative residual with which a rebuilt layer counts as exact.

    Args:
        dtype: the dtype in which the model ran.

    Returns:
        A bound on ``theorems.reconstruction.residual``; dimensionless.

    Raises:
        KeyError: the dtype is not a floating dtype that models run in.
    """
    return _RECONSTRUCTION[dtype]


def rounding(dtype: torch.dtype, terms: int = 1) -> float:
    """Relative error that a sum of ``terms`` products may carry by rounding alone.

    The statistical bound: ``64 · eps · sqrt(terms)``.
    """
    return _ROUNDING_STEPS * torch.finfo(dtype).eps * max(terms, 1) ** 0.5


def stored(dtype: torch.dtype) -> float:
    """Relative error of numbers that a model computed and put out in its dtype.

    In half precision products are summed in float32 and rounded once, when they are stored; in
    single and double precision it is the sums that round.
    """
    eps = torch.finfo(dtype).eps
    return eps if eps > torch.finfo(torch.float32).eps else rounding(dtype)


def label(labels: torch.Tensor) -> torch.Tensor:
    """How far integer labels sent through a model may come out from where they went in.

    Half a label is a different channel; a twentieth, and a millionth of the label's size for
    the rounding of what a model adds and takes away again, is not.
    """
    return 0.05 + 1e-6 * labels.abs()


def row_sum(dtype: torch.dtype) -> float:
    """How far a softmax row may be from 1 without leaking: a few roundings of its dtype.

    Models may compute the softmax in float32 whatever their own dtype.
    """
    return max(_STORED_ROW * torch.finfo(dtype).eps, rounding(torch.float32))


def softmax(dtype: torch.dtype) -> float:
    """How far softmax weights may be from the same computed again, in absolute terms.

    Models may compute the softmax in float32 whatever their own dtype, and scores of size 100
    carry a hundred roundings into their exponentials.
    """
    return 16 * row_sum(dtype)
