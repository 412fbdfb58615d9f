// Requests that grow by chunks in one pool of blocks, and end in a forest of drafts: K and V are stored and attended to,
// against float64.

#include <algorithm>

#include "check.hpp"
#include "ops.hpp"

namespace dayzero::tests {

namespace {

struct Shape {
    int num_heads, num_kv_heads, head_dim, block_size, window;
    KVFormat format;

    KVShape kv() const { return {block_size, num_kv_heads, head_dim, format}; }
    int width() const { return (num_heads + 2 * num_kv_heads) * head_dim; }
};

// One request: its rows so far of Q in bfloat16, and of K and V as stored.
struct History {
    std::vector<int32_t> table;
    std::vector<std::vector<float>> rows;
};

double number_of(const History& history, int position, int head, int d, int head_dim) {
    return history.rows[static_cast<size_t>(position)][static_cast<size_t>(head * head_dim + d)];
}

std::vector<float> as_stored(const Shape& shape, std::vector<float> row) {
    for (int head = 0; head < shape.num_heads + 2 * shape.num_kv_heads; ++head) {
        float* x = row.data() + head * shape.head_dim;
        const bool has_codes = head >= shape.num_heads && shape.format == KVFormat::kInt8;
        float largest = 0;
        for (int d = 0; d < shape.head_dim; ++d) largest = std::max(largest, std::fabs(x[d]));
        for (int d = 0; d < shape.head_dim; ++d) {
            x[d] = has_codes ? std::nearbyint(x[d] * (127 / largest)) * (largest / 127) : float_of(bf16_of(x[d]));
        }
    }
    return row;
}

// A row against the keys that it sees, its own the last.
void check_row(const Shape& shape, const History& history, std::vector<int> keys, const float* out, float scale) {
    const int D = shape.head_dim, queries = shape.num_heads / shape.num_kv_heads, own = keys.back();
    if (shape.window && static_cast<int>(keys.size()) > shape.window) keys.erase(keys.begin(), keys.end() - shape.window);
    for (int head = 0; head < shape.num_heads; ++head) {
        const int k = shape.num_heads + head / queries, v = k + shape.num_kv_heads;
        std::vector<double> weights;
        double total = 0;
        for (const int key : keys) {
            double score = 0;
            for (int d = 0; d < D; ++d) {
                score += number_of(history, own, head, d, D) * number_of(history, key, k, d, D);
            }
            weights.push_back(std::exp(score * scale));
            total += weights.back();
        }
        for (int d = 0; d < D; ++d) {
            double mixed = 0;
            for (size_t i = 0; i < keys.size(); ++i) mixed += weights[i] * number_of(history, keys[i], v, d, D);
            CHECK(std::fabs(out[head * D + d] - mixed / total) <= 1e-5);
        }
    }
}

// Masks of a random forest.
std::vector<uint64_t> forest_of(int rows, Random& random) {
    std::vector<uint64_t> masks;
    for (int i = 0; i < rows; ++i) {
        const int parent = random.between(std::max(-1, i - 5), i - 1);
        masks.push_back((parent < 0 ? 0 : masks[static_cast<size_t>(parent)]) | 1ull << i);
    }
    return masks;
}

// The keys of a row whose own key lies at `place`, the forest of its step beginning at `first_tree`.
std::vector<int> keys_of(int place, int first_tree, const std::vector<uint64_t>& forest) {
    std::vector<int> keys;
    for (int key = 0; key <= place; ++key) {
        const bool is_draft = place >= first_tree && key >= first_tree;
        if (!is_draft || forest[static_cast<size_t>(place - first_tree)] >> (key - first_tree) & 1) keys.push_back(key);
    }
    return keys;
}

// Up to 150 tokens a request; or one, whose first chunk has more keys than a part.
void check_growth(const Isa& isa, ThreadPool& pool, const Shape& shape, bool is_long, Random& random) {
    constexpr int kSteps = 4;
    const int most_tokens = is_long ? kKeyPart + 150 : 150;
    const int num_requests = is_long ? 1 : random.between(1, 3);
    const int blocks_each = (most_tokens + shape.block_size - 1) / shape.block_size;
    std::vector<int32_t> free_blocks;
    for (int block = 0; block < num_requests * blocks_each; ++block) free_blocks.push_back(block);
    random.shuffle(free_blocks);
    std::vector<uint16_t> kv(static_cast<size_t>(num_requests * blocks_each * shape.kv().block() / 2), kNanBf16);
    std::vector<float> cos(static_cast<size_t>(most_tokens) * shape.head_dim, 1.0f), sin(cos.size(), 0.0f);
    const float scale = 1 / std::sqrt(static_cast<float>(shape.head_dim));

    Program program(pool, isa);
    const int qkv = program.add_buffer(shape.width()), out = program.add_buffer(shape.num_heads * shape.head_dim);
    const KVPool blocks{reinterpret_cast<uint8_t*>(kv.data()), num_requests * blocks_each, shape.kv(), 0};
    add_rope_and_write_kv(program, qkv, {}, cos.data(), sin.data(), most_tokens, shape.num_heads, blocks);
    add_attention(program, qkv, out, scale, shape.window, shape.num_heads, blocks, nullptr);

    std::vector<History> histories(static_cast<size_t>(num_requests));
    for (int s = 0; s < kSteps; ++s) {
        std::vector<Request> requests;
        int rows = 0;
        for (History& history : histories) {
            const int done = static_cast<int>(history.rows.size());
            const int wish = is_long && s == 0 ? kKeyPart : random.one_of<int>({0, 1, 1, 2, 7, 33, 70});
            const int count = std::min(most_tokens - done, wish);
            while (static_cast<int>(history.table.size()) * shape.block_size < done + count) {
                history.table.push_back(free_blocks.back());
                free_blocks.pop_back();
            }
            requests.push_back({done, count, history.table});
            rows += count;
        }
        auto step = flat_step(requests, std::vector<int32_t>(static_cast<size_t>(rows)), {}, shape.block_size);
        std::vector<std::vector<uint64_t>> forests(requests.size());
        if (s + 1 == kSteps) {
            step.push_back(static_cast<int32_t>(Section::kTrees));
            for (size_t r = 0; r < requests.size(); ++r) {
                forests[r] = forest_of(random.between(0, std::min(requests[r].rows, kMostTreeRows)), random);
                step.push_back(static_cast<int32_t>(forests[r].size()));
            }
            for (const auto& forest : forests) {
                for (const uint64_t mask : forest) {
                    step.insert(step.end(), {static_cast<int32_t>(mask), static_cast<int32_t>(mask >> 32)});
                }
            }
            step.shrink_to_fit();
        }
        program.read(step.data(), static_cast<int64_t>(step.size()));
        fill(program.buffer(qkv), rows, random);
        int row = 0;
        for (size_t r = 0; r < requests.size(); ++r) {
            for (int i = 0; i < requests[r].rows; ++i, ++row) {
                histories[r].rows.push_back(
                    as_stored(shape, {program.buffer(qkv).row(row), program.buffer(qkv).row(row + 1)}));
            }
        }
        program.run();
        row = 0;
        for (size_t r = 0; r < requests.size(); ++r) {
            for (int i = 0; i < requests[r].rows; ++i, ++row) {
                if (i % (is_long ? 101 : 5) && i + 1 < requests[r].rows) continue;
                const int place = requests[r].first_position + i, end = requests[r].first_position + requests[r].rows;
                const auto keys = keys_of(place, end - static_cast<int>(forests[r].size()), forests[r]);
                check_row(shape, histories[r], keys, program.buffer(out).row(row), scale);
            }
        }
    }
}

}  // namespace

void test_attention(int rounds) {
    Random random(4);
    for (const Isa* isa : instruction_sets()) {
        for (int threads = 1; threads <= 3; ++threads) {
            ThreadPool pool(threads, 20);
            for (int round = 0; round < (rounds + 9) / 10; ++round) {
                const int num_kv_heads = random.between(1, 3);
                check_growth(*isa, pool,
                             {random.one_of<int>({1, 3, 4, 7}) * num_kv_heads, num_kv_heads, 16 * random.between(1, 8),
                              16 * random.between(1, 3), random.one_of<int>({0, 0, 1, 20, 64, 100}),
                              random.one_of<KVFormat>({KVFormat::kBf16, KVFormat::kInt8})},
                             round % 5 == 0, random);
            }
        }
    }
}

}  // namespace dayzero::tests
