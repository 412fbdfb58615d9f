// From a row of logits to a token: the likeliest, or one that is drawn from those that may be; and log-probabilities.
//
// A row is never sorted, and its answer depends on the row and on what is asked of it alone. What is drawn is the token
// that dayzero.sampling.reference draws from the same logits: log-weights and noise are computed in float64 as there, and
// where the last bits of a sum or of a logarithm could decide, the answer is kDoubtful and the caller asks the reference.
#pragma once

#include <cstdint>
#include <vector>

#include "isa.hpp"
#include "program.hpp"
#include "threads.hpp"

namespace dayzero {

// The passes over a row x [n] that are written for each instruction set.
struct VocabularyPasses {
    // The largest logit and its id, the lowest among equals; -inf and 0 of an empty row. A NaN if the row has one.
    struct Likeliest {
        float logit;
        int32_t token;
    };
    Likeliest (*likeliest)(const float* x, int n);

    // The ids of all logits of at least `least`, rising, into `ids` [n]; returns how many.
    int (*at_least)(const float* x, int n, float least, int32_t* ids);

    // The sum of e^((x - best) * factor) over the logits below `below`, in blocks of 512. Within 1e-5 of itself, and of
    // what is 41 nats below the best.
    double (*weigh_below)(const float* x, int n, float best, float factor, float below);

    // The number of logits above `least`.
    int (*count_above)(const float* x, int n, float least);

    // The ids of the k largest logits (of all, if there are fewer), likelier ones first, equals by rising id; returns how
    // many. No logit is a NaN.
    int (*top)(const float* x, int n, int k, int32_t* ids);

    // x where the token's bit is set, else -inf.
    void (*forbid)(const float* x, const uint32_t* allowed, int n, float* out);

    // e^x to 1e-15 of itself, for x from -50 to 0.
    void (*exp64)(const double* x, int n, double* out);
};

constexpr int32_t kNotFinite = -1;  // the row holds a NaN or +inf, or nothing but -inf
constexpr int32_t kDoubtful = -2;
constexpr int32_t kDrawn = -3;  // as the token that is told of: draw one

// What is asked of a row: to draw a token or to tell of a given one. As Python packs them.
struct Asked {
    double temperature;  // 0: the likeliest token
    double top_p;        // 1: off
    double log_min_p;    // -inf: off
    uint64_t seed, position, choice;  // the noise's key and words 1 and 2 of its counter: dayzero.sampling.noise
    const uint32_t* allowed;  // a bit for each token that may be drawn, or null: all may
    int32_t top_k;            // 0: off
    int32_t token;            // to tell of, kDrawn, or another of the above, which is then the answer
    int32_t num_top;          // likeliest tokens to tell of beside it; negative: no log-probabilities
    int32_t unused = 0;
};

// Of each row. Log-probabilities are raw: those of the logits as they came, whatever may be drawn.
struct Answers {
    std::vector<int32_t> tokens;   // [rows] or kNotFinite or kDoubtful
    std::vector<float> logprobs;   // [rows] of the token; NaN if it has none or was not asked for
    std::vector<int32_t> ranks;    // [rows] 1 for the likeliest
    std::vector<int32_t> top_ids;  // [rows, most num_top]
    std::vector<float> top_logprobs;
};

class Vocabulary {
  public:
    // poisoned: scratch is, before each row (program.hpp)
    Vocabulary(ThreadPool& pool, const Isa& isa, bool poisoned = false)
        : pool_(pool), isa_(isa), poisoned_(poisoned), scratch_(pool.size()) {}
    Vocabulary(const Vocabulary&) = delete;
    Vocabulary& operator=(const Vocabulary&) = delete;

    // logits [rows, size]. Rows are shared among the threads, each computed by one.
    Answers answer(const float* logits, int size, const Asked* asked, int rows);

  private:
    ThreadPool& pool_;
    const Isa& isa_;
    const bool poisoned_;
    std::vector<AlignedBytes> scratch_;
};

}  // namespace dayzero
