"""The linear algorithms in plain numpy, written from their equations.

Each function returns the weights after every step, so that the compiled loops can
be followed all the way.  y is -1/+1; numbers t start at 1.
"""

import numpy as np


def online_svm(X, y, reg, project=True):
    """Bagnell's notes, algorithm 1."""
    w, path = np.zeros(X.shape[1]), []
    for t, (x, label) in enumerate(zip(X, y), start=1):
        alpha = 1 / (reg * t)
        if label * (w @ x) < 1:
            w = (1 - alpha * reg) * w + alpha * label * x
        else:
            w = (1 - alpha * reg) * w
        if project and w @ w > 1 / reg:
            w = w / (np.sqrt(w @ w) * np.sqrt(reg))
        path.append(w)
    return np.array(path)


def average_of_iterates(path, start=0):
    """The mean of the iterates from number `start` on, after every step."""
    out = path.copy()
    for t in range(start, len(path)):
        out[t] = path[start : t + 1].mean(axis=0)
    return out


def mini_batches(X, y, reg, size):
    """Bagnell's notes: the averaged gradient of a batch, then one step; ends after n//size."""
    w, path = np.zeros(X.shape[1]), []
    for t in range(1, len(X) // size + 1):
        batch = range((t - 1) * size, t * size)
        gradient = np.mean(
            [-y[i] * X[i] if y[i] * (w @ X[i]) < 1 else 0 * X[i] for i in batch], axis=0
        )
        eta = 1 / (reg * t)
        w = (1 - eta * reg) * w - eta * gradient
        path.append(w)
    return np.array(path)


def sgd_with_intercept(X, y, reg, t0):
    """SGD on f(w, b): 1/(reg (t0 + t)) for w, 1/sqrt(t) for the unregularized b."""
    w, b, path = np.zeros(X.shape[1]), 0.0, []
    for t, (x, label) in enumerate(zip(X, y), start=1):
        eta = 1 / (reg * (t0 + t))
        violated = label * (w @ x + b) < 1
        w = (1 - eta * reg) * w + (eta * label * x if violated else 0)
        b = b + (label / np.sqrt(t) if violated else 0)
        path.append(np.append(w, b))
    return np.array(path)


def bounded_descent(X, y, reg, t0, dloss, curvature, weight=None):
    """SGD on f(w, b) whose steps never go beyond the example that they learn.

    The example's weight c is lowered to where c curvature (eta ||x||^2 + eta_b) = 1.
    """
    w, b, path = np.zeros(X.shape[1]), 0.0, []
    for t, (x, target) in enumerate(zip(X, y), start=1):
        eta, eta_b = 1 / (reg * (t0 + t)), 1 / np.sqrt(t)
        c = 1.0 if weight is None else weight[t - 1]
        c = min(c, 1 / (curvature * (eta * (x @ x) + eta_b)))
        xi = dloss(target, w @ x + b)
        w = (1 - eta * reg) * w - eta * c * xi * x
        b = b - eta_b * c * xi
        path.append(np.append(w, b))
    return np.array(path)


def batch_gradient_descent(X, y, reg, eta, epochs):
    """The slides' baseline: one full gradient per step."""
    w, b, path = np.zeros(X.shape[1]), 0.0, []
    for _ in range(epochs):
        bad = y * (X @ w + b) < 1
        gradient = reg * w - (bad * y) @ X / len(X)
        w, b = w - eta * gradient, b + eta * np.mean(bad * y)
        path.append(np.append(w, b))
    return np.array(path)


def online_subgradient(X, y, eta, radius=None):
    """Kitani, algorithms 1 and 2, for the hinge loss."""
    w, path = np.zeros(X.shape[1]), []
    for x, label in zip(X, y):
        if label * (w @ x) < 1:
            w = w + eta * label * x
        if radius is not None and np.linalg.norm(w) > radius:
            w = w * radius / np.linalg.norm(w)
        path.append(w)
    return np.array(path)


def lazy_subgradient(X, y, eta, radius, size=1):
    """Kitani, algorithm 2 as printed: theta is never projected; `size` rows a step."""
    theta, w, path = np.zeros(X.shape[1]), np.zeros(X.shape[1]), []
    for start in range(0, len(X), size):
        batch = range(start, min(start + size, len(X)))
        theta = theta - eta * np.mean(
            [-y[i] * X[i] if y[i] * (w @ X[i]) < 1 else 0 * X[i] for i in batch], axis=0
        )
        w = theta * min(1, radius / max(np.linalg.norm(theta), 1e-300))
        path.append(w)
    return np.array(path)


def soft_svm(X, y, reg):
    """Kitani, algorithm 3, with theta."""
    theta, w, path = np.zeros(X.shape[1]), np.zeros(X.shape[1]), []
    for t, (x, label) in enumerate(zip(X, y), start=1):
        if label * (w @ x) < 1:
            theta = theta + label * x
        w = theta / (reg * (t + 1))
        path.append(w)
    return np.array(path)


def perceptron(X, y):
    """Kitani, algorithm 4; a score of 0 is a mistake."""
    w, path = np.zeros(X.shape[1]), []
    for x, label in zip(X, y):
        if label * (w @ x) <= 0:
            w = w + label * x
        path.append(w)
    return np.array(path)


# ------------------------------------------------ xi of the multi-output losses


def one_vs_rest_hinge(f, label):
    signs = np.where(np.arange(len(f)) == label, 1.0, -1.0)
    return np.where(signs * f < 1, -signs, 0.0)


def crammer_singer(f, label, distance=None):
    """Margin 1 to every other label, or the distance to it in the label graph."""
    distance = np.ones(len(f)) if distance is None else distance[label]
    rivals = np.where(np.arange(len(f)) == label, -np.inf, distance + f)
    rival, xi = int(np.argmax(rivals)), np.zeros(len(f))
    if rivals[rival] - f[label] > 0:
        xi[label], xi[rival] = -1, 1
    return xi


def softmax(f, label):
    p = np.exp(f - f.max())
    p /= p.sum()
    p[label] -= 1
    return p


def multi_output(X, labels, K, reg, xi_of, eta_of):
    """Steps eta_of(t) on K weight vectors with a joint derivative xi."""
    W, path = np.zeros((K, X.shape[1])), []
    for t, (x, label) in enumerate(zip(X, labels), start=1):
        eta = eta_of(t)
        xi = xi_of(W @ x, label)
        W = (1 - eta * reg) * W - eta * np.outer(xi, x)
        path.append(W)
    return np.array(path)


def scalar_loss_descent(X, y, reg, eta0, tau, dloss):
    """eta0 sqrt(tau/(tau + t)) steps for any scalar loss, intercept included."""
    w, b, path = np.zeros(X.shape[1]), 0.0, []
    for t, (x, target) in enumerate(zip(X, y), start=1):
        eta = eta0 * np.sqrt(tau / (tau + t))
        xi = dloss(target, w @ x + b)
        w, b = (1 - eta * reg) * w - eta * xi * x, b - eta * xi
        path.append(np.append(w, b))
    return np.array(path)
