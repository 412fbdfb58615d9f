// Passes over a row of logits (vocabulary.hpp), for a vector F of kLanes float32. Included once by the unit of an
// instruction set, inside an unnamed namespace of its own, after simd_*.hpp and exp.inl.

constexpr int kBlock = 512;  // logits whose weights are added in float32

inline uint32_t lanes_below(int n) { return n >= kLanes ? (1ull << kLanes) - 1 : (1u << n) - 1; }

// Calls each(first, v, lanes) with all vectors of x[start, stop), the lanes of the last one that are there.
template <typename Each>
inline void each_vector(const float* x, int start, int stop, Each&& each) {
    int i = start;
    for (; i + kLanes <= stop; i += kLanes) each(i, load(x + i), lanes_below(kLanes));
    if (i < stop) each(i, load_first(x + i, stop - i), lanes_below(stop - i));
}

VocabularyPasses::Likeliest likeliest(const float* x, int n) {
    constexpr int kSearched = 4096;  // the piece with the best one is looked through again
    const F least = set1(-std::numeric_limits<float>::infinity());
    float best = -std::numeric_limits<float>::infinity();
    int piece = 0;
    for (int start = 0; start < n; start += kSearched) {
        F most[2] = {least, least};
        uint32_t unordered = 0;
        each_vector(x, start, std::min(n, start + kSearched), [&](int i, F v, uint32_t lanes) {
            unordered |= is_nan(v);
            F& m = most[i / kLanes % 2];
            m = max(m, select(lanes, v, least));
        });
        if (unordered) return {std::numeric_limits<float>::quiet_NaN(), 0};
        const float found = largest(max(most[0], most[1]));
        if (found > best) {
            best = found;
            piece = start;
        }
    }
    int token = piece;
    while (token < n && x[token] != best) ++token;
    return {best, n > 0 ? token : 0};
}

int at_least(const float* x, int n, float least, int32_t* ids) {
    int count = 0;
    each_vector(x, 0, n, [&](int first, F v, uint32_t lanes) {
        for (lanes &= is_at_least(v, set1(least)); lanes; lanes &= lanes - 1) {
            ids[count++] = first + __builtin_ctz(lanes);
        }
    });
    return count;
}

double weigh_below(const float* x, int n, float best, float factor, float below) {
    double total = 0;
    for (int start = 0; start < n; start += kBlock) {
        F weights = zero();
        each_vector(x, start, std::min(n, start + kBlock), [&](int, F v, uint32_t lanes) {
            const F weight = exp(mul(sub(v, set1(best)), set1(factor)));
            weights = add(weights, select(lanes & ~is_at_least(v, set1(below)), weight, zero()));
        });
        total += static_cast<double>(sum(weights));
    }
    return total;
}

int count_above(const float* x, int n, float least) {
    int count = 0;
    each_vector(x, 0, n, [&](int, F v, uint32_t lanes) {
        count += __builtin_popcount(lanes & ~is_at_least(set1(least), v));
    });
    return count;
}

int top(const float* x, int n, int k, int32_t* ids) {
    k = std::min(k, n);
    if (k <= 0) return 0;
    int count = 0;
    const auto insert = [&](int32_t id) {  // before all that are less: behind its equals, whose ids are lower
        int at = count < k ? count++ : k - 1;
        for (; at > 0 && x[ids[at - 1]] < x[id]; --at) ids[at] = ids[at - 1];
        ids[at] = id;
    };
    for (int i = 0; i < k; ++i) insert(i);
    each_vector(x, k, n, [&](int first, F v, uint32_t lanes) {
        for (lanes &= ~is_at_least(set1(x[ids[k - 1]]), v); lanes; lanes &= lanes - 1) {
            const int32_t id = first + __builtin_ctz(lanes);
            if (x[id] > x[ids[k - 1]]) insert(id);
        }
    });
    return count;
}

void forbid(const float* x, const uint32_t* allowed, int n, float* out) {
    const F gone = set1(-std::numeric_limits<float>::infinity());
    int i = 0;
    for (; i + kLanes <= n; i += kLanes) store(out + i, select(allowed[i / 32] >> i % 32, load(x + i), gone));
    for (; i < n; ++i) out[i] = allowed[i / 32] >> i % 32 & 1 ? x[i] : -std::numeric_limits<float>::infinity();
}

// 2^n e^r with n whole and |r| at most ln 2 / 2: the series to the twelfth power. Plain arithmetic, which vectorises.
void exp64(const double* x, int n, double* out) {
    constexpr double kShift = 0x1.8p52;  // pushes the fraction out, and leaves the whole number in the low bits
    for (int i = 0; i < n; ++i) {
        const double shifted = x[i] * 1.4426950408889634074 + kShift, whole = shifted - kShift;
        const double r = (x[i] - whole * 6.93147180369123816490e-01) - whole * 1.90821492927058770002e-10;
        double p = 1.0 / 479001600;
        for (const double c : {1.0 / 39916800, 1.0 / 3628800, 1.0 / 362880, 1.0 / 40320, 1.0 / 5040, 1.0 / 720, 1.0 / 120,
                               1.0 / 24, 1.0 / 6, 0.5, 1.0, 1.0}) {
            p = p * r + c;
        }
        uint64_t bits, exponent;
        __builtin_memcpy(&bits, &p, 8);
        __builtin_memcpy(&exponent, &shifted, 8);
        bits += exponent << 52;
        __builtin_memcpy(&out[i], &bits, 8);
    }
}
