"""Slow reference twins of the fast code: dense arrays, loops, the formulas as written.

Nothing here is clever and nothing here imports the package: the tests hold the fast
code against these few lines. No function modifies its inputs. Throughout,

X : attributes of a network, shape (n, d), one row per node;
A : its links, shape (n, n), directed, nonzero where linked, zero on the diagonal;
M : a metric, shape (d, d), symmetric, diagonal or full;
triplet : (i, j, l), node i linked to l and not linked to j, j != i.

Distances are squared. A triplet is violated when gap + margin > 0.
"""

import math

import numpy as np

# Distances and triplets ----------------------------------------------------------


def difference(x, y):
    """Return x - y, shape (d,), in float64 whatever the types of x and y, shape (d,)."""
    return np.asarray(x, dtype=float) - np.asarray(y, dtype=float)


def sqdist(M, x, y):
    """Return d_M(x, y) = (x-y)' M (x-y) of M, shape (d, d), and x, y, shape (d,)."""
    diff = difference(x, y)
    return float(diff @ M @ diff)


def gap(M, x_i, x_j, x_l, score="distance"):
    """Return d(i, l) - d(i, j) under M, shape (d, d), for rows of shape (d,).

    With score="similarity" it is 2 x_i'M x_j - 2 x_i'M x_l.
    """
    if score == "similarity":
        return float(2 * np.asarray(x_i, dtype=float) @ M @ difference(x_j, x_l))
    return sqdist(M, x_i, x_l) - sqdist(M, x_i, x_j)


def outer_difference(x_i, x_j, x_l, score="distance"):
    """Return the gradient of the gap by M, a symmetric matrix of shape (d, d), of (d,) rows.

    It is (x_i-x_l)(x_i-x_l)' - (x_i-x_j)(x_i-x_j)', or for score="similarity"
    x_i (x_j-x_l)' + (x_j-x_l) x_i'.
    """
    if score == "similarity":
        product = np.outer(np.asarray(x_i, dtype=float), difference(x_j, x_l))
        return product + product.T
    to_linked = difference(x_i, x_l)
    to_other = difference(x_i, x_j)
    return np.outer(to_linked, to_linked) - np.outer(to_other, to_other)


def enumerate_triplets(A):
    """List all of S for A, shape (n, n): int array, shape (m, 3), columns i, j, l.

    The order is that of the exact draw: by i, then l, then j, each ascending.
    """
    n = len(A)
    triplets = []
    for i in range(n):
        for l in range(n):
            for j in range(n):
                if A[i, l] != 0 and A[i, j] == 0 and j != i:
                    triplets.append((i, j, l))
    return np.array(triplets, dtype=int).reshape(-1, 3)


# One step ------------------------------------------------------------------------


def project(M):
    """Return the nearest PSD matrix to M, (d, d): its negative eigenvalues become 0."""
    values, vectors = np.linalg.eigh(M)
    projected = np.zeros(M.shape)
    for value, vector in zip(values, vectors.T, strict=True):
        projected += max(value, 0.0) * np.outer(vector, vector)
    return projected


def data_subgradient(M, X, triplets, margin, metric, score="distance"):
    """Return the mean outer difference, shape (d, d), and the number of violated ones.

    The sum runs over the violated among the triplets, shape (B, 3), the division is by
    all B; M has shape (d, d), X (n, d); a "diagonal" metric keeps the diagonal only.
    """
    d = X.shape[1]
    gradient = np.zeros((d, d))
    n_violated = 0
    for i, j, l in triplets:
        if gap(M, X[i], X[j], X[l], score) + margin > 0:
            gradient += outer_difference(X[i], X[j], X[l], score)
            n_violated += 1
    gradient /= len(triplets)
    return gradient if metric == "full" else np.diag(np.diag(gradient)), n_violated


def pooled_subgradient(M, X_list, triplets, margin, metric, score="distance"):
    """Return data_subgradient of triplets (task, i, j, l), their rows in X_list[task].

    M has shape (d, d), each of X_list (n_q, d); the mean is over all the triplets.
    """
    gradient = np.zeros(M.shape)
    n_violated = 0
    for q, i, j, l in triplets:
        own, violated = data_subgradient(M, X_list[q], [(i, j, l)], margin, metric, score)
        gradient += own
        n_violated += violated
    return gradient / len(triplets), n_violated


def prior_matrix(prior, d):
    """Return P, shape (d, d): zeros for "zero", the identity for "identity"."""
    return {"zero": np.zeros((d, d)), "identity": np.eye(d)}[prior]


def projection_is_due(projection, t):
    """Tell whether the loop itself projects after iteration t, the last or not."""
    if isinstance(projection, str):
        return {"never": False, "end": False, "every": True}[projection]
    return t % projection == 0


def returned(iterates, projection, average):
    """Return what a fit that ends after these iterates, each (d, d), gives: (d, d).

    The iterates are M^1..M^T as the loop left them, and stay so: a projection that is
    due only because the fit ends here is made on a copy. Projecting what is PSD
    already, as with "every", changes nothing.
    """
    last = iterates[-1]
    if not isinstance(projection, str):  # every k iterations "and after the last"
        last = project(last)
    result = np.mean([*iterates[:-1], last], axis=0) if average else last.copy()
    return result if projection == "never" else project(result)


# Algorithm 1 and Algorithm 2 -----------------------------------------------------


def spml(X_list, triplets, reg, metric, prior, margin, projection, average):
    """Run Algorithm 1 and return (metrics, violations), one entry per iteration.

    X_list : list of arrays, shape (n_q, d); several are pooled.
    triplets : for every iteration a list of (task, i, j, l).
    metrics[t-1] : what a fit with n_iters = t returns, shape (d, d).
    violations[t-1] : number of violated triplets of iteration t, evaluated at M^(t-1).
    """
    d = X_list[0].shape[1]
    P = prior_matrix(prior, d)
    M = np.eye(d)
    iterates, metrics, violations = [], [], []
    for t, batch in enumerate(triplets, start=1):
        step = 1 / (reg * t)
        gradient, n_violated = pooled_subgradient(M, X_list, batch, margin, metric)
        M = M - step * (reg * (M - P) + gradient)
        if projection_is_due(projection, t):
            M = project(M)
        iterates.append(M)
        metrics.append(returned(iterates, projection, average))
        violations.append(n_violated)
    return metrics, violations


def mtspml(X_list, triplets, common_reg, task_regs, metric, margin, projection, project_what, average):
    """Run Algorithm 2 and return (results, violations), one entry per iteration.

    X_list : list over tasks of arrays, shape (n_q, d).
    triplets : for every iteration a list over tasks of lists of (i, j, l).
    results[t-1] : what a fit with n_iters = t returns, a dict of common, shape (d, d),
        tasks and combined, lists over tasks of shape (d, d).
    violations[t-1] : list over tasks of the number of violated triplets.
    """
    d = X_list[0].shape[1]
    # With "combined" the parts themselves are never projected, only their sums.
    part_projection = {"each": projection, "combined": "never"}[project_what]
    common = np.eye(d)
    tasks = [np.eye(d) for _ in X_list]
    evaluated_metrics = [common + task for task in tasks]
    common_iterates = []
    task_iterates = [[] for _ in X_list]
    results, violations = [], []
    for t, batches in enumerate(triplets, start=1):
        # 1. Evaluate the hinge of every task at the metrics of t-1.
        gradients, counts = [], []
        for evaluated_metric, X, batch in zip(evaluated_metrics, X_list, batches, strict=True):
            gradient, n_violated = data_subgradient(evaluated_metric, X, batch, margin, metric)
            gradients.append(gradient)
            counts.append(n_violated)
        violations.append(counts)

        # 2. Step: a task on its own subgradient (10), the common on their sum (9).
        for q, task_reg in enumerate(task_regs):
            step = 1 / (task_reg * t)
            tasks[q] = tasks[q] - step * (task_reg * tasks[q] + gradients[q])
        step = 1 / (common_reg * t)
        common = common - step * (common_reg * (common - np.eye(d)) + sum(gradients))

        # 3. Project the parts, or the sums that the next iteration is evaluated at.
        if projection_is_due(part_projection, t):
            common = project(common)
            tasks = [project(task) for task in tasks]
        evaluated_metrics = [common + task for task in tasks]
        if project_what == "combined" and projection_is_due(projection, t):
            evaluated_metrics = [project(evaluated_metric) for evaluated_metric in evaluated_metrics]

        # 4. Record what a fit ending here returns.
        common_iterates.append(common)
        for q, task in enumerate(tasks):
            task_iterates[q].append(task)
        common_result = returned(common_iterates, part_projection, average)
        task_results = [returned(own, part_projection, average) for own in task_iterates]
        combined = [common_result + task for task in task_results]
        if project_what == "combined" and projection != "never":
            combined = [project(both) for both in combined]
        results.append({"common": common_result, "tasks": task_results, "combined": combined})
    return results, violations


# Factored metrics ----------------------------------------------------------------


def first_factors(seed, d, rank):
    """Return F_0, shape (d, rank): plus or minus .1 / sqrt(rank), 32 signs of a feature from one random word."""
    constant = 0xD1B54A32D192ED03
    F = np.zeros((d, rank))
    for f in range(d):
        for k in range(rank):
            word = mix(mix(int(seed) ^ constant) + ((f << 32) + k - k % 32 + 1) * constant)
            F[f, k] = 0.1 / math.sqrt(rank) * (1 if (word >> (32 + k % 32)) & 1 else -1)
    return F


def factors(F_0, S, G, step):
    """Return F, shape (d, rank), of the sums S, (d, rank), and G, (d,): AdaGrad in dual-averaging form."""
    return F_0 + step * S / np.sqrt(G + 1e-12)[:, None]


def ensemble_factors(F_0, S, G, step, n_members):
    """Return the factors of an ensemble side by side, shape (d, n_members rank), so that F F' is the mean over members."""
    F = factors(F_0, S, G, step)
    return np.hstack([F[m::n_members] for m in range(n_members)]) / math.sqrt(n_members)


def factor_step(F, x_i, x_j, x_l, score):
    """Return what a violated triplet adds to S, (d, rank), and to G, (d,).

    The first is minus the gradient of its gap by F, row by row of i, l and j; the second is the
    sum over i, l and j of the mean square of what each adds to the row of a feature.
    """
    b = {"distance": 1.0, "similarity": 0.0}[score]
    rows = [np.asarray(x, dtype=float) for x in (x_i, x_l, x_j)]
    e_i, e_l, e_j = (x @ F for x in rows)
    directions = [2 * (e_l - e_j), 2 * (e_i - b * e_l), -2 * (e_i - b * e_j)]
    added = [np.outer(x, u) for x, u in zip(rows, directions, strict=True)]
    return sum(added), sum((row**2).mean(axis=1) for row in added)


# Shards --------------------------------------------------------------------------


def sharded(
    X_list, triplets, regs, priors, metric, margin, projection, project_what, n_shards, score="distance", seed=0,
    rank=1, step=0.0, n_members=1
):  # fmt: skip
    """Run Algorithm 1 or 2 in shards and return (totals, violations), one entry per iteration.

    X_list : list over tasks of arrays, shape (n_q, d).
    triplets : for every iteration a list over pools of lists of (task, i, j, l); one pool of
        all tasks (Algorithm 1) or a pool per task (Algorithm 2).
    regs, priors : of the metric, or of the common metric and then every task's; a prior is
        0 or 1, times I.
    seed, rank, step : of the factors of a factored metric, which are common to all tasks.
    n_members : of an ensemble of factors, all of that rank; iteration t trains member t mod
        n_members, and feature f of member m has row f n_members + m.
    totals[t-1] : list over metrics of V after iteration t, shape (d, d): the sum of the
        negated subgradients of iterations 1..t, as changed by projections; then, for factored
        metrics, S, shape (d n_members, rank), and G, shape (d n_members,).
    violations[t-1] : list over pools of the number of violated triplets.

    One stream runs 16 n_shards iterations; then rounds of t / S iterations, S = 4 or a quarter
    of the shards if that is more, are split into shards, which all start from the totals before
    the round. A shard counts what it finds for three quarters of all shards.
    """
    d = X_list[0].shape[1]
    has_tasks, has_factors = len(regs) > 1, metric == "factored"
    part_projection = {"each": projection, "combined": "never"}[project_what]
    n_metrics, n_iters = len(regs), len(triplets)
    F_0, n_rows = first_factors(seed, d * n_members, rank) if has_factors else None, d * n_members
    nothing = [np.zeros((d, d)) for _ in regs] + [np.zeros((n_rows, rank)), np.zeros(n_rows)] * has_factors
    history, violations = [], []

    def plus(sums, factor, found):
        """Return sums + factor * found, array by array."""
        return [one + factor * other for one, other in zip(sums, found, strict=True)]

    def metrics_at(sums, clock):
        """Return the diagonal or full metric of each total at a number of iterations."""
        return [priors[c] * np.eye(d) + sums[c] / (regs[c] * clock) for c in range(n_metrics)]

    def projected_totals(sums, clock):
        """Return the sums with the totals of the projected metrics."""
        metrics = metrics_at(sums, clock)
        projected = [(project(metrics[c]) - priors[c] * np.eye(d)) * regs[c] * clock for c in range(n_metrics)]
        return projected + sums[n_metrics:]

    def negated_subgradients(metrics, F, t):
        """Return what iteration t adds to every sum, and its violations."""
        added, counts = [part.copy() for part in nothing], []
        for pool, batch in enumerate(triplets[t - 1]):
            evaluated_metric = metrics[0] + metrics[1 + pool] if has_tasks else metrics[0]
            if project_what == "combined" and t > 1 and projection_is_due(projection, t - 1):
                evaluated_metric = project(evaluated_metric)
            if has_factors:
                evaluated_metric = evaluated_metric + F @ F.T
            gradient, n_violated = pooled_subgradient(evaluated_metric, X_list, batch, margin, metric, score)
            for c in [0, 1 + pool] if has_tasks else [0]:
                added[c] = added[c] - gradient
            for q, i, j, l in batch if has_factors else []:
                x_i, x_j, x_l = X_list[q][[i, j, l]]
                if gap(evaluated_metric, x_i, x_j, x_l, score) + margin > 0:
                    S, G = factor_step(F, x_i, x_j, x_l, score)
                    added[-2][t % n_members :: n_members] += S
                    added[-1][t % n_members :: n_members] += G
            counts.append(n_violated)
        return added, counts

    def run(V0, t0, first, last, factor, before):
        """Run iterations first..last from the sums V0 of t0 iterations; return what they found.

        Of what it finds, a shard counts `factor` times as much when it evaluates triplets. The
        sums that iterations leave are those `before` plus what was found.
        """
        found = nothing
        for s, t in enumerate(range(first, last + 1)):
            seen = plus(V0, factor, found)
            metrics = metrics_at(seen, t0 + factor * s) if t > 1 else [np.eye(d)] * n_metrics
            F = factors(F_0, seen[-2], seen[-1], step)[t % n_members :: n_members] if has_factors else None
            added, counts = negated_subgradients(metrics, F, t)
            found = plus(found, 1, added)
            if projection_is_due(part_projection, t):
                clipped = projected_totals(plus(V0, factor, found), t0 + factor * (s + 1))
                found = [(one - other) / factor for one, other in zip(clipped, V0, strict=True)]
            history.append(plus(before, 1, found))
            violations.append(counts)
        return found

    t = min(16 * n_shards, n_iters)
    V = run(nothing, 0, 1, t, 1, nothing)
    while t < n_iters:
        size, t0, V0 = t // (max(4, n_shards // 4) * n_shards), t, V
        for _ in range(n_shards):
            found = run(V0, t0, t + 1, min(t + size, n_iters), n_shards - n_shards // 4, V)
            V = plus(V, 1, found)
            t += size
            if t >= n_iters:
                break
        if t == t0 + n_shards * size and projection_is_due(part_projection, t):
            V = projected_totals(V, t)
            history[-1] = V
    return history, violations


def mean_metric(totals, reg, prior):
    """Return the mean of P + V_t / (reg t) over totals V_1..V_T of one metric, each (d, d)."""
    iterates = [prior * np.eye(len(V)) + V / (reg * t) for t, V in enumerate(totals, start=1)]
    return np.mean(iterates, axis=0)


# Objectives ----------------------------------------------------------------------


def added_task(common, X, triplets, reg, metric, margin, projection, project_what, common_reg=None, t_before=0):
    """Return (common, task, combined, violations) after a task was added to a trained model.

    common : the common metric, shape (d, d); it stays unless common_reg is given, and then continues from t_before.
    X : the new task's attributes; triplets : for every iteration a list of (i, j, l).
    """
    d = X.shape[1]
    task, violations = np.zeros((d, d)), []
    evaluated = common
    if common_reg and project_what == "combined" and projection_is_due(projection, t_before):
        evaluated = project(common)
    for k, batch in enumerate(triplets, start=1):
        t = t_before + k if common_reg else k
        gradient, n_violated = data_subgradient(evaluated, X, batch, margin, metric)
        task = task - (reg * task + gradient) / (reg * k)
        if common_reg:
            common = common - (common_reg * (common - np.eye(d)) + gradient) / (common_reg * t)
        is_due = projection_is_due(projection, t)
        if is_due and project_what == "each":
            task = project(task)
            if common_reg:
                common = project(common)
        evaluated = project(common + task) if is_due and project_what == "combined" else common + task
        violations.append(n_violated)
    if projection != "never" and project_what == "each":
        task = project(task)
        if common_reg:
            common = project(common)
    combined = project(common + task) if projection != "never" and project_what == "combined" else common + task
    return common, task, combined, violations


def hinges(M, X, A, margin):
    """List max(gap + margin, 0) of all of S for M (d, d), X (n, d) and A (n, n)."""
    return [max(gap(M, X[i], X[j], X[l]) + margin, 0.0) for i, j, l in enumerate_triplets(A)]


def spml_objective(M, X_list, A_list, reg, prior, margin):
    """Return equation (3) with its prior: reg/2 ||M-P||^2 + mean hinge over the union S.

    M has shape (d, d), each of X_list (n_q, d), each of A_list (n_q, n_q).
    """
    P = prior_matrix(prior, len(M))
    losses = []
    for X, A in zip(X_list, A_list, strict=True):
        losses += hinges(M, X, A, margin)
    return float(reg / 2 * np.sum((M - P) ** 2) + sum(losses) / len(losses))


def mtspml_objective(common, combined, tasks, X_list, A_list, common_reg, task_regs, margin):
    """Return equation (8), the hinges of task q evaluated at combined[q].

    common, and each of combined and tasks, has shape (d, d); each of X_list (n_q, d),
    each of A_list (n_q, n_q).
    """
    total = common_reg / 2 * np.sum((common - np.eye(len(common))) ** 2)
    for q, task_reg in enumerate(task_regs):
        losses = hinges(combined[q], X_list[q], A_list[q], margin)
        total += task_reg / 2 * np.sum(tasks[q] ** 2) + sum(losses) / len(losses)
    return float(total)


# Evaluation and prediction -------------------------------------------------------


def link_auc(positives, negatives):
    """Return the share of pairs whose positive scores higher, ties counting half.

    positives : list of scores, shape (n_positives,); negatives : (n_negatives,).
    """
    won = 0.0
    for positive in positives:
        for negative in negatives:
            if positive > negative:
                won += 1.0
            elif positive == negative:
                won += 0.5
    return won / (len(positives) * len(negatives))


def average_precision(positives, negatives):
    """Return the sum over thresholds, highest first, of recall gained times precision.

    positives : list of scores, shape (n_positives,); negatives : (n_negatives,).
    A threshold is a distinct score, so that ties enter together.
    """
    total, recall_before = 0.0, 0.0
    for threshold in sorted({*positives, *negatives}, reverse=True):
        n_true = sum(score >= threshold for score in positives)
        n_false = sum(score >= threshold for score in negatives)
        recall = n_true / len(positives)
        total += (recall - recall_before) * n_true / (n_true + n_false)
        recall_before = recall
    return total


def rank_among(positive, negatives):
    """Return 1 + negatives scoring higher + half of those tied; negatives : (n,)."""
    n_higher = sum(score > positive for score in negatives)
    n_tied = sum(score == positive for score in negatives)
    return 1 + n_higher + n_tied / 2


def link_quality(scores, A, node, candidates=None, k=10):
    """Return how well scores, shape (n,), larger for likelier, rank the links of a node.

    Positives are row `node` of A, shape (n, n), among the candidates, the node itself
    left out. The dict has auc, average_precision, reciprocal_rank, hits, recall and ndcg,
    each nan without a positive or without a negative.
    """
    allowed = set(range(len(A)) if candidates is None else map(int, candidates))
    allowed.discard(int(node))
    positives = [float(scores[c]) for c in allowed if A[node, c] != 0]
    negatives = [float(scores[c]) for c in allowed if A[node, c] == 0]
    if not positives or not negatives:
        names = ("auc", "average_precision", "reciprocal_rank", "hits", "recall", "ndcg")
        return dict.fromkeys(names, math.nan)
    ranks = [rank_among(positive, negatives) for positive in positives]
    return {
        "auc": link_auc(positives, negatives),
        "average_precision": average_precision(positives, negatives),
        "reciprocal_rank": sum(1 / rank for rank in ranks) / len(ranks),
        "hits": sum(rank <= k for rank in ranks) / len(ranks),
        "recall": recall_at(positives, negatives, k),
        "ndcg": ndcg_at(positives, negatives, k),
    }


def relevance(positives, negatives):
    """Return, place by place of the list of all scores, largest first, the chance that a positive is there.

    Tied scores share their places: each place of a group holds a positive with the group's share of positives.
    """
    everything = sorted([*positives, *negatives], reverse=True)
    return [positives.count(score) / everything.count(score) for score in everything]


def recall_at(positives, negatives, k):
    """Return the share of the positives that are among the first k, on average over orders of ties."""
    return sum(relevance(positives, negatives)[:k]) / len(positives)


def ndcg_at(positives, negatives, k):
    """Return the discounted gain of the first k places, relative to a list that starts with all positives."""
    gain = sum(chance / math.log2(place + 2) for place, chance in enumerate(relevance(positives, negatives)[:k]))
    return gain / sum(1 / math.log2(place + 2) for place in range(min(k, len(positives))))


def round_score(score, shift):
    """Return a score rounded to the nearest multiple of shift / (1.5 * 2^52), ties to even; unchanged if that is 0."""
    step = shift / (1.5 * 2.0**52)
    return round(score / step) * step if step else score


def round_scores(row, shift):
    """Return scores, shape (n,), each rounded as round_score does."""
    return np.array([round_score(float(score), shift) for score in row])


def factored_matrix(weights, factors):
    """Return diag(w) + F F', shape (d, d), of weights (d,) and factors (d, rank)."""
    factors = np.asarray(factors, dtype=float)
    return np.diag(weights) + factors @ factors.T


def embed_rows(factors, X):
    """Return F'x of each row x of X, (n, d), shape (n, rank)."""
    return np.array([sum(x[f] * np.asarray(factors[f], dtype=float) for f in range(len(x))) for x in X])


def similarity(M, x, y):
    """Return 2 x'My of M, shape (d, d), and x, y, shape (d,)."""
    return float(2 * (np.asarray(x, dtype=float) @ M @ np.asarray(y, dtype=float)))


def rank_score(M, x, c, score, length_weight=0.0):
    """Return what a query x ranks a candidate c by, larger first: minus its distance, or 2 x'Mc - b c'Mc.

    b is 1 for the distance and 0 for the similarity, plus the length_weight.
    """
    b = {"distance": 1.0, "similarity": 0.0}[score] + length_weight
    return -sqdist(M, x, c) if b == 1.0 else similarity(M, x, c) - b * sqdist(M, c, np.zeros(len(c)))


def nearest(M, X, y, k, exclude=None, score="distance", length_weight=0.0):
    """Return indices, and squared distances or similarities, each shape (k,), of the rows nearest to y.

    M : shape (d, d); X : (n, d); y : (d,); exclude : a row, or several, left out.
    Nearest first, ties by lower index; fewer than k where there are fewer rows.
    """
    left_out = set() if exclude is None else set(np.ravel(exclude).tolist())
    pairs = [(-rank_score(M, y, X[i], score, length_weight), i) for i in range(len(X)) if i not in left_out]
    pairs = sorted(pairs)[:k]
    indices = np.array([i for _, i in pairs], dtype=int)
    values = np.array([value for value, _ in pairs], dtype=float)
    return indices, values if (score == "distance") + length_weight == 1.0 else -values


def rank_with_links(scores, A, neighbour_weight, degree_weight=0.0, unlinked_bonus=0.0):
    """Return what candidates are ranked by, from scores (n,); smaller is better.

    A : 0/1, shape (n, n), the known links. Of m > 0 nodes that link to a candidate of score s, the best has the score
    b: (s + w b) / (1 + w) - degree_weight ln(1 + m). If none does: s - unlinked_bonus.
    """
    ranked = []
    for c in range(len(scores)):
        linking = [float(scores[i]) for i in range(len(A)) if A[i, c] != 0]
        if linking:
            average = (scores[c] + neighbour_weight * min(linking)) / (1 + neighbour_weight)
            ranked.append(average - degree_weight * np.log(1 + len(linking)))
        else:
            ranked.append(scores[c] - unlinked_bonus)
    return np.array(ranked, dtype=float)


def connect(M, X, k, score="distance", length_weight=0.0):
    """Return C(X, M), 0/1, shape (n, n): each row linked to its k nearest others.

    M : shape (d, d); X : (n, d).
    """
    A = np.zeros((len(X), len(X)), dtype=int)
    for i in range(len(X)):
        neighbours, _ = nearest(M, X, X[i], k, exclude=i, score=score, length_weight=length_weight)
        A[i, neighbours] = 1
    return A


def explain(M, x, y):
    """Return per feature what separates x and y and what they share, each shape (d,).

    M : shape (d, d), symmetric; x, y : (d,). The contributions sum to the distance; what
    is shared is 2 w x y for a diagonal M with weights w.
    """
    x, y = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    diff = x - y
    return {"contribution": diff * (M @ diff), "shared": x * (M @ y) + y * (M @ x)}


def explain_pairs(M, x, y):
    """Return 2 x_f M_fg y_g of all pairs of features, shape (d, d); they sum to 2 x'My."""
    return np.array([[2 * x[f] * M[f, g] * y[g] for g in range(len(y))] for f in range(len(x))])


# Weighting -----------------------------------------------------------------------


def tfidf_value(count, n, df):
    """Return (1 + ln count) * ln((1 + n) / (1 + df)); a count below 1 is taken for 1 + ln count."""
    local = 1 + math.log(count) if count >= 1 else count
    return local * math.log((1 + n) / (1 + df))


def divide_rows(values, lengths):
    """Divide row i of values, (n, d), by lengths[i], (n,); a row of length 0 stays."""
    divided = values.copy()
    for i, length in enumerate(lengths):
        if length != 0:
            divided[i] = values[i] / length
    return divided


def weighting(kind, train_counts_list, counts):
    """Return counts, shape (n, d), weighted: none, binary, l1, l2 or tfidf.

    train_counts_list : list of arrays, shape (n_q, d); n and df of tfidf are over all
    of its rows, every row one node.
    """
    counts = np.array(counts, dtype=float)
    if kind == "none":
        return counts
    if kind == "binary":
        return (counts != 0).astype(float)
    if kind == "l1":
        return divide_rows(counts, [np.sum(np.abs(row)) for row in counts])
    if kind == "l2":
        return divide_rows(counts, [math.sqrt(np.sum(row**2)) for row in counts])
    if kind == "tfidf":
        train = np.vstack(train_counts_list)
        n = len(train)
        values = np.zeros(counts.shape)
        for f in range(counts.shape[1]):
            df = int(np.sum(train[:, f] != 0))
            for i in range(len(counts)):
                values[i, f] = tfidf_value(counts[i, f], n, df)
        return divide_rows(values, [math.sqrt(np.sum(row**2)) for row in values])
    raise ValueError(f"kind must be none, binary, l1, l2 or tfidf, got {kind!r}.")


# Draws: a pure function of (seed, task, iteration, position) ---------------------

MASK = 2**64 - 1  # keeps Python's integers to 64-bit words
GOLDEN = 0x9E3779B97F4A7C15  # SplitMix64's increment, 2**64 over the golden ratio


def mix(word):
    """Return SplitMix64's scrambling of one 64-bit word."""
    z = word & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def triplet_key(seed, task, t, b):
    """Return the 64-bit key of triplet b (from 0) of iteration t (from 1) of a task."""
    key = mix(int(seed) + GOLDEN)
    key = mix(key + (int(task) + 1) * GOLDEN)
    key = mix(key + int(t) * GOLDEN)
    return mix(key + (int(b) + 1) * GOLDEN)


def bounded(key, n, bound):
    """Return (value, next n): an unbiased draw from 0..bound-1, from word n of the key on.

    Lemire's method: the high half of word * bound, unless the low half falls among the
    2**64 mod bound that would favour some values; then the next word is taken.
    """
    bound = int(bound)
    too_low = (2**64 - bound) % bound
    while True:
        word = mix(key + (n + 1) * GOLDEN)
        n += 1
        product = word * bound
        if (product & MASK) >= too_low:
            return product >> 64, n


def fill_filter(A_list, n_bits):
    """Return which bits of the Bloom filter the links of A_list, shapes (n_q, n_q), set: bool (n_bits,)."""
    is_set = np.zeros(n_bits, dtype=bool)
    n_before = 0
    for A in A_list:
        for i, j in np.argwhere(A != 0).tolist():
            hashed = ((((n_before + i) * GOLDEN & MASK) ^ j) * 0xBF58476D1CE4E5B9) & MASK
            is_set[hashed * n_bits >> 64] = True
        n_before += len(A)
    return is_set


def draw_triplet(A_list, seed, task, t, b, exact):
    """Return (q, i, j, l), uniform on the disjoint union S of A_list, shapes (n_q, n_q).

    `task` enters the key only. S must not be empty.
    """
    key = triplet_key(seed, task, t, b)
    n = 0
    if exact:
        S = [(q, *row) for q, A in enumerate(A_list) for row in enumerate_triplets(A).tolist()]
        r, n = bounded(key, n, len(S))
        return S[r]

    links = [(q, *row) for q, A in enumerate(A_list) for row in np.argwhere(A != 0).tolist()]
    most_nodes = max(len(A) for A in A_list)
    while True:
        p, n = bounded(key, n, len(links))
        j, n = bounded(key, n, most_nodes)
        q, i, l = links[p]
        if j < len(A_list[q]) and j != i and A_list[q][i, j] == 0:
            return q, i, j, l


# Single kernels ------------------------------------------------------------------


def count_below(values, value):
    """Count the values, shape (m,), that are smaller than value."""
    return sum(1 for other in values if other < value)


def iteration_key(seed, task, t):
    """Return the key of iteration t of a task; a triplet's key is mixed from it."""
    key = mix((seed + GOLDEN) & MASK)
    key = mix((key + (task + 1) * GOLDEN) & MASK)
    return mix((key + t * GOLDEN) & MASK)


def sample_triplets(A_list, seed, task, t, size, exact):
    """List triplets 0..size-1 of iteration t: (task within the group, i, j, l) each."""
    return [draw_triplet(A_list, seed, task, t, b, exact) for b in range(size)]


def clip_diagonal(total, prior, reg, t):
    """Return total, shape (d,), of the projected metric of iteration t."""
    weights = np.array([max(0.0, prior + value / (reg * t)) for value in total])
    return (weights - prior) * reg * t


def row_diff(x, y):
    """Return the positions and the values of the nonzeros of x - y, rows of shape (d,)."""
    diff = difference(x, y)
    positions = [f for f in range(len(diff)) if diff[f] != 0]
    return positions, [diff[f] for f in positions]


def first_above(values, value):
    """Return how many of the sorted values come before the first that is larger than value."""
    return sum(1 for v in values if v <= value)


def score_nodes(M, X, y):
    """Return d(x, y) - d(0, y) for every row x of X, shape (n,): y's own part left out."""
    return np.array([sqdist(M, x, y) - sqdist(M, np.zeros(len(y)), y) for x in X])


def score_pairs(weights, X, y):
    """Return w . |x - y| - w . |y| for every row x of X, shape (n,): y's own part left out."""
    return np.array([sum(w * (abs(a - b) - abs(b)) for w, a, b in zip(weights, x, y, strict=True)) for x in X])


def subtract_embeddings(scores, embeddings, others):
    """Return scores, (queries, n), less 2 e . o of embeddings (queries, rank) and others (n, rank)."""
    return np.array(
        [
            [s - 2 * sum(e * o) for s, o in zip(row, others, strict=True)]
            for row, e in zip(scores, embeddings, strict=True)
        ]
    )


def hinge_sum(M, X, A, margin, score="distance"):
    """Return the sum of max(gap + margin, 0) over all triplets of A, shape (n, n)."""
    triplets = enumerate_triplets(A)
    return sum(max(gap(M, X[i], X[j], X[l], score) + margin, 0.0) for i, j, l in triplets)
