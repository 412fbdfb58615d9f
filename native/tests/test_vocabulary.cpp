// Rows of logits that end where their memory ends, asked everything: the same answers on any number of threads.

#include <algorithm>
#include <limits>

#include "check.hpp"
#include "vocabulary.hpp"

namespace dayzero::tests {

namespace {

constexpr float kGone = -std::numeric_limits<float>::infinity();

std::vector<float> draw_row(int size, Random& random) {
    const float spread = random.one_of<float>({0.0f, 1.0f, 12.0f, 1e30f});
    std::vector<float> row(static_cast<size_t>(size));
    for (float& logit : row) logit = random.between(0, 9) ? random.number() * spread : kGone;
    if (size && random.between(0, 19) == 0) {
        row[random.between(0, size - 1)] = random.chance() ? std::numeric_limits<float>::quiet_NaN() : -kGone;
    }
    return row;
}

Asked draw_asked(int size, const std::vector<uint32_t>& allowed, Random& random) {
    return {.temperature = random.one_of<double>({0, 1e-40, 0.1, 0.7, 1, 2}),
            .top_p = random.one_of<double>({1, 1e-9, 0.5, 0.95}),
            .log_min_p = random.one_of<double>({-std::numeric_limits<double>::infinity(), -3, 0}),
            .seed = static_cast<uint64_t>(random.between(0, 1 << 30)),
            .position = static_cast<uint64_t>(random.between(0, 1 << 20)),
            .choice = static_cast<uint64_t>(random.chance()) << 32,
            .allowed = random.between(0, 3) ? nullptr : allowed.data(),
            .top_k = random.one_of<int>({0, 1, 5, size, size + 3}),
            .token = size && random.between(0, 3) == 0 ? random.between(0, size - 1) : kDrawn,
            .num_top = random.between(-1, 20)};
}

bool equal(const std::vector<float>& a, const std::vector<float>& b) {  // a NaN is itself
    return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

void check_row(const float* row, int size, const Asked& asked, const Answers& answers, int r) {
    const int token = answers.tokens[r];
    const bool broken = std::any_of(row, row + size, [](float x) { return std::isnan(x) || x == -kGone; });
    if (asked.token != kDrawn) {
        CHECK(token == asked.token);
    } else if (asked.allowed) {
        CHECK(token < 0 || asked.allowed[token / 32] >> token % 32 & 1);
    } else if (broken || std::all_of(row, row + size, [](float x) { return x == kGone; })) {
        CHECK(token == kNotFinite);
    } else if (token != kDoubtful) {
        CHECK(token >= 0 && token < size && row[token] != kGone);
        const bool is_best = row[token] == *std::max_element(row, row + size);
        CHECK(is_best || (asked.temperature > 0 && asked.top_k != 1));
    }
}

}  // namespace

void test_vocabulary(int rounds) {
    Random random(6);
    for (const Isa* isa : instruction_sets()) {
        ThreadPool one(1, 50), three(3, 50);
        Vocabulary alone(one, *isa), together(three, *isa);
        for (int round = 0; round < rounds; ++round) {
            const int size = random.one_of<int>({0, 1, 15, 16, 17, 33, 511, 512, 513, 5000}), rows = random.between(0, 9);
            std::vector<float> logits;
            std::vector<uint32_t> allowed(static_cast<size_t>(size + 31) / 32);
            for (auto& word : allowed) word = static_cast<uint32_t>(random.between(0, 1 << 30)) * 3u;
            std::vector<Asked> asked;
            for (int r = 0; r < rows; ++r) {
                const auto row = draw_row(size, random);
                logits.insert(logits.end(), row.begin(), row.end());
                asked.push_back(draw_asked(size, allowed, random));
            }
            logits.shrink_to_fit();
            const Answers answers = alone.answer(logits.data(), size, asked.data(), rows);
            const Answers again = together.answer(logits.data(), size, asked.data(), rows);
            CHECK(answers.tokens == again.tokens && answers.ranks == again.ranks && answers.top_ids == again.top_ids);
            CHECK(equal(answers.logprobs, again.logprobs) && equal(answers.top_logprobs, again.top_logprobs));
            for (int r = 0; r < rows && size; ++r) {
                check_row(logits.data() + static_cast<size_t>(r) * size, size, asked[r], answers, r);
            }
        }
    }
}

}  // namespace dayzero::tests
