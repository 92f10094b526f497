/* The limit: Algorithm 1 with a diagonal metric on one network, one thread, as fast as this could be made in C.

   It draws the very triplets of fastspml's kernels, and adds in the same order, so that totals agree to the bit. Built
   for the benchmark only: gcc -O3 -march=native -ffp-contract=off -shared -fPIC. Every triplet passes four stations, some
   triplets apart, each of which asks for the memory that the next one reads:

     PICK   which link and node the first attempt draws          -> asks for the link
     DRAW   whether the node is a non-neighbour; others till one is -> asks for where the rows lie
     ASK    where the rows lie                                    -> asks for words and attributes
     JUDGE  gap and subgradient in one walk; a batch later, add
*/
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#ifndef VALUE
#define VALUE float
#endif
#define GOLDEN 0x9E3779B97F4A7C15ull
#define LINE 64
#define TOTALS_IN_CACHE (1 << 19) /* bytes of totals that need not be asked for */
#define RING 64 /* triplets on their way; a power of two above all distances */
#define PICK_AHEAD 24
#define DRAW_AHEAD 12
#define ASK_AHEAD 6

typedef uint64_t u64;
typedef uint32_t u32;

typedef struct {
    const u64 *indptr;
    const u32 *indices;
    const VALUE *data;
    const u64 *adj_indptr;
    const u32 *adj_indices;
    const u32 *link_sources;
    u64 n_nodes, n_links, n_features;
} Network;

typedef struct {
    u64 i, j, l;
} Triplet;

static inline u64 mix(u64 word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBull;
    return word ^ (word >> 31);
}

static inline u64 iteration_key(u64 seed, u64 t) { return mix(mix(mix(seed + GOLDEN) + GOLDEN) + t * GOLDEN); }

/* A number below bound without bias (Lemire 2019); n counts the words used. */
static inline u64 bounded(u64 key, u64 *n, u64 bound) {
    unsigned __int128 product = (unsigned __int128)mix(key + (++*n) * GOLDEN) * bound;
    if ((u64)product < bound) {
        u64 threshold = -bound % bound;
        while ((u64)product < threshold) product = (unsigned __int128)mix(key + (++*n) * GOLDEN) * bound;
    }
    return (u64)(product >> 64);
}

static inline int is_linked(const Network *net, u64 node, u64 j) {
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

static inline void pick(const Network *net, u64 key) {
    u64 n = 0, p = bounded(key, &n, net->n_links);
    __builtin_prefetch(&net->link_sources[p]);
    __builtin_prefetch(&net->adj_indices[p]);
}

static inline Triplet draw(const Network *net, u64 key) {
    u64 n = 0;
    for (;;) {
        u64 p = bounded(key, &n, net->n_links), j = bounded(key, &n, net->n_nodes), i = net->link_sources[p];
        if (j != i && !is_linked(net, i, j)) {
            Triplet triplet = {i, j, net->adj_indices[p]};
            __builtin_prefetch(&net->indptr[i]);
            __builtin_prefetch(&net->indptr[j]);
            __builtin_prefetch(&net->indptr[triplet.l]);
            return triplet;
        }
    }
}

static inline void ask_row(const Network *net, u64 row) {
    const char *start = (const char *)&net->indices[net->indptr[row]], *end = (const char *)&net->indices[net->indptr[row + 1]];
    for (; start < end; start += LINE) __builtin_prefetch(start);
    start = (const char *)&net->data[net->indptr[row]], end = (const char *)&net->data[net->indptr[row + 1]];
    for (; start < end; start += LINE) __builtin_prefetch(start);
}

static inline double walk(const Network *net, u64 row, const double *totals, double prior, double scale,
                          const double *doubled, double *grads) {
    double sum = 0.0;
    u64 start = net->indptr[row], n = net->indptr[row + 1] - start;
    const u32 *indices = net->indices + start;
    const VALUE *data = net->data + start;
    for (u64 p = 0; p < n; p++) {
        u32 f = indices[p];
        double x = data[p], grad = x * (x - doubled[f]);
        grads[p] = grad;
        sum += (prior + scale * totals[f]) * grad;
    }
    return sum;
}

static inline void add(const Network *net, u64 row, double share, const double *grads, double *totals) {
    u64 start = net->indptr[row], n = net->indptr[row + 1] - start;
    const u32 *indices = net->indices + start;
    for (u64 p = 0; p < n; p++) totals[indices[p]] += share * grads[p];
}

/* Run n_iters iterations; totals (n_features) start at zero. Returns how many triplets were violated. */
u64 run(const Network *net, u64 seed, u64 batch, u64 n_iters, double reg, double margin, double start, double prior,
        u64 longest, double *totals) {
    const int asks_for_totals = net->n_features * sizeof(double) > TOTALS_IN_CACHE;
    double *doubled = calloc(net->n_features, sizeof(double));
    double *grads = malloc(batch * 2 * longest * sizeof(double));
    unsigned char *is_violated = malloc(batch);
    Triplet *batch_triplets = malloc(batch * sizeof(Triplet));
    Triplet ring[RING];
    u64 keys[RING];
    u64 n_violated = 0, n_all = n_iters * batch, picked = 0, drawn = 0, asked = 0, pick_t = 0, pick_b = 0, key = 0;
    double share = 1.0 / (double)batch;
    u64 k = 0;
    for (u64 t = 1; t <= n_iters; t++) {
        double scale = t == 1 ? 0.0 : 1.0 / (reg * (double)(t - 1)), p = t == 1 ? start : prior;
        u64 at = 0;
        for (u64 b = 0; b < batch; b++, k++) {
            for (; picked < n_all && picked <= k + PICK_AHEAD; picked++) {
                if (pick_b == 0) key = iteration_key(seed, ++pick_t);
                keys[picked % RING] = mix(key + (pick_b + 1) * GOLDEN);
                pick(net, keys[picked % RING]);
                pick_b = pick_b + 1 == batch ? 0 : pick_b + 1;
            }
            for (; drawn < n_all && drawn <= k + DRAW_AHEAD; drawn++) ring[drawn % RING] = draw(net, keys[drawn % RING]);
            for (; asked < n_all && asked <= k + ASK_AHEAD; asked++) {
                ask_row(net, ring[asked % RING].i);
                ask_row(net, ring[asked % RING].l);
                ask_row(net, ring[asked % RING].j);
            }
            if (asks_for_totals && k + 1 < n_all) {
                const Triplet *next = &ring[(k + 1) % RING];
                for (u64 q = net->indptr[next->l]; q < net->indptr[next->l + 1]; q++) __builtin_prefetch(&totals[net->indices[q]]);
                for (u64 q = net->indptr[next->j]; q < net->indptr[next->j + 1]; q++) __builtin_prefetch(&totals[net->indices[q]]);
            }
            Triplet triplet = ring[k % RING];
            u64 first = net->indptr[triplet.i], last = net->indptr[triplet.i + 1];
            u64 n_linked = net->indptr[triplet.l + 1] - net->indptr[triplet.l];
            u64 n_unlinked = net->indptr[triplet.j + 1] - net->indptr[triplet.j];
            for (u64 q = first; q < last; q++) doubled[net->indices[q]] = 2.0 * (double)net->data[q];
            double gap = walk(net, triplet.l, totals, p, scale, doubled, grads + at);
            gap -= walk(net, triplet.j, totals, p, scale, doubled, grads + at + n_linked);
            for (u64 q = first; q < last; q++) doubled[net->indices[q]] = 0.0;
            is_violated[b] = gap + margin > 0.0;
            batch_triplets[b] = triplet;
            if (is_violated[b]) at += n_linked + n_unlinked;
        }
        at = 0;
        for (u64 b = 0; b < batch; b++) {
            if (!is_violated[b]) continue;
            n_violated++;
            Triplet triplet = batch_triplets[b];
            add(net, triplet.l, -share, grads + at, totals);
            at += net->indptr[triplet.l + 1] - net->indptr[triplet.l];
            add(net, triplet.j, share, grads + at, totals);
            at += net->indptr[triplet.j + 1] - net->indptr[triplet.j];
        }
    }
    free(doubled), free(grads), free(is_violated), free(batch_triplets);
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
