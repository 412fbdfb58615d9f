// What attention.hpp says, for every instruction set. Included by rows.inl, whose head says what it stands on.

// Pairs of features of one token to their places among those of 16.
template <typename Pair>
void spread(const uint8_t* pairs, int head_dim, uint8_t* tile, int token) {
    auto* to = reinterpret_cast<Pair*>(tile) + token;
    for (int i = 0; i < head_dim / 2; ++i) to[i * kTile] = reinterpret_cast<const Pair*>(pairs)[i];
}

// K passes through the place of V, which comes after it.
void write_kv(const float* k, const float* v, const KVShape& shape, uint8_t* block, int offset) {
    const int head_dim = shape.head_dim, token = offset % kTile;
    for (int head = 0; head < shape.num_kv_heads; ++head, k += head_dim, v += head_dim) {
        uint8_t* keys = block + shape.key_tile(head, offset - token);
        uint8_t* values = block + shape.value(head, offset);
        if (shape.format == KVFormat::kBf16) {
            pack_bf16(k, head_dim, head_dim, values);
            spread<uint32_t>(values, head_dim, keys, token);
            pack_bf16(v, head_dim, head_dim, values);
        } else {
            auto* codes = reinterpret_cast<int8_t*>(values);
            int32_t total;  // of the codes: nobody asks
            quantise(k, head_dim, head_dim, codes, reinterpret_cast<float*>(block + shape.key_scale(head, offset)), &total);
            spread<uint16_t>(values, head_dim, keys, token);
            quantise(v, head_dim, head_dim, codes, reinterpret_cast<float*>(block + shape.value_scale(head, offset)), &total);
        }
    }
}

// Where a place of a request lies in the pool.
struct Slot {
    const uint8_t* block;
    int offset;

    Slot(const Attend& call, const int32_t* table, int place)
        : block(call.pool + table[place / call.shape.block_size] * call.shape.block()),
          offset(place % call.shape.block_size) {}
    Slot(const Attend& call, int place) : Slot(call, call.table, place) {}
};

// Keys and values that are met next, 16 by 16 as they are stored, to be fetched little by little: blocks lie scattered,
// hardware does not guess where, and it waits for a burst of fetches as for any other.
struct Ahead {
    const uint8_t *keys[4], *values[4];
    int token_bytes = 0;  // 0: nothing is known

    Ahead() = default;
    Ahead(const Attend& call, const NextKeys& next) {
        if (!next.table) return;
        const KVShape& shape = call.shape;
        for (int t = 0; t < 4; ++t) {
            const Slot slot(call, next.table, std::min(next.first + t * kTile, next.last / kTile * kTile));
            keys[t] = slot.block + shape.key_tile(next.kv_head, slot.offset);
            values[t] = slot.block + shape.value(next.kv_head, slot.offset);
        }
        token_bytes = static_cast<int>(shape.head_dim * shape.element());
    }

    // As many bytes as one of 64 keys and its value take.
    void fetch(int key) const {
        const int64_t at = static_cast<int64_t>(key % kTile) * token_bytes;
        for (int i = 0; i < token_bytes; i += 64) {
            _mm_prefetch(reinterpret_cast<const char*>(keys[key / kTile] + at + i), _MM_HINT_T0);
            _mm_prefetch(reinterpret_cast<const char*>(values[key / kTile] + at + i), _MM_HINT_T0);
        }
    }
};

// 64 keys and their values, 16 by 16, as bfloat16; or of int8 codes: keys as bfloat16, values, and the scales of both.
template <typename Value>
struct Tile {
    int first;  // place
    const uint16_t* keys[4];
    const Value* values[4];
    const float *key_scales[4], *value_scales[4];
    const float* biases[4];  // of the first num_biased keys
    int num_biased;
    Ahead ahead;
};

template <typename Value>
constexpr bool kHasScales = sizeof(Value) == 1;

inline F load_value(const uint16_t* p) { return load_bf16(p); }
inline F load_value(const int8_t* p) { return load_int8(p); }

// sums[line][0 .. kLanes * Vectors) += p[line][key] * v[key] for keys [first_key, stop_key).
template <int Lines, int Vectors, typename Value>
void mix(const float* p, const Value* const values[4], int64_t at, int head_dim, int first_key, int stop_key,
         float* sums, const Ahead* ahead) {
    F acc[Lines][Vectors];
    for (int line = 0; line < Lines; ++line) {
        for (int i = 0; i < Vectors; ++i) acc[line][i] = load(sums + line * head_dim + i * kLanes);
    }
    for (int key = first_key; key < stop_key; ++key) {
        if (ahead) ahead->fetch(key);
        const Value* v = values[key / kTile] + static_cast<int64_t>(key % kTile) * head_dim + at;
        F value[Vectors];
        for (int i = 0; i < Vectors; ++i) value[i] = load_value(v + i * kLanes);
        for (int line = 0; line < Lines; ++line) {
            const F weight = set1(p[line * kKeyTile + key]);
            for (int i = 0; i < Vectors; ++i) acc[line][i] = fma(weight, value[i], acc[line][i]);
        }
    }
    for (int line = 0; line < Lines; ++line) {
        for (int i = 0; i < Vectors; ++i) store(sums + line * head_dim + i * kLanes, acc[line][i]);
    }
}

template <int Lines, typename Value>
void mix_all(const float* p, const Value* const values[4], int head_dim, int first_key, int stop_key, float* sums,
             const Ahead* ahead) {
    constexpr int kWide = kMixVectors<Lines>;
    int d = 0;
    for (; d + kWide * kLanes <= head_dim; d += kWide * kLanes) {
        mix<Lines, kWide>(p, values, d, head_dim, first_key, stop_key, sums + d, d == 0 ? ahead : nullptr);
    }
    for (; d < head_dim; d += kLanes) mix<Lines, 1>(p, values, d, head_dim, first_key, stop_key, sums + d, nullptr);
}

struct Running {
    float most, total;
};

// The sums of an item's lines over some of their keys, not yet divided by their totals.
struct Sums {
    float* values;  // [lines][D]
    Running* running;

    Sums(uint8_t* at, int lines, int head_dim)
        : values(reinterpret_cast<float*>(at)),
          running(reinterpret_cast<Running*>(values + static_cast<int64_t>(lines) * head_dim)) {}
};

void forget(const Sums& sums, int line, int head_dim) {
    for (int i = 0; i < head_dim; i += kLanes) store(sums.values + line * head_dim + i, zero());
    sums.running[line] = {-std::numeric_limits<float>::infinity(), 0.0f};
}

inline uint32_t below(int count) { return count >= 32 ? ~0u : (1u << count) - 1; }

// Scores of one line into the weights of values, exp(score - most), and what that does to its running sums. Keys outside
// [lo, hi) get the weight 0; a line that sees none of the tile is left as it was.
template <typename Value>
void soften(float* scores, const Tile<Value>& tile, int lo, int hi, float scale, Running& running, float* sums,
            int head_dim) {
    constexpr int kVectors = kKeyTile / kLanes;
    if (hi <= lo) {
        for (int i = 0; i < kKeyTile; i += kLanes) store(scores + i, zero());
        return;
    }
    const uint64_t seen = (hi >= 64 ? ~0ull : (1ull << hi) - 1) & ~((1ull << lo) - 1);
    const F least = set1(-std::numeric_limits<float>::infinity());
    F s[kVectors], most = least;
    for (int t = 0; t < kVectors; ++t) {
        const int at = t * kLanes;
        F factor = set1(scale);
        if constexpr (kHasScales<Value>) factor = mul(factor, load(tile.key_scales[at / kTile] + at % kTile));
        s[t] = mul(load(scores + at), factor);
        if (tile.num_biased > at) {
            const F bias = load(tile.biases[at / kTile] + at % kTile);
            s[t] = add(s[t], select(below(tile.num_biased - at), bias, zero()));
        }
        s[t] = select(static_cast<uint32_t>(seen >> at), s[t], least);
        most = max(most, s[t]);
    }
    const float now = std::max(running.most, largest(most));
    if (now == -std::numeric_limits<float>::infinity()) {  // biases leave nothing of what it has seen so far
        for (int i = 0; i < kKeyTile; i += kLanes) store(scores + i, zero());
        return;
    }
    F total = zero();
    for (int t = 0; t < kVectors; ++t) {
        const int at = t * kLanes;
        F weight = exp(sub(s[t], set1(now)));
        total = add(total, weight);
        if constexpr (kHasScales<Value>) {  // of an unseen value it may be anything
            weight = mul(weight, load(tile.value_scales[at / kTile] + at % kTile));
            weight = select(static_cast<uint32_t>(seen >> at), weight, zero());
        }
        store(scores + at, weight);
    }
    if (now > running.most) {
        const F keep = exp(set1(running.most - now));
        running.total *= lane0(keep);
        for (int i = 0; i < head_dim; i += kLanes) store(sums + i, mul(load(sums + i), keep));
    }
    running.most = now;
    running.total += sum(total);
}

// Lines [first_line, first_line + Count) against a tile.
template <int Count, typename Value>
void meet(const Attend& call, const uint16_t* q, const Sums& sums, int first_line, const Tile<Value>& tile) {
    const int head_dim = call.shape.head_dim, queries = call.queries_per_kv;
    alignas(64) float scores[Count * kKeyTile];
    score<Count>(q + first_line * head_dim, head_dim, tile.keys, scores);
    int first_key = kKeyTile, stop_key = 0;
    for (int i = 0; i < Count; ++i) {
        const int place = call.place((first_line + i) / queries);
        const int lo = call.window ? std::max(0, place - call.window + 1 - tile.first) : 0;
        const int hi = std::min(kKeyTile, place + 1 - tile.first);
        soften(scores + i * kKeyTile, tile, std::min(lo, kKeyTile), hi, call.scale, sums.running[first_line + i],
               sums.values + (first_line + i) * head_dim, head_dim);
        first_key = std::min(first_key, lo);
        stop_key = std::max(stop_key, hi);
    }
    mix_all<Count>(scores, tile.values, head_dim, first_key, stop_key, sums.values + first_line * head_dim,
                   first_line == 0 ? &tile.ahead : nullptr);
}

// meet<count>, for a count from 1 to Most.
template <int Most, typename Value>
void meet_up_to(int count, const Attend& call, const uint16_t* q, const Sums& sums, int first_line,
                const Tile<Value>& tile) {
    if constexpr (Most > 1) {
        if (count < Most) return meet_up_to<Most - 1>(count, call, q, sums, first_line, tile);
    }
    meet<Most>(call, q, sums, first_line, tile);
}

// Codes as bfloat16.
void widen(const int8_t* codes, int count, uint16_t* out) {
    for (int i = 0; i < count; i += kLanes) store_exact_bf16(out + i, load_int8(codes + i));
}

// One token's key among 16, to a column of others: pairs of features that are 16 pairs apart.
void gather(const uint16_t* from, int head_dim, uint16_t* to) {
    for (int i = 0; i < head_dim / 2; ++i) std::memcpy(to + i * 2 * kTile, from + i * 2 * kTile, 4);
}
void gather(const int8_t* from, int head_dim, uint16_t* to) {
    for (int i = 0; i < head_dim; ++i) {
        const float code = from[i / 2 * 2 * kTile + i % 2];
        uint32_t bits;
        std::memcpy(&bits, &code, 4);
        to[i / 2 * 2 * kTile + i % 2] = static_cast<uint16_t>(bits >> 16);
    }
}

const float* biases_at(const Attend& call, const Slot& slot) {
    const int64_t block = (slot.block - call.pool) / call.shape.block();
    return call.biases + (block * call.shape.num_kv_heads + call.kv_head) * call.shape.block_size + slot.offset;
}

// An item's scratch.
struct Workplace {
    Sums whole, part;
    uint16_t *q, *keys;
    uint8_t* values;
    float *key_scales, *value_scales;

    explicit Workplace(const Attend& call)
        : whole(call.scratch, call.lines(), call.shape.head_dim),
          part(call.scratch + part_bytes(call.lines(), call.shape.head_dim), call.lines(), call.shape.head_dim),
          q(reinterpret_cast<uint16_t*>(call.scratch + 2 * part_bytes(call.lines(), call.shape.head_dim))),
          keys(q + call.lines() * call.shape.head_dim),
          values(reinterpret_cast<uint8_t*>(keys + kKeyTile * call.shape.head_dim)),
          key_scales(reinterpret_cast<float*>(values + 2 * kKeyTile * call.shape.head_dim)),
          value_scales(key_scales + kKeyTile) {}
};

// The keys at places [first, first + 64), where they lie one after the other.
template <typename Value>
Tile<Value> tile_at(const Attend& call, const Workplace& at, int first, int last) {
    const KVShape& shape = call.shape;
    Tile<Value> tile{first, {}, {}, {}, {}, {}, call.num_biased - first, {}};
    for (int t = 0; t < 4; ++t) {
        // Keys that nobody here sees yet may lie in blocks that the request does not have: any 16 that are there do.
        const Slot slot(call, std::min(first + t * kTile, last / kTile * kTile));
        const uint8_t* stored = slot.block + shape.key_tile(call.kv_head, slot.offset);
        tile.values[t] = reinterpret_cast<const Value*>(slot.block + shape.value(call.kv_head, slot.offset));
        if constexpr (kHasScales<Value>) {
            uint16_t* keys = at.keys + t * kTile * shape.head_dim;
            widen(reinterpret_cast<const int8_t*>(stored), kTile * shape.head_dim, keys);
            tile.keys[t] = keys;
            tile.key_scales[t] = reinterpret_cast<const float*>(slot.block + shape.key_scale(call.kv_head, slot.offset));
            tile.value_scales[t] = reinterpret_cast<const float*>(slot.block + shape.value_scale(call.kv_head, slot.offset));
        } else {
            tile.keys[t] = reinterpret_cast<const uint16_t*>(stored);
        }
        if (tile.num_biased > 0) tile.biases[t] = biases_at(call, slot);
    }
    tile.ahead = first + kKeyTile <= last ? Ahead(call, {call.table, call.kv_head, first + kKeyTile, last}) : Ahead(call, call.next);
    return tile;
}

// The keys at places [first, first + 64) of a row of a forest: those before it, and its ancestors by their depth.
template <typename Value>
Tile<Value> branch_at(const Attend& call, const Workplace& at, int first, int row) {
    const KVShape& shape = call.shape;
    const int head_dim = shape.head_dim, stop = std::min(first + kKeyTile, call.place(row) + 1);
    Tile<Value> tile{first, {}, {}, {}, {}, {}, call.num_biased - first, {}};
    auto* values = reinterpret_cast<Value*>(at.values);
    for (int t = 0; t < 4; ++t) {
        tile.keys[t] = at.keys + t * kTile * head_dim;
        tile.values[t] = values + t * kTile * head_dim;
        tile.key_scales[t] = at.key_scales + t * kTile;
        tile.value_scales[t] = at.value_scales + t * kTile;
        const int home = first + t * kTile;
        if (tile.num_biased > t * kTile) tile.biases[t] = biases_at(call, Slot(call, home));
    }
    uint64_t ancestors = call.trees[row];
    for (int depth = call.first_tree; depth < first; ++depth) ancestors &= ancestors - 1;
    for (int place = first; place < stop; ++place) {
        int stored = place;
        if (place >= call.first_tree) {
            stored = call.first_tree + __builtin_ctzll(ancestors);
            ancestors &= ancestors - 1;
        }
        const Slot slot(call, stored);
        const int key = place - first, column = key % kTile, token = slot.offset % kTile;
        const uint8_t* keys = slot.block + shape.key_tile(call.kv_head, slot.offset - token);
        gather(reinterpret_cast<const Value*>(keys) + 2 * token, head_dim, at.keys + key / kTile * kTile * head_dim + 2 * column);
        std::memcpy(values + key * head_dim, slot.block + shape.value(call.kv_head, slot.offset), sizeof(Value) * head_dim);
        if constexpr (kHasScales<Value>) {
            std::memcpy(at.key_scales + key, slot.block + shape.key_scale(call.kv_head, slot.offset), sizeof(float));
            std::memcpy(at.value_scales + key, slot.block + shape.value_scale(call.kv_head, slot.offset), sizeof(float));
        }
    }
    return tile;
}

// Lines [first_line, stop_line) against a tile, so many of them together as registers hold.
template <typename Value>
void meet_tile(const Attend& call, const Workplace& at, const Sums& sums, int first_line, int stop_line,
               const Tile<Value>& tile) {
    for (int line = first_line; line < stop_line;) {
        const int count = std::min(stop_line - line, kMaxLines);
        const bool seen = call.trees || call.place((line + count - 1) / call.queries_per_kv) >= tile.first;
        if (seen) meet_up_to<kMaxLines>(count, call, at.q, sums, line, tile);
        line += count;
    }
}

// The lowest and the highest place of lines [first_line, stop_line).
struct Places {
    int first, last;

    Places(const Attend& call, int first_line, int stop_line) {
        const int first_row = first_line / call.queries_per_kv, last_row = (stop_line - 1) / call.queries_per_kv;
        first = call.place(first_row);
        last = call.place(last_row);
        if (!call.trees) return;
        for (int row = first_row; row <= last_row; ++row) {
            first = std::min(first, call.place(row));
            last = std::max(last, call.place(row));
        }
    }
};

// Lines [first_line, stop_line) over the keys of one part. Tiles that reach into a forest are each row's own.
template <typename Value>
void meet_part_of(const Attend& call, const Workplace& at, const Sums& sums, int first_line, int stop_line, int part) {
    const int queries = call.queries_per_kv;
    const Places places(call, first_line, stop_line);
    for (int line = first_line; line < stop_line; ++line) forget(sums, line, call.shape.head_dim);
    const int seen_from = call.window ? std::max(0, places.first - call.window + 1) / kKeyTile * kKeyTile : 0;
    const int stop = std::min(places.last + 1, (part + 1) * kKeyPart);
    for (int key = std::max(seen_from, part * kKeyPart); key < stop; key += kKeyTile) {
        if (!call.trees || key + kKeyTile <= call.first_tree) {
            meet_tile(call, at, sums, first_line, stop_line, tile_at<Value>(call, at, key, places.last));
            continue;
        }
        for (int row = first_line / queries; row * queries < stop_line; ++row) {
            if (call.place(row) < key) continue;
            const int first = std::max(first_line, row * queries), last = std::min(stop_line, (row + 1) * queries);
            meet_tile(call, at, sums, first, last, branch_at<Value>(call, at, key, row));
        }
    }
}

void meet_part(const Attend& call, const Workplace& at, const Sums& sums, int first_line, int stop_line, int part) {
    const bool is_int8 = call.shape.format == KVFormat::kInt8;
    (is_int8 ? meet_part_of<int8_t> : meet_part_of<uint16_t>)(call, at, sums, first_line, stop_line, part);
}

// Adds what a line found in a part to what it found in those before.
void fold(const Sums& whole, const Sums& part, int line, int head_dim) {
    Running &a = whole.running[line], &b = part.running[line];
    if (b.total == 0.0f) return;  // it sees none of the part
    const float most = std::max(a.most, b.most);
    const F keep = exp(set1(a.most - most)), take = exp(set1(b.most - most));
    a = {most, a.total * lane0(keep) + b.total * lane0(take)};
    float *into = whole.values + line * head_dim, *from = part.values + line * head_dim;
    for (int i = 0; i < head_dim; i += kLanes) store(into + i, fma(load(from + i), take, mul(load(into + i), keep)));
}

// Writes a line's result; whether all of it is finite. 0 has no sign: that of a sum which vanished would tell whether
// keys were added at the weight 0.
bool write_line(const Attend& call, const Sums& sums, int line) {
    const int head_dim = call.shape.head_dim;
    float* to = call.out + line / call.queries_per_kv * call.out_stride + line % call.queries_per_kv * head_dim;
    const F scale = set1(1.0f / sums.running[line].total);
    F spoilt = zero();
    for (int i = 0; i < head_dim; i += kLanes) {
        const F value = add(mul(load(sums.values + line * head_dim + i), scale), zero());
        spoilt = fma(value, zero(), spoilt);  // NaN if any is not finite
        store(to + i, value);
    }
    return sum(spoilt) == 0.0f;
}

void pack_queries(const Attend& call, uint16_t* q) {
    const int head_dim = call.shape.head_dim, queries = call.queries_per_kv;
    for (int line = 0; line < call.lines(); ++line) {
        const float* from = call.q + line / queries * call.q_stride + line % queries * head_dim;
        pack_bf16(from, head_dim, head_dim, reinterpret_cast<uint8_t*>(q + line * head_dim));
    }
}

// Lines [first_line, stop_line) over all that any of them sees.
void meet_all(const Attend& call, const Workplace& at, int first_line, int stop_line) {
    const Places places(call, first_line, stop_line);
    const KeyParts parts = key_parts(places.first, places.last, call.window);
    meet_part(call, at, at.whole, first_line, stop_line, parts.first);
    for (int part = parts.first + 1; part < parts.stop; ++part) {
        meet_part(call, at, at.part, first_line, stop_line, part);
        for (int line = first_line; line < stop_line; ++line) fold(at.whole, at.part, line, call.shape.head_dim);
    }
}

// From the sums to the results. A line that is not finite goes by itself: then it meets the keys that it sees and no
// others.
void write_lines(const Attend& call, const Workplace& at) {
    for (int line = 0; line < call.lines(); ++line) {
        if (write_line(call, at.whole, line)) continue;
        meet_all(call, at, line, line + 1);
        write_line(call, at.whole, line);
    }
}

void attend(const Attend& call) {
    const Workplace at(call);
    pack_queries(call, at.q);
    meet_all(call, at, 0, call.lines());
    write_lines(call, at);
}

void attend_part(const Attend& call, int part, uint8_t* found) {
    const Workplace at(call);
    pack_queries(call, at.q);
    meet_part(call, at, Sums(found, call.lines(), call.shape.head_dim), 0, call.lines(), part);
}

void attend_parts(const Attend& call, uint8_t* found, int num_parts) {
    const Workplace at(call);
    const int head_dim = call.shape.head_dim;
    for (int line = 0; line < call.lines(); ++line) forget(at.whole, line, head_dim);
    for (int part = 0; part < num_parts; ++part) {
        const Sums sums(found + part * part_bytes(call.lines(), head_dim), call.lines(), head_dim);
        for (int line = 0; line < call.lines(); ++line) fold(at.whole, sums, line, head_dim);
    }
    pack_queries(call, at.q);
    write_lines(call, at);
}
