// A layer of every op, replayed for random steps: the same bits on any number of threads, whole or op by op, and on
// poisoned memory.

#include <algorithm>

#include "check.hpp"
#include "ops.hpp"

namespace dayzero::tests {

namespace {

constexpr int kWidth = 64, kInner = 96, kHeads = 4, kKVHeads = 2, kHeadDim = 16, kVocabulary = 40, kContext = 64;
constexpr KVShape kShape{16, kKVHeads, kHeadDim};
constexpr int kBlocks = 17;

// Weights, tables and norms: what programs point to.
struct Model {
    std::vector<uint16_t> table;
    std::vector<float> norm, cos, sin;
    std::unique_ptr<Weight> qkv, out, gate_up, down, head;

    explicit Model(Random& random)
        : table(kVocabulary * kWidth), norm(kWidth), cos(kContext * kHeadDim), sin(cos.size()) {
        for (auto& value : table) value = bf16_of(random.number());
        for (auto* numbers : {&norm, &cos, &sin}) {
            for (auto& value : *numbers) value = random.number();
        }
        const auto dense = [&](int n, int k) {
            std::vector<uint16_t> rows(static_cast<size_t>(n) * k);
            for (auto& value : rows) value = bf16_of(random.number());
            return Weight::bf16(rows.data(), n, k);
        };
        const auto int8 = [&](int n, int k) {
            std::vector<uint8_t> codes(static_cast<size_t>(n) * k);
            for (auto& code : codes) code = static_cast<uint8_t>(random.between(0, 255));
            const std::vector<float> scales(static_cast<size_t>(n), 0.01f);
            return Weight::per_channel(codes.data(), scales.data(), n, k);
        };
        qkv = int8((kHeads + 2 * kKVHeads) * kHeadDim, kWidth);
        out = dense(kWidth, kHeads * kHeadDim);
        gate_up = dense(2 * kInner, kWidth);
        down = int8(kWidth, kInner);
        head = int8(kVocabulary, kWidth);
    }
};

// The model as a program with KV of its own.
struct Recorded {
    std::vector<uint16_t> kv;
    Program program;
    int logits;

    Recorded(const Model& model, ThreadPool& pool, const Isa& isa, bool poisoned = false)
        : kv(static_cast<size_t>(kBlocks * kShape.block() / 2), kNanBf16), program(pool, isa, poisoned) {
        Program& p = program;
        const int x = p.add_buffer(kWidth), normed = p.add_buffer(kWidth), qkv = p.add_buffer(model.qkv->features);
        const int mixed = p.add_buffer(kHeads * kHeadDim), gate_up = p.add_buffer(2 * kInner);
        const int inner = p.add_buffer(kInner);
        const int y = p.add_buffer(kWidth), sum = p.add_buffer(kWidth), sampled = p.add_buffer(kWidth);
        logits = p.add_buffer(kVocabulary);
        add_embedding(p, x, model.table.data(), kVocabulary, 1.5f);
        add_rms_norm(p, x, model.norm.data(), 1e-5f, normed, Rows::kTokens);
        add_linear(p, normed, *model.qkv, nullptr, qkv, 0, Rows::kTokens);
        const KVPool blocks{reinterpret_cast<uint8_t*>(kv.data()), kBlocks, kShape, 0};
        add_rope_and_write_kv(p, qkv, {model.norm.data(), model.norm.data(), 1e-5f}, model.cos.data(), model.sin.data(),
                              kContext, kHeads, blocks);
        add_attention(p, qkv, mixed, 0.25f, 20, kHeads, blocks, nullptr);
        add_linear(p, mixed, *model.out, nullptr, y, 0, Rows::kTokens);
        add_add_rms_norm(p, x, y, model.norm.data(), 1e-5f, sum, normed, Rows::kTokens);
        add_linear(p, normed, *model.gate_up, nullptr, gate_up, 0, Rows::kTokens);
        add_gated(p, gate_up, inner, false);
        add_linear(p, inner, *model.down, nullptr, y, 0, Rows::kTokens);
        add_add(p, sum, y, x);
        add_take_samples(p, x, sampled);
        add_linear(p, sampled, *model.head, nullptr, logits, 0, Rows::kSamples);
    }

    enum class How { kWhole, kOpByOp, kTimed };

    std::vector<float> run(const std::vector<int32_t>& step, How how) {
        program.read(step.data(), static_cast<int64_t>(step.size()));
        switch (how) {
            case How::kWhole: program.run(); break;
            case How::kOpByOp:
                for (int op = 0; op < program.num_ops(); ++op) program.run_op(op);
                break;
            case How::kTimed: CHECK(static_cast<int>(program.run_timed().size()) == program.num_ops());
        }
        const int samples = step[1];
        if (samples == 0) return {};
        return {program.buffer(logits).row(0), program.buffer(logits).row(samples)};
    }
};

// Chunks of up to four requests, each with four blocks of its own; one step after the other.
std::vector<std::vector<int32_t>> random_steps(int count, Random& random) {
    std::vector<int32_t> blocks;
    for (int block = 1; block < kBlocks; ++block) blocks.push_back(block);
    random.shuffle(blocks);
    std::vector<int> done(4);
    std::vector<std::vector<int32_t>> steps;
    for (int s = 0; s < count; ++s) {
        std::vector<Request> requests;
        std::vector<int32_t> tokens, samples;
        for (int r = 0; r < 4; ++r) {
            int& first = done[static_cast<size_t>(r)];
            const int rows = std::min(kContext - first, random.one_of<int>({0, 0, 1, 1, 1, 2, 9, 33}));
            requests.push_back({first, rows, {blocks.begin() + 4 * r, blocks.begin() + 4 * r + 4}});
            first += rows;
            for (int i = 0; i < rows; ++i) tokens.push_back(random.between(0, kVocabulary - 1));
            if (rows && random.chance()) samples.push_back(static_cast<int32_t>(tokens.size()) - 1);
            if (first == kContext) first = 0;  // another request, the same blocks
        }
        steps.push_back(flat_step(requests, tokens, samples, kShape.block_size));
    }
    return steps;
}

}  // namespace

void test_program(int rounds) {
    Random random(5);
    const Model model(random);
    const auto steps = random_steps(rounds, random);
    for (const Isa* isa : instruction_sets()) {
        ThreadPool alone(1, 0);
        Recorded expected(model, alone, *isa);
        std::vector<std::vector<float>> logits;
        for (const auto& step : steps) logits.push_back(expected.run(step, Recorded::How::kWhole));
        for (int threads = 2; threads <= 4; ++threads) {
            ThreadPool pool(threads, 20);
            for (const auto how : {Recorded::How::kWhole, Recorded::How::kOpByOp, Recorded::How::kTimed}) {
                Recorded recorded(model, pool, *isa, how != Recorded::How::kTimed);
                for (size_t s = 0; s < steps.size(); ++s) {
                    const auto out = recorded.run(steps[s], how);
                    CHECK(out.size() == logits[s].size());
                    CHECK(out.empty() || std::memcmp(out.data(), logits[s].data(), out.size() * sizeof(float)) == 0);
                    for (const float value : out) CHECK(std::isfinite(value));
                }
            }
        }
    }
}

}  // namespace dayzero::tests
