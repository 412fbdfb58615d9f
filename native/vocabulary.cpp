#include "vocabulary.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <functional>
#include <limits>
#include <stdexcept>

namespace dayzero {

namespace {

constexpr double kGoneNats = 40.0;  // a token further below the best is never drawn
constexpr double kWindowsNats[] = {8.0, 12.0, 16.0, kGoneNats + 1};  // the last holds all that is not gone
constexpr double kHeadNats = 6.0;
constexpr double kLeastTemperature = 1e-30;  // whose inverse float32 holds
constexpr double kSumError = 2e-9;    // of two float64 sums of 2^18 weights in any order, with room
constexpr double kRestError = 1e-5;   // of weigh_below
constexpr double kScoreError = 1e-9;  // of a token's log-weight and noise, with room: logarithms differ by 1e-14
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a row is computed in; as long as the row each.
struct Scratch {
    double *log_weights, *weights, *falling;
    int32_t* ids;
    float* allowed;

    static int64_t bytes(int size) { return size * 32LL; }
    Scratch(uint8_t* at, int64_t size)
        : log_weights(reinterpret_cast<double*>(at)), weights(log_weights + size), falling(weights + size),
          ids(reinterpret_cast<int32_t*>(falling + size)), allowed(reinterpret_cast<float*>(ids + size)) {}
};

// A row of finite or -inf logits and how it is scaled: a log-weight is that relative to the best token's.
struct Scaled {
    const float* logits;
    int size;
    float best;
    double temperature;

    float logit_below(double nats) const { return static_cast<float>(best - nats * temperature); }
    double log_weight(float logit) const { return (static_cast<double>(logit) - best) / temperature; }
};

// Random bits and what is made of them: dayzero.sampling.noise.
struct Philox {
    uint64_t seed, position, choice;

    // Of the four tokens from 4 * block on.
    std::array<uint64_t, 4> bits(uint64_t block) const {
        uint64_t c0 = 1 + block, c1 = position, c2 = choice, c3 = 0, k0 = seed, k1 = 0;
        for (int round = 0; round < 10; ++round) {
            const auto a = static_cast<unsigned __int128>(c0) * 0xD2E7470EE14C6C93u;
            const auto b = static_cast<unsigned __int128>(c2) * 0xCA5A826395121157u;
            c0 = static_cast<uint64_t>(b >> 64) ^ c1 ^ k0;
            c2 = static_cast<uint64_t>(a >> 64) ^ c3 ^ k1;
            c1 = static_cast<uint64_t>(b);
            c3 = static_cast<uint64_t>(a);
            k0 += 0x9E3779B97F4A7C15u;
            k1 += 0xBB67AE8584CAA73Bu;
        }
        return {c0, c1, c2, c3};
    }
};

constexpr int kDroppedBits = 12;
constexpr double kUniformStep = 0x1p-52;

double gumbel(uint64_t bits) {
    return -std::log(-std::log((static_cast<double>(bits >> kDroppedBits) + 0.5) * kUniformStep));
}

// Bits below it give less noise than `noise`.
uint64_t least_bits(double noise) {
    // P(gumbel >= noise), taken a little larger so that no rounding can lose a value.
    const double above = noise > -6 ? -std::expm1(-std::exp(-noise)) * (1 + 1e-9) : 1.0;
    const double steps = std::ceil(above / kUniformStep) + 2;
    return steps >= 0x1p52 ? 0 : ((uint64_t{1} << 52) - static_cast<uint64_t>(steps)) << kDroppedBits;
}

// Finds the largest log-weight + noise among those offered.
class Contest {
  public:
    explicit Contest(const Asked& asked) : philox_{asked.seed, asked.position, asked.choice} {}

    // By rising id.
    void offer(const int32_t* ids, const double* log_weights, int count) {
        std::array<uint64_t, 4> bits{};
        for (int i = 0, block = -1; i < count; ++i) {
            if (ids[i] / 4 != block) bits = philox_.bits(static_cast<uint64_t>(block = ids[i] / 4));
            const uint64_t own = bits[ids[i] % 4];
            if (own >= least_) meet(ids[i], log_weights[i], own, 0.0);
        }
    }

    // All tokens below a logit.
    void offer_below(const Scaled& row, float bottom) {
        const double most = row.log_weight(bottom);
        least_ = least_bits(best_ - most - 2 * kScoreError);
        for (int first = 0; first < row.size; first += 4) {
            const auto bits = philox_.bits(static_cast<uint64_t>(first) / 4);
            for (int i = 0; i < std::min(4, row.size - first); ++i) {
                const float logit = row.logits[first + i];
                if (bits[i] < least_ || logit >= bottom) continue;
                const double log_weight = row.log_weight(logit);
                if (log_weight >= -kGoneNats) meet(first + i, log_weight, bits[i], most);
            }
        }
    }

    int32_t winner() const { return second_ > best_ - kScoreError ? kDoubtful : token_; }

  private:
    // `most`: of the log-weights to come.
    void meet(int32_t token, double log_weight, uint64_t bits, double most) {
        const double score = log_weight + gumbel(bits);
        if (score > best_) {
            second_ = best_;
            best_ = score;
            token_ = token;
            least_ = least_bits(best_ - most - 2 * kScoreError);  // less cannot win, nor come near
        } else {
            second_ = std::max(second_, score);
        }
    }

    Philox philox_;
    int32_t token_ = kNotFinite;
    double best_ = -kInfinity, second_ = -kInfinity;
    uint64_t least_ = 0;
};

class Row {
  public:
    Row(const VocabularyPasses& passes, const Scaled& row, const Asked& asked, const Scratch& scratch)
        : passes_(passes), row_(row), asked_(asked), scratch_(scratch), top_k_(asked.top_k < row.size ? asked.top_k : 0) {}

    int32_t drawn() const {
        if (row_.temperature < kLeastTemperature) return kDoubtful;
        Contest contest(asked_);
        if (top_k_ > 0 || asked_.top_p < 1 || asked_.log_min_p > -kInfinity) {
            const int count = survivors();
            if (count == 0) return kDoubtful;
            contest.offer(scratch_.ids, scratch_.log_weights, count);
        } else {  // what is likely sets a bar for the rest
            const float bottom = row_.logit_below(kHeadNats);
            const int count = near(bottom);
            contest.offer(scratch_.ids, scratch_.log_weights, count);
            if (count < row_.size) contest.offer_below(row_, bottom);
        }
        return contest.winner();
    }

  private:
    // The tokens that may be drawn into scratch; 0 if it is not certain which.
    int survivors() const {
        const bool needs_rest = top_k_ == 0 && asked_.top_p < 1;
        for (const double nats : kWindowsNats) {
            const float bottom = row_.logit_below(nats);
            const double most_below = row_.log_weight(bottom);  // of a token that is not among these
            const bool is_all = nats > kGoneNats || most_below < -kGoneNats;
            int count = near(bottom);
            if (is_all) count = keep(count, -kGoneNats);
            const double rest =
                is_all ? 0.0
                : needs_rest
                    ? passes_.weigh_below(row_.logits, row_.size, row_.best, static_cast<float>(1 / row_.temperature), bottom)
                    : kInfinity;
            const double least = least_surviving(count, rest);
            if (std::isfinite(least) && (is_all || least > most_below)) return keep(count, least);
            if (is_all) return 0;
        }
        return 0;
    }

    // All tokens of at least this logit into scratch.
    int near(float bottom) const {
        const int count = passes_.at_least(row_.logits, row_.size, bottom, scratch_.ids);
        for (int i = 0; i < count; ++i) scratch_.log_weights[i] = row_.log_weight(row_.logits[scratch_.ids[i]]);
        return count;
    }

    // Of those in scratch.
    int keep(int count, double least) const {
        int kept = 0;
        for (int i = 0; i < count; ++i) {
            scratch_.ids[kept] = scratch_.ids[i];
            scratch_.log_weights[kept] = scratch_.log_weights[i];
            kept += scratch_.log_weights[i] >= least;
        }
        return kept;
    }

    // The least log-weight that survives, given the largest of a row; NaN if it is not surely among them. `rest` is the
    // weight of the others, infinite if it is not known.
    double least_surviving(int count, double rest) const {
        double least = -kGoneNats;
        const double* largest = scratch_.log_weights;
        if (top_k_ > 0) {
            if (count < top_k_ && rest > 0) return std::nan("");
            if (count >= top_k_) {
                double* copy = scratch_.falling;
                std::copy_n(largest, count, copy);
                std::nth_element(copy, copy + top_k_ - 1, copy + count, std::greater<>());
                least = copy[top_k_ - 1];
                // Ties with the last one survive, too.
                count = static_cast<int>(std::partition(copy, copy + count, [&](double w) { return w >= least; }) - copy);
                largest = copy;
            }
            rest = 0;
        }
        if (asked_.top_p < 1) least = least_in_top_p(largest, count, rest);
        return std::max(least, asked_.log_min_p);  // a NaN stays one
    }

    // The least of the log-weights with less than top_p of the mass above it: they are put into bins by falling
    // log-weight, and only the bin where the mass is reached is sorted.
    double least_in_top_p(const double* log_weights, int count, double rest) const {
        constexpr int kBins = 700, kBinsPerNat = 16;
        const auto bin = [](double w) { return std::min(kBins - 1, static_cast<int>(w * -kBinsPerNat)); };
        passes_.exp64(log_weights, count, scratch_.weights);
        std::array<double, kBins> masses{};
        for (int i = 0; i < count; ++i) masses[bin(log_weights[i])] += scratch_.weights[i];
        double total = rest;
        for (const double mass : masses) total += mass;
        const double error = kSumError + kRestError * rest / total, target = asked_.top_p * total;

        double above = 0;
        int last = 0;
        while (last < kBins && above + masses[last] < target) above += masses[last++];
        double* falling = scratch_.falling;  // may be where log_weights are: no more is written than has been read
        int members = 0;
        for (int i = 0; i < count; ++i) {
            if (bin(log_weights[i]) == last) falling[members++] = log_weights[i];
        }
        std::sort(falling, falling + members, std::greater<>());
        passes_.exp64(falling, members, scratch_.weights);
        // Every count of tokens, and the mass of so many: the first that reaches the target must be beyond doubt.
        double mass = above;
        if (mass >= target * (1 - error)) return std::nan("");
        for (int i = 0; i < members; ++i) {
            mass += scratch_.weights[i];
            if (mass >= target * (1 - error)) return mass >= target * (1 + error) ? falling[i] : std::nan("");
        }
        return std::nan("");
    }

    const VocabularyPasses& passes_;
    const Scaled& row_;
    const Asked& asked_;
    const Scratch& scratch_;
    int top_k_;
};

int32_t token_of(const VocabularyPasses& passes, const float* logits, int size, const Asked& asked, const Scratch& scratch) {
    if (asked.allowed) {
        passes.forbid(logits, asked.allowed, size, scratch.allowed);
        logits = scratch.allowed;
    }
    const auto [best, token] = passes.likeliest(logits, size);
    if (!std::isfinite(best)) return kNotFinite;
    if (asked.temperature == 0) return token;
    return Row(passes, {logits, size, best, asked.temperature}, asked, scratch).drawn();
}

struct Told {
    float& logprob;
    int32_t& rank;
    int32_t* top_ids;
    float* top_logprobs;
};

void tell(const VocabularyPasses& passes, const float* logits, int size, int32_t token, int num_top, const Told& out) {
    const float best = passes.likeliest(logits, size).logit;
    out.rank = 1;
    if (!std::isfinite(best)) return;
    const double log_total = std::log(passes.weigh_below(logits, size, best, 1.0f, std::numeric_limits<float>::infinity()));
    const auto logprob = [&](int32_t id) {
        return static_cast<float>(static_cast<double>(logits[id]) - best - log_total);
    };
    out.logprob = logprob(token);
    out.rank += passes.count_above(logits, size, logits[token]);
    const int count = passes.top(logits, size, num_top, out.top_ids);
    for (int i = 0; i < count; ++i) out.top_logprobs[i] = logprob(out.top_ids[i]);
}

}  // namespace

Answers Vocabulary::answer(const float* logits, int size, const Asked* asked, int rows) {
    int most = -1;
    for (int r = 0; r < rows; ++r) {
        if (asked[r].token < kDrawn || asked[r].token >= size) throw std::invalid_argument("a token is not in the vocabulary");
        most = std::max(most, asked[r].num_top);
    }
    Answers answers;
    answers.tokens.resize(rows);
    if (most >= 0) {
        answers.logprobs.resize(rows, std::numeric_limits<float>::quiet_NaN());
        answers.ranks.resize(rows);
        answers.top_ids.resize(static_cast<size_t>(rows) * most, -1);
        answers.top_logprobs.resize(static_cast<size_t>(rows) * most);
    }
    for (auto& scratch : scratch_) scratch.reserve(Scratch::bytes(size));

    std::atomic<int> next{0};
    const auto work = [&](int thread) {
        const Scratch scratch(scratch_[thread].data(), size);
        for (int r; (r = next.fetch_add(1, std::memory_order_relaxed)) < rows;) {
            if (poisoned_) scratch_[thread].poison();
            const float* row = logits + static_cast<int64_t>(r) * size;
            int32_t& token = answers.tokens[r];
            token = asked[r].token == kDrawn ? token_of(*isa_.vocabulary, row, size, asked[r], scratch) : asked[r].token;
            if (asked[r].num_top < 0 || token < 0) continue;
            const int64_t at = static_cast<int64_t>(r) * most;
            tell(*isa_.vocabulary, row, size, token, asked[r].num_top,
                 {answers.logprobs[r], answers.ranks[r], answers.top_ids.data() + at, answers.top_logprobs.data() + at});
        }
    };
    if (rows == 1) {  // sooner done than another thread is there
        work(0);
    } else if (rows > 1) {
        pool_.run(work);
    }
    return answers;
}

}  // namespace dayzero
