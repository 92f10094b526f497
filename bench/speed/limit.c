/* The limit: Algorithm 1 on one network, one thread, as fast as this could be made in C; `run` has a diagonal metric,
   `run_full` a full one.

   It draws the very triplets of fastspml's kernels, and adds in the same order, so that totals agree to the bit. Built
   for the benchmark only: gcc -O3 -march=native -ffp-contract=off -shared -fPIC. An iteration's triplets are drawn while
   the one before is evaluated, so that memory can be prefetched: links some triplets before they are drawn, the indptr of
   rows as soon as the rows are known, rows some triplets before they are read.
*/
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define GOLDEN 0x9E3779B97F4A7C15ull
#define LINE 64
/* Without force, gcc takes a function that only prefetches for one without effect, and leaves out its calls. */
#define INLINE static inline __attribute__((always_inline))
#define LINKS_AHEAD 10 /* triplets between prefetching a link and prefetching its bit of the Bloom filter */
#define MARKS_AHEAD 10 /* triplets between prefetching that bit and drawing */
#define ROWS_AHEAD 4 /* triplets between prefetching rows and reading them */
#define LINES_ASKED 5 /* of every row, long enough or not: cheaper than a loop whose end cannot be foreseen */

typedef uint64_t u64;
typedef uint32_t u32;

typedef struct {
    u32 word;
    float value;
} Entry; /* side by side: a row takes fewer cache lines than two half rows */

typedef struct {
    const u64 *indptr;
    const Entry *entries;
    const u64 *adj_indptr;
    const u32 *adj_indices;
    const u32 *link_sources;
    const u64 *marks; /* Bloom filter over links: a bit by a hash of both nodes */
    u64 n_nodes, n_links, n_features, n_marks;
} Network;

typedef struct {
    u64 i, j, l;
} Triplet;

INLINE u64 mix(u64 word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

INLINE u64 iteration_key(u64 seed, u64 t) { return mix(mix(mix(seed + GOLDEN) + GOLDEN) + t * GOLDEN); }

/* A number below bound without bias (Lemire 2019); n counts the words used. */
INLINE u64 bounded(u64 key, u64 *n, u64 bound) {
    unsigned __int128 product = (unsigned __int128)mix(key + (++*n) * GOLDEN) * bound;
    if ((u64)product < bound) {
        u64 threshold = -bound % bound;
        while ((u64)product < threshold) product = (unsigned __int128)mix(key + (++*n) * GOLDEN) * bound;
    }
    return (u64)(product >> 64);
}

INLINE int is_linked(const Network *net, u64 node, u64 j) {
    u64 low = net->adj_indptr[node], high = net->adj_indptr[node + 1], end = high;
    while (low < high) {
        u64 middle = (low + high) >> 1;
        if (net->adj_indices[middle] < j)
            low = middle + 1;
        else
            high = middle;
    }
    return low < end && net->adj_indices[low] == j;
}

INLINE u64 mark_of(const Network *net, u64 i, u64 j) {
    u64 hash = (i * GOLDEN ^ j) * 0xBF58476D1CE4E5B9ull;
    return (u64)(((unsigned __int128)hash * net->n_marks) >> 64);
}

/* Most pairs that are not linked are known by a mark; to search a row takes branches that cannot be foreseen. */
INLINE int are_linked(const Network *net, u64 i, u64 j) {
    u64 mark = mark_of(net, i, j);
    return (net->marks[mark >> 6] >> (mark & 63) & 1) && is_linked(net, i, j);
}

INLINE u64 triplet_key(u64 key, u64 b) { return mix(key + (b + 1) * GOLDEN); }

/* The first attempt at a triplet: the link goes to l, the node to j, and the link is prefetched. */
INLINE void ask_link(const Network *net, u64 key, Triplet *triplet) {
    u64 n = 0, p = bounded(key, &n, net->n_links);
    triplet->l = p;
    triplet->j = bounded(key, &n, net->n_nodes);
    __builtin_prefetch(&net->link_sources[p]);
    __builtin_prefetch(&net->adj_indices[p]);
}

INLINE void ask_mark(const Network *net, const Triplet *triplet) {
    __builtin_prefetch(&net->marks[mark_of(net, net->link_sources[triplet->l], triplet->j) >> 6]);
}

/* Draw a triplet that was prefetched: the first attempt nearly always succeeds. */
INLINE void draw(const Network *net, u64 key, Triplet *triplet) {
    u64 p = triplet->l, j = triplet->j, i = net->link_sources[p], n = 0;
    while (j == i || are_linked(net, i, j)) {
        if (n == 0) { /* the first attempt again, to get past its words */
            bounded(key, &n, net->n_links);
            bounded(key, &n, net->n_nodes);
        }
        p = bounded(key, &n, net->n_links), j = bounded(key, &n, net->n_nodes), i = net->link_sources[p];
    }
    triplet->i = i, triplet->j = j, triplet->l = net->adj_indices[p];
    __builtin_prefetch(&net->indptr[i]);
    __builtin_prefetch(&net->indptr[j]);
    __builtin_prefetch(&net->indptr[triplet->l]);
}

/* Draw the triplets of iteration t. */
static void draw_batch(const Network *net, u64 seed, u64 t, u64 batch, Triplet *triplets) {
    u64 key = iteration_key(seed, t);
    for (u64 b = 0; b < batch && b < LINKS_AHEAD + MARKS_AHEAD; b++) ask_link(net, triplet_key(key, b), &triplets[b]);
    for (u64 b = 0; b < batch && b < MARKS_AHEAD; b++) ask_mark(net, &triplets[b]);
    for (u64 b = 0; b < batch; b++) {
        u64 ahead = b + LINKS_AHEAD + MARKS_AHEAD;
        if (ahead < batch) ask_link(net, triplet_key(key, ahead), &triplets[ahead]);
        if (b + MARKS_AHEAD < batch) ask_mark(net, &triplets[b + MARKS_AHEAD]);
        draw(net, triplet_key(key, b), &triplets[b]);
    }
}

INLINE void ask_row(const Network *net, u64 row) {
    u64 p = net->indptr[row], end = net->indptr[row + 1];
    for (u64 k = 0; k < LINES_ASKED; k++, p += LINE / sizeof(Entry)) __builtin_prefetch(&net->entries[p]);
    for (; p < end; p += LINE / sizeof(Entry)) __builtin_prefetch(&net->entries[p]);
}

INLINE void ask_rows(const Network *net, const Triplet *triplet) {
    ask_row(net, triplet->i);
    ask_row(net, triplet->j);
    ask_row(net, triplet->l);
}

INLINE double walk(const Network *net, u64 row, const double *totals, double prior, double scale,
                          const float *doubled, double *grads) {
    double plain = 0.0, common = 0.0; /* the two parts of a weight need not be multiplied word by word */
    u64 start = net->indptr[row], n = net->indptr[row + 1] - start;
    const Entry *entries = net->entries + start;
    for (u64 p = 0; p < n; p++) {
        u32 f = entries[p].word;
        double x = entries[p].value, grad = x * (x - doubled[f]);
        grads[p] = grad;
        plain += grad;
        common += totals[f] * grad;
    }
    return prior * plain + scale * common;
}

INLINE void add(const Network *net, u64 row, double share, const double *grads, double *totals) {
    u64 start = net->indptr[row], n = net->indptr[row + 1] - start;
    const Entry *entries = net->entries + start;
    for (u64 p = 0; p < n; p++) totals[entries[p].word] += share * grads[p];
}

/* Run n_iters iterations; totals (n_features) start at zero. Returns how many triplets were violated. */
u64 run(const Network *net, u64 seed, u64 batch, u64 n_iters, double reg, double margin, double start, double prior,
        u64 longest, double *totals) {
    float *doubled = calloc(net->n_features, sizeof(float));
    double *grads = malloc(batch * 2 * longest * sizeof(double)), share = 1.0 / (double)batch;
    unsigned char *is_violated = malloc(batch);
    Triplet *drawn[2] = {malloc(batch * sizeof(Triplet)), malloc(batch * sizeof(Triplet))};
    u64 n_violated = 0;
    draw_batch(net, seed, 1, batch, drawn[1]);
    for (u64 t = 1; t <= n_iters; t++) {
        const Triplet *triplets = drawn[t % 2], *next = drawn[(t + 1) % 2];
        double scale = t == 1 ? 0.0 : 1.0 / (reg * (double)(t - 1)), p = t == 1 ? start : prior;
        u64 at = 0;
        draw_batch(net, seed, t + 1, batch, drawn[(t + 1) % 2]);
        for (u64 b = 0; b < batch; b++) {
            u64 ahead = b + ROWS_AHEAD;
            if (ahead < batch)
                ask_rows(net, &triplets[ahead]);
            else if (ahead - batch < batch)
                ask_rows(net, &next[ahead - batch]);
            u64 i = triplets[b].i, j = triplets[b].j, l = triplets[b].l, first = net->indptr[i], last = net->indptr[i + 1];
            u64 n_linked = net->indptr[l + 1] - net->indptr[l], n_unlinked = net->indptr[j + 1] - net->indptr[j];
            for (u64 q = first; q < last; q++) doubled[net->entries[q].word] = 2 * net->entries[q].value;
            double gap = walk(net, l, totals, p, scale, doubled, grads + at);
            gap -= walk(net, j, totals, p, scale, doubled, grads + at + n_linked);
            for (u64 q = first; q < last; q++) doubled[net->entries[q].word] = 0;
            is_violated[b] = gap + margin > 0.0;
            if (is_violated[b]) at += n_linked + n_unlinked;
        }
        at = 0;
        for (u64 b = 0; b < batch; b++) {
            if (!is_violated[b]) continue;
            n_violated++;
            u64 j = triplets[b].j, l = triplets[b].l;
            add(net, l, -share, grads + at, totals);
            at += net->indptr[l + 1] - net->indptr[l];
            add(net, j, share, grads + at, totals);
            at += net->indptr[j + 1] - net->indptr[j];
        }
    }
    free(doubled), free(grads), free(is_violated), free(drawn[0]), free(drawn[1]);
    return n_violated;
}

/* ---- factored metrics: M = diag(w) + F F', F_f = F0_f + step S_f / sqrt(G_f + EPSILON); see kernels/factored.py ---- */

#define EPSILON 1e-12
#define FIRST_NORM 0.1
#define SIGN_KEY 0xD1B54A32D192ED03ull

typedef struct {
    u64 rank, width;
    double step;
    u64 key;
    float size;
    float *totals; /* S, (n_features, width) */
    double *squares; /* G */
    float *step_sizes;
} Factors;

/* e = F'x of a row. */
INLINE void embed(const Network *net, u64 row, const Factors *factors, float *restrict embedding) {
    u64 width = factors->width;
    for (u64 k = 0; k < width; k++) embedding[k] = 0;
    for (u64 p = net->indptr[row]; p < net->indptr[row + 1]; p++) {
        u64 f = net->entries[p].word;
        float x = net->entries[p].value, scaled = x * factors->step_sizes[f], size = factors->size * x;
        const float *restrict total = factors->totals + f * width;
        for (u64 first = 0; first < width; first += 32) {
            u32 bits = (u32)(mix(factors->key + ((f << 32) + first + 1) * SIGN_KEY) >> 32);
            u32 n = width - first < 32 ? (u32)(width - first) : 32;
            for (u32 k = 0; k < n; k++)
                embedding[first + k] += scaled * total[first + k] + ((bits >> k) & 1 ? size : -size);
        }
    }
    for (u64 k = factors->rank; k < width; k++) embedding[k] = 0;
}

INLINE double mean_square(const float *vector, u64 width, u64 rank) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    for (u64 k = 0; k < width; k += 4)
        for (u64 c = 0; c < 4; c++) sums[c] += (double)vector[k + c] * (double)vector[k + c];
    return ((sums[0] + sums[1]) + (sums[2] + sums[3])) / (double)rank;
}

INLINE double gap_factors(const float *restrict e, u64 width) {
    const float *e_i = e, *e_j = e + width, *e_l = e + 2 * width;
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    for (u64 k = 0; k < width; k += 4)
        for (u64 c = 0; c < 4; c++) {
            double linked = e_l[k + c], unlinked = e_j[k + c];
            sums[c] += (linked - unlinked) * (1.0 * (linked + unlinked) - 2.0 * (double)e_i[k + c]);
        }
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

INLINE void add_factors(const Network *net, u64 row, const Factors *factors, const float *restrict direction) {
    u64 width = factors->width;
    double square = mean_square(direction, width, factors->rank);
    for (u64 p = net->indptr[row]; p < net->indptr[row + 1]; p++) {
        u64 f = net->entries[p].word;
        double x = net->entries[p].value;
        float scaled = (float)x;
        float *restrict total = factors->totals + f * width;
        for (u64 k = 0; k < width; k++) total[k] += scaled * direction[k];
        factors->squares[f] += 1.0 * x * x * square;
        factors->step_sizes[f] = (float)(factors->step / __builtin_sqrt(factors->squares[f] + EPSILON));
    }
}

/* As `run`, for a factored metric ranked by distance; factor_totals (n_features, width) and squares start at zero. */
u64 run_factored(const Network *net, u64 seed, u64 batch, u64 n_iters, double reg, double margin, double start,
                 double prior, u64 longest, double *totals, u64 rank, u64 width, double step, float *factor_totals,
                 double *squares) {
    float *doubled = calloc(net->n_features, sizeof(float)), *step_sizes = malloc(net->n_features * sizeof(float));
    float *embeddings = aligned_alloc(LINE, batch * 3 * width * sizeof(float));
    double *grads = malloc(batch * 2 * longest * sizeof(double)), share = 1.0 / (double)batch;
    unsigned char *is_violated = malloc(batch);
    Triplet *drawn[2] = {malloc(batch * sizeof(Triplet)), malloc(batch * sizeof(Triplet))};
    Factors factors = {rank, width, step, mix(seed ^ SIGN_KEY), (float)(FIRST_NORM / __builtin_sqrt((double)rank)),
                       factor_totals, squares, step_sizes};
    u64 n_violated = 0;
    for (u64 f = 0; f < net->n_features; f++) step_sizes[f] = (float)(step / __builtin_sqrt(squares[f] + EPSILON));
    draw_batch(net, seed, 1, batch, drawn[1]);
    for (u64 t = 1; t <= n_iters; t++) {
        const Triplet *triplets = drawn[t % 2], *next = drawn[(t + 1) % 2];
        double scale = t == 1 ? 0.0 : 1.0 / (reg * (double)(t - 1)), p = t == 1 ? start : prior;
        u64 at = 0;
        draw_batch(net, seed, t + 1, batch, drawn[(t + 1) % 2]);
        for (u64 b = 0; b < batch; b++) {
            u64 ahead = b + ROWS_AHEAD;
            if (ahead < batch)
                ask_rows(net, &triplets[ahead]);
            else if (ahead - batch < batch)
                ask_rows(net, &next[ahead - batch]);
            u64 i = triplets[b].i, j = triplets[b].j, l = triplets[b].l, first = net->indptr[i], last = net->indptr[i + 1];
            u64 n_linked = net->indptr[l + 1] - net->indptr[l], n_unlinked = net->indptr[j + 1] - net->indptr[j];
            for (u64 q = first; q < last; q++) doubled[net->entries[q].word] = 2 * net->entries[q].value;
            double gap = walk(net, l, totals, p, scale, doubled, grads + at);
            gap -= walk(net, j, totals, p, scale, doubled, grads + at + n_linked);
            for (u64 q = first; q < last; q++) doubled[net->entries[q].word] = 0;
            float *e = embeddings + b * 3 * width;
            embed(net, i, &factors, e);
            embed(net, j, &factors, e + width);
            embed(net, l, &factors, e + 2 * width);
            gap += gap_factors(e, width);
            is_violated[b] = gap + margin > 0.0;
            if (is_violated[b]) at += n_linked + n_unlinked;
        }
        at = 0;
        for (u64 b = 0; b < batch; b++) {
            if (!is_violated[b]) continue;
            n_violated++;
            u64 i = triplets[b].i, j = triplets[b].j, l = triplets[b].l;
            add(net, l, -share, grads + at, totals);
            at += net->indptr[l + 1] - net->indptr[l];
            add(net, j, share, grads + at, totals);
            at += net->indptr[j + 1] - net->indptr[j];
            float *e_i = embeddings + b * 3 * width, *e_j = e_i + width, *e_l = e_j + width;
            for (u64 k = 0; k < width; k++) {
                float anchor = e_i[k], unlinked = e_j[k], linked = e_l[k];
                e_i[k] = (linked - unlinked) + (linked - unlinked);
                e_j[k] = (unlinked - anchor) + (unlinked - anchor);
                e_l[k] = (anchor - linked) + (anchor - linked);
            }
            add_factors(net, i, &factors, e_i);
            add_factors(net, l, &factors, e_l);
            add_factors(net, j, &factors, e_j);
        }
    }
    free(doubled), free(step_sizes), free(embeddings), free(grads), free(is_violated), free(drawn[0]), free(drawn[1]);
    return n_violated;
}

/* The nonzeros of x_row - x_other, sorted, to features and values; returns how many. */
INLINE u64 difference(const Network *net, u64 row, u64 other, u32 *features, double *values) {
    u64 p = net->indptr[row], p_end = net->indptr[row + 1], r = net->indptr[other], r_end = net->indptr[other + 1], n = 0;
    while (p < p_end || r < r_end) {
        double value;
        const Entry *one = &net->entries[p], *two = &net->entries[r];
        if (r >= r_end || (p < p_end && one->word < two->word)) {
            features[n] = one->word, value = one->value, p++;
        } else if (p >= p_end || two->word < one->word) {
            features[n] = two->word, value = -(double)two->value, r++;
        } else {
            features[n] = one->word, value = (double)one->value - (double)two->value, p++, r++;
        }
        values[n] = value;
        n += value != 0.0;
    }
    return n;
}

INLINE u64 row_start(u64 f) { return (f * (f + 1)) >> 1; }

/* Prefetch the entries that the row after that of word a needs. */
INLINE void ask_next_row(const u32 *features, u64 a, u64 n, const double *totals) {
    if (a + 1 == n) return;
    const double *row = totals + row_start(features[a + 1]);
    for (u64 b = 0; b <= a; b++) __builtin_prefetch(row + features[b]);
}

/* The sum of values times a row of totals over the first n words, in four sums. */
INLINE double row_dot(const u32 *features, const double *values, u64 n, const double *row) {
    double sums[4] = {0.0, 0.0, 0.0, 0.0};
    u64 b = 0;
    for (; b + 4 <= n; b += 4)
        for (u64 k = 0; k < 4; k++) sums[k] += values[b + k] * row[features[b + k]];
    for (; b < n; b++) sums[0] += values[b] * row[features[b]];
    return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

/* x'Mx, M = prior I + scale V, V a packed lower triangle. */
INLINE double quadratic(const u32 *features, const double *values, u64 n, const double *totals, double prior, double scale) {
    double sum = 0.0, norm = 0.0;
    for (u64 a = 0; a < n; a++) {
        ask_next_row(features, a, n, totals);
        const double *row = totals + row_start(features[a]);
        double x = values[a];
        sum += x * (2.0 * row_dot(features, values, a, row) + x * row[features[a]]);
        norm += x * x;
    }
    return prior * norm + scale * sum;
}

INLINE void add_outer(const u32 *features, const double *values, u64 n, double scale, double *totals) {
    for (u64 a = 0; a < n; a++) {
        ask_next_row(features, a, n, totals);
        double *row = totals + row_start(features[a]), scaled = scale * values[a];
        for (u64 b = 0; b <= a; b++) row[features[b]] += scaled * values[b];
    }
}

/* As run, with totals a packed lower triangle of all words. */
u64 run_full(const Network *net, u64 seed, u64 batch, u64 n_iters, double reg, double margin, double start, double prior,
             u64 longest, double *totals) {
    u32 *features = malloc(batch * 4 * longest * sizeof(u32));
    double *values = malloc(batch * 4 * longest * sizeof(double)), share = 1.0 / (double)batch;
    u64 *lengths = malloc(2 * batch * sizeof(u64)), n_violated = 0;
    Triplet *triplets = malloc(batch * sizeof(Triplet));
    for (u64 t = 1; t <= n_iters; t++) {
        double scale = t == 1 ? 0.0 : 1.0 / (reg * (double)(t - 1)), p = t == 1 ? start : prior;
        u64 at = 0;
        draw_batch(net, seed, t, batch, triplets);
        for (u64 b = 0; b < batch; b++) {
            u64 n_linked = difference(net, triplets[b].i, triplets[b].l, features + at, values + at), second = at + n_linked;
            u64 n_unlinked = difference(net, triplets[b].i, triplets[b].j, features + second, values + second);
            double gap = quadratic(features + at, values + at, n_linked, totals, p, scale);
            gap -= quadratic(features + second, values + second, n_unlinked, totals, p, scale);
            int is_violated = gap + margin > 0.0;
            lengths[2 * b] = is_violated ? n_linked : 0;
            lengths[2 * b + 1] = is_violated ? n_unlinked : 0;
            if (is_violated) at = second + n_unlinked, n_violated++;
        }
        at = 0;
        for (u64 b = 0; b < 2 * batch; at += lengths[b++])
            add_outer(features + at, values + at, lengths[b], b % 2 ? share : -share, totals);
    }
    free(features), free(values), free(lengths), free(triplets);
    return n_violated;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Seconds of n random accesses to zeros; if chained, each has to wait for the one before. */
double random_access(const u64 *array, u64 size, u64 n, int is_chained) {
    u64 sum = 0;
    double start = now();
    for (u64 k = 0; k < n; k++) {
        u64 word = mix((is_chained ? sum : 0) + k * GOLDEN);
        sum += array[(u64)(((unsigned __int128)word * size) >> 64)];
    }
    double seconds = now() - start;
    return sum ? -1.0 : seconds;
}

/* Seconds to read all of an array of zeros. */
double stream(const u64 *array, u64 size) {
    u64 sum = 0;
    double start = now();
    for (u64 k = 0; k < size; k++) sum += array[k];
    double seconds = now() - start;
    return sum ? -1.0 : seconds;
}
