#include "ops.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace dayzero {

namespace {

int rows_of(const Step& step, Rows rows) {
    return rows == Rows::kTokens ? step.num_tokens : static_cast<int>(step.sample_at.size());
}

void check_blocks(const Step& step, const KVPool& pool) {
    if (step.num_tokens == 0) return;
    if (static_cast<size_t>(pool.group) >= step.groups.size()) throw std::invalid_argument("a step lacks a cache group");
    const BlockTables& tables = step.groups[pool.group];
    if (tables.block_size != pool.shape.block_size) {
        throw std::invalid_argument("a step's blocks are not of the pool's size");
    }
    if (tables.largest >= pool.num_blocks) throw std::invalid_argument("a block table names a block beyond the pool");
}

// A row at a time, rows in equal shares.
template <typename Row>
void each_row(int rows, const Worker& worker, Row&& row) {
    const int threads = worker.pool.size();
    const int stop = static_cast<int>(static_cast<int64_t>(rows) * (worker.thread + 1) / threads);
    for (int r = static_cast<int>(static_cast<int64_t>(rows) * worker.thread / threads); r < stop; ++r) row(r);
}

class Embedding final : public Op {
  public:
    Embedding(Program& p, int out, const uint16_t* table, int64_t num_rows, float scale)
        : isa_(p.isa()), out_(p.buffer(out)), table_(table), num_rows_(num_rows), scale_(scale) {}

    void prepare(const Step& step) override {
        for (const int token : step.tokens) {
            if (token < 0 || token >= num_rows_) throw std::invalid_argument("a token is not in the vocabulary");
        }
    }

    void run(const Step& step, const Worker& worker) override {
        each_row(step.num_tokens, worker, [&](int r) {
            isa_.copy_bf16(table_ + static_cast<int64_t>(step.tokens[r]) * out_.width, scale_, out_.width, out_.row(r));
        });
    }

  private:
    const Isa& isa_;
    Buffer& out_;
    const uint16_t* table_;
    int64_t num_rows_;
    float scale_;
};

class AddRmsNorm final : public Op {
  public:
    AddRmsNorm(Program& p, int x, int y, const float* weight, float eps, int sum, int out, Rows rows)
        : isa_(p.isa()), x_(p.buffer(x)), y_(p.buffer(y)), sum_(p.buffer(sum)), out_(p.buffer(out)), weight_(weight),
          eps_(eps), rows_(rows) {}

    void run(const Step& step, const Worker& worker) override {
        each_row(rows_of(step, rows_), worker, [&](int r) {
            isa_.add_rms_norm(sum_.row(r), x_.row(r), y_.row(r), weight_, eps_, x_.width, out_.row(r));
        });
    }

  private:
    const Isa& isa_;
    Buffer &x_, &y_, &sum_, &out_;
    const float* weight_;
    float eps_;
    Rows rows_;
};

class RmsNorm final : public Op {
  public:
    RmsNorm(Program& p, int x, const float* weight, float eps, int out, Rows rows)
        : isa_(p.isa()), x_(p.buffer(x)), out_(p.buffer(out)), weight_(weight), eps_(eps), rows_(rows) {}

    void run(const Step& step, const Worker& worker) override {
        each_row(rows_of(step, rows_), worker,
                 [&](int r) { isa_.rms_norm(x_.row(r), weight_, eps_, x_.width, out_.row(r)); });
    }

  private:
    const Isa& isa_;
    Buffer &x_, &out_;
    const float* weight_;
    float eps_;
    Rows rows_;
};

class Add final : public Op {
  public:
    Add(Program& p, int x, int y, int out) : isa_(p.isa()), x_(p.buffer(x)), y_(p.buffer(y)), out_(p.buffer(out)) {}

    void run(const Step& step, const Worker& worker) override {
        each_row(step.num_tokens, worker, [&](int r) { isa_.add(x_.row(r), y_.row(r), x_.width, out_.row(r)); });
    }

  private:
    const Isa& isa_;
    Buffer &x_, &y_, &out_;
};

class TakeSamples final : public Op {
  public:
    TakeSamples(Program& p, int x, int out) : x_(p.buffer(x)), out_(p.buffer(out)) {}

    void run(const Step& step, const Worker& worker) override {
        each_row(static_cast<int>(step.sample_at.size()), worker, [&](int r) {
            std::memcpy(out_.row(r), x_.row(step.sample_at[r]), static_cast<size_t>(x_.width) * 4);
        });
    }

  private:
    Buffer &x_, &out_;
};

class Gated final : public Op {
  public:
    Gated(Program& p, int gate_up, int out, bool gelu)
        : activation_(gelu ? p.isa().gelu_mul : p.isa().silu_mul), x_(p.buffer(gate_up)), out_(p.buffer(out)) {}

    void run(const Step& step, const Worker& worker) override {
        const int width = out_.width;
        if (step.num_tokens > 1) {
            each_row(step.num_tokens, worker,
                     [&](int r) { activation_(x_.row(r), x_.row(r) + width, width, out_.row(r)); });
            return;
        }
        // One row: shared in whole vectors, so that an element's lane does not matter.
        const int threads = worker.pool.size(), vectors = (width + 15) / 16;
        const int start = vectors * worker.thread / threads * 16;
        const int stop = std::min(width, vectors * (worker.thread + 1) / threads * 16);
        if (step.num_tokens == 1 && start < stop) {
            activation_(x_.row(0) + start, x_.row(0) + width + start, stop - start, out_.row(0) + start);
        }
    }

  private:
    void (*const activation_)(const float*, const float*, int, float*);
    Buffer &x_, &out_;
};

class Linear final : public Op {
  public:
    Linear(Program& p, int x, const Weight& weight, const float* bias, int out, int first, Rows rows)
        : isa_(p.isa()), product_(isa_.product(weight.format)), x_(p.buffer(x)), weight_(weight), bias_(bias), out_(p.buffer(out)), first_(first), rows_(rows),
          row_bytes_(packed_row_bytes(weight.format, weight.padded_inner)) {}

    void prepare(const Step& step) override {
        if (rows_of(step, rows_) > kAlone) packed_.reserve(rows_of(step, rows_) * row_bytes_);
    }

    void poison() override { packed_.poison(); }

    int64_t scratch_bytes(const Step& step) const override {
        return gathered_bytes() + std::min(kAlone, rows_of(step, rows_)) * row_bytes_;
    }

    void run(const Step& step, const Worker& worker) override {
        const int rows = rows_of(step, rows_);
        if (rows == 0) return;
        const int64_t row_bytes = row_bytes_;
        uint8_t* packed = packed_.data();
        if (rows <= kAlone) {  // cheaper to pack than to meet
            packed = worker.scratch + gathered_bytes();
            for (int r = 0; r < rows; ++r) pack(r, worker.scratch, packed + r * row_bytes);
        } else {
            each_row(rows, worker, [&](int r) { pack(r, worker.scratch, packed + r * row_bytes); });
            worker.pool.barrier();
        }
        const int panels = weight_.num_panels(), threads = worker.pool.size();
        const int share = rows >= kMany ? 1 : std::max(1, panels / (threads * kShares));
        int start, stop, next, next_stop;
        for (bool more = take(share, panels, start, stop); more; start = next, stop = next_stop) {
            more = take(share, panels, next, next_stop);
            for (int panel = start; panel < stop; ++panel) {
                const int follower = panel + 1 < stop ? panel + 1 : more ? next : panel;
                multiply(packed, rows, panel, (follower - panel - 1) * weight_.panel_bytes);
            }
        }
    }

  private:
    static constexpr int kAlone = 4;
    static constexpr int kShares = 4;  // of each thread: one that is late leaves some to others
    static constexpr int kMany = 8;    // rows, for which a panel takes long beside taking it

    void multiply(const uint8_t* packed, int rows, int panel, int64_t leap) const {
        const int column = panel * kPanel, first = first_ + column;
        product_({.x = packed,
                  .x_stride = row_bytes_,
                  .rows = rows,
                  .panel = weight_.panel(panel),
                  .inner = weight_.padded_inner,
                  .out = out_.row(0) + first,
                  .out_stride = out_.width,
                  .columns = std::min(kPanel, weight_.features - column),
                  .bias = bias_ ? bias_ + first : nullptr,
                  .scale = weight_.scale.empty() ? nullptr : weight_.scale.data() + column,
                  .end = weight_.panel(panel) + weight_.panel_bytes,
                  .leap = leap});
    }

    // Of a row in the order of a weight that has one.
    int64_t gathered_bytes() const { return (static_cast<int64_t>(weight_.order.size()) * 4 + 63) / 64 * 64; }

    void pack(int r, uint8_t* scratch, uint8_t* to) const {
        const float* x = x_.row(r);
        if (!weight_.order.empty()) {
            auto* gathered = reinterpret_cast<float*>(scratch);
            for (int k = 0; k < weight_.inner; ++k) gathered[k] = x[weight_.order[static_cast<size_t>(k)]];
            x = gathered;
        }
        const int group = layout(weight_.format).activation_group;
        if (weight_.rotated) {
            isa_.pack_rotated_int8(x, weight_.padded_inner, to);
        } else if (group) {
            isa_.pack_int8(x, weight_.inner, weight_.padded_inner, group, to);
        } else {
            isa_.pack_bf16(x, weight_.inner, weight_.padded_inner, to);
        }
    }

    const Isa& isa_;
    const Product product_;
    Buffer& x_;
    const Weight& weight_;
    const float* bias_;
    Buffer& out_;
    int first_;
    Rows rows_;
    int64_t row_bytes_;
    AlignedBytes packed_;
};

class RopeAndWriteKV final : public Op {
  public:
    RopeAndWriteKV(Program& p, int qkv, const HeadNorms& norms, const float* cos, const float* signed_sin,
                   int num_positions, int num_heads, const KVPool& pool)
        : isa_(p.isa()), qkv_(p.buffer(qkv)), norms_(norms), cos_(cos), signed_sin_(signed_sin),
          num_positions_(num_positions), num_heads_(num_heads), pool_(pool) {}

    void prepare(const Step& step) override {
        check_blocks(step, pool_);
        for (const int position : step.positions) {
            if (position >= num_positions_) throw std::invalid_argument("a position is beyond the context");
        }
    }

    void run(const Step& step, const Worker& worker) override {
        each_row(step.num_tokens, worker, [&](int r) { row(step, r); });
    }

  private:
    void row(const Step& step, int r) const {
        const int block_size = pool_.shape.block_size, num_kv_heads = pool_.shape.num_kv_heads;
        const int head_dim = pool_.shape.head_dim;
        const int position = step.positions[r];
        const float* cos = cos_ + static_cast<int64_t>(position) * head_dim;
        const float* signed_sin = signed_sin_ + static_cast<int64_t>(position) * head_dim;
        float* q = qkv_.row(r);
        float* k = q + num_heads_ * head_dim;
        for (int head = 0; head < num_heads_ + num_kv_heads; ++head) {
            float* x = q + head * head_dim;
            const float* weight = head < num_heads_ ? norms_.q : norms_.k;
            if (weight) isa_.rms_norm(x, weight, norms_.eps, head_dim, x);
            isa_.rope(x, cos, signed_sin, head_dim);
        }
        const BlockTables& group = step.groups[pool_.group];
        const int64_t slot = group.slot(step.requests[r], step.own_place(group, r));
        isa_.write_kv(k, k + num_kv_heads * head_dim, pool_.shape, pool_.block(slot / block_size),
                      static_cast<int>(slot % block_size));
    }

    const Isa& isa_;
    Buffer& qkv_;
    HeadNorms norms_;
    const float *cos_, *signed_sin_;
    int num_positions_, num_heads_;
    KVPool pool_;
};

class Attention final : public Op {
  public:
    Attention(Program& p, int qkv, int out, float scale, int window, int num_heads, const KVPool& pool,
              const float* biases)
        : isa_(p.isa()), num_threads_(p.num_threads()), qkv_(p.buffer(qkv)), out_(p.buffer(out)), scale_(scale),
          window_(window), queries_(num_heads / pool.shape.num_kv_heads), pool_(pool), biases_(biases) {}

    void poison() override { found_.poison(); }

    int64_t scratch_bytes(const Step&) const override {
        return attend_scratch_bytes(kRows * queries_, pool_.shape.head_dim);
    }

    void prepare(const Step& step) override {
        check_blocks(step, pool_);
        items_.clear();
        for (int request = 0; request < step.num_requests; ++request) {
            if (!biases_ && step.num_tokens && step.groups[pool_.group].num_biased(request)) {
                throw std::invalid_argument("a step biases keys of a layer that has no biases");
            }
            const int stop = step.query_starts[request + 1], first_tree = stop - step.num_tree_rows(request);
            add_items(step, request, step.query_starts[request], first_tree);
            add_items(step, request, first_tree, stop);
        }
        int most_parts = 1;
        for (const Item& item : items_) most_parts = std::max(most_parts, item.parts.stop - item.parts.first);
        const int num_kv_heads = pool_.shape.num_kv_heads;
        is_split_ = num_threads_ > 1 && most_parts > 1 &&
                    static_cast<int>(items_.size()) * num_kv_heads < kShares * num_threads_;
        if (is_split_) split();
    }

    void run(const Step& step, const Worker& worker) override {
        const int num_kv_heads = pool_.shape.num_kv_heads;
        if (is_split_) {
            for (int start, stop; take(1, static_cast<int>(pieces_.size()), start, stop);) {
                run_piece(step, worker, pieces_[start]);
            }
            return;
        }
        // The last rows of a request see most: they come first.
        const auto item_of = [&](int i) { return items_[items_.size() - 1 - i / num_kv_heads]; };
        const int count = static_cast<int>(items_.size()) * num_kv_heads;
        int now, next, stop;
        for (bool more = take(1, count, now, stop); more; now = next) {
            Attend attend = call(step, worker, item_of(now), now % num_kv_heads);
            more = take(1, count, next, stop);
            if (more) attend.next = first_keys(step, item_of(next), next % num_kv_heads);
            isa_.attend(attend);
        }
    }

  private:
    static constexpr int kRows = 32;
    static constexpr int kShares = 4;  // of each thread, or items are split

    struct Item {
        int request, row, num_rows;
        int last;  // place
        KeyParts parts;
    };

    // A part of an item's keys for one KV head. Whoever ends the last one folds them all.
    struct Piece {
        int item, kv_head, part;
        int64_t found;  // bytes before what the first part of the item and head finds
    };

    void add_items(const Step& step, int request, int row, int stop) {
        for (; row < stop; row += kRows) {
            const int num_rows = std::min(kRows, stop - row), dropped = step.groups[pool_.group].num_dropped(request);
            const auto rows = std::span(step.positions).subspan(row, num_rows);
            const auto [first, last] = std::minmax_element(rows.begin(), rows.end());
            const int last_place = *last - dropped;
            items_.push_back({request, row, num_rows, last_place, key_parts(*first - dropped, last_place, window_)});
        }
    }

    void split() {
        pieces_.clear();
        int64_t bytes = 0;
        for (size_t i = 0; i < items_.size(); ++i) {
            const Item& item = items_[i];
            for (int head = 0; head < pool_.shape.num_kv_heads; ++head) {
                for (int part = item.parts.first; part < item.parts.stop; ++part) {
                    pieces_.push_back({static_cast<int>(i), head, part, bytes});
                }
                bytes += found_bytes(item) * (item.parts.stop - item.parts.first);
            }
        }
        found_.reserve(bytes);
        const size_t counters = items_.size() * static_cast<size_t>(pool_.shape.num_kv_heads);
        if (counters > left_.size()) left_ = std::vector<std::atomic<int>>(counters);
        for (size_t i = 0; i < counters; ++i) {
            const KeyParts& parts = items_[i / static_cast<size_t>(pool_.shape.num_kv_heads)].parts;
            left_[i].store(parts.stop - parts.first, std::memory_order_relaxed);
        }
    }

    int64_t found_bytes(const Item& item) const { return part_bytes(item.num_rows * queries_, pool_.shape.head_dim); }

    void run_piece(const Step& step, const Worker& worker, const Piece& piece) {
        const Item& item = items_[static_cast<size_t>(piece.item)];
        const Attend attend = call(step, worker, item, piece.kv_head);
        uint8_t* found = found_.data() + piece.found;
        isa_.attend_part(attend, piece.part, found + (piece.part - item.parts.first) * found_bytes(item));
        auto& left = left_[static_cast<size_t>(piece.item * pool_.shape.num_kv_heads + piece.kv_head)];
        if (left.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            isa_.attend_parts(attend, found, item.parts.stop - item.parts.first);
        }
    }

    NextKeys first_keys(const Step& step, const Item& item, int kv_head) const {
        return {table_of(step, item), kv_head, item.parts.first * kKeyPart, item.last};
    }

    const int32_t* table_of(const Step& step, const Item& item) const {
        const BlockTables& group = step.groups[pool_.group];
        return group.tables + static_cast<int64_t>(item.request) * group.stride;
    }

    Attend call(const Step& step, const Worker& worker, const Item& item, int kv_head) const {
        const int64_t head = static_cast<int64_t>(kv_head) * queries_ * pool_.shape.head_dim;
        const BlockTables& group = step.groups[pool_.group];
        const int first_tree = step.query_starts[item.request + 1] - step.num_tree_rows(item.request);
        const bool is_tree = item.row >= first_tree;
        // q lies in a wider row than out: the inner loop is told where each begins.
        return {.q = qkv_.row(item.row) + head,
                .q_stride = qkv_.width,
                .out = out_.row(item.row) + head,
                .out_stride = out_.width,
                .num_rows = item.num_rows,
                .positions = step.positions.data() + item.row,
                .dropped = group.num_dropped(item.request),
                .queries_per_kv = queries_,
                .scale = scale_,
                .window = window_,
                .pool = pool_.blocks,
                .table = table_of(step, item),
                .shape = pool_.shape,
                .kv_head = kv_head,
                .biases = biases_,
                .num_biased = group.num_biased(item.request),
                .trees = is_tree ? step.trees.data() + item.row : nullptr,
                .first_tree = is_tree ? step.own_place(group, first_tree) : 0,
                .scratch = worker.scratch,
                .next = {}};
    }

    const Isa& isa_;
    const int num_threads_;
    Buffer &qkv_, &out_;
    float scale_;
    int window_, queries_;
    KVPool pool_;
    const float* biases_;
    std::vector<Item> items_;
    bool is_split_ = false;
    std::vector<Piece> pieces_;
    std::vector<std::atomic<int>> left_;  // pieces of each item and head that nobody has ended
    AlignedBytes found_;
};

}  // namespace

void add_embedding(Program& p, int out, const uint16_t* table, int64_t num_rows, float scale) {
    p.add(std::make_unique<Embedding>(p, out, table, num_rows, scale));
}

void add_add_rms_norm(Program& p, int x, int y, const float* weight, float eps, int sum, int out, Rows rows) {
    p.add(std::make_unique<AddRmsNorm>(p, x, y, weight, eps, sum, out, rows));
}

void add_rms_norm(Program& p, int x, const float* weight, float eps, int out, Rows rows) {
    p.add(std::make_unique<RmsNorm>(p, x, weight, eps, out, rows));
}

void add_add(Program& p, int x, int y, int out) { p.add(std::make_unique<Add>(p, x, y, out)); }

void add_take_samples(Program& p, int x, int out) { p.add(std::make_unique<TakeSamples>(p, x, out)); }

void add_linear(Program& p, int x, const Weight& weight, const float* bias, int out, int first, Rows rows) {
    if (first < 0 || first + weight.features > p.buffer(out).width || weight.inner != p.buffer(x).width) {
        throw std::invalid_argument("a weight does not fit its buffers");
    }
    p.add(std::make_unique<Linear>(p, x, weight, bias, out, first, rows));
}

void add_gated(Program& p, int gate_up, int out, bool gelu) { p.add(std::make_unique<Gated>(p, gate_up, out, gelu)); }

void add_rope_and_write_kv(Program& p, int qkv, const HeadNorms& norms, const float* cos, const float* signed_sin,
                           int num_positions, int num_heads, const KVPool& pool) {
    p.add(std::make_unique<RopeAndWriteKV>(p, qkv, norms, cos, signed_sin, num_positions, num_heads, pool));
}

void add_attention(Program& p, int qkv, int out, float scale, int window, int num_heads, const KVPool& pool,
                   const float* biases) {
    p.add(std::make_unique<Attention>(p, qkv, out, scale, window, num_heads, pool, biases));
}

}  // namespace dayzero
