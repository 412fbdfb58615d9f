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

// 64 keys and their values, 16 by 16, as bfloat16; or of int8 codes: keys as bfloat16, values, and the scales of both.
template <typename Value>
struct Tile {
    int first;  // position
    const uint16_t* keys[4];
    const Value* values[4];
    const float *key_scales[4], *value_scales[4];
};

template <typename Value>
constexpr bool kHasScales = sizeof(Value) == 1;

inline F load_value(const uint16_t* p) { return load_bf16(p); }
inline F load_value(const int8_t* p) { return load_int8(p); }

// sums[line][0 .. kLanes * Vectors) += p[line][key] * v[key] for keys [first_key, stop_key).
template <int Lines, int Vectors, typename Value>
void mix(const float* p, const Value* const values[4], int64_t at, int head_dim, int first_key, int stop_key,
         float* sums) {
    F acc[Lines][Vectors];
    for (int line = 0; line < Lines; ++line) {
        for (int i = 0; i < Vectors; ++i) acc[line][i] = load(sums + line * head_dim + i * kLanes);
    }
    for (int key = first_key; key < stop_key; ++key) {
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
void mix_all(const float* p, const Value* const values[4], int head_dim, int first_key, int stop_key, float* sums) {
    constexpr int kWide = kMixVectors<Lines>;
    int d = 0;
    for (; d + kWide * kLanes <= head_dim; d += kWide * kLanes) {
        mix<Lines, kWide>(p, values, d, head_dim, first_key, stop_key, sums + d);
    }
    for (; d < head_dim; d += kLanes) mix<Lines, 1>(p, values, d, head_dim, first_key, stop_key, sums + d);
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
        s[t] = select(static_cast<uint32_t>(seen >> at), mul(load(scores + at), factor), least);
        most = max(most, s[t]);
    }
    const float now = std::max(running.most, largest(most));
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
    int first_key = kKeyTile;
    for (int i = 0; i < Count; ++i) {
        const int position = call.first_position + (first_line + i) / queries;
        const int lo = call.window ? std::max(0, position - call.window + 1 - tile.first) : 0;
        const int hi = std::min(kKeyTile, position + 1 - tile.first);
        soften(scores + i * kKeyTile, tile, std::min(lo, kKeyTile), hi, call.scale, sums.running[first_line + i],
               sums.values + (first_line + i) * head_dim, head_dim);
        first_key = std::min(first_key, lo);
    }
    const int last = call.first_position + (first_line + Count - 1) / queries;
    mix_all<Count>(scores, tile.values, head_dim, first_key, std::min(kKeyTile, last + 1 - tile.first),
                   sums.values + first_line * head_dim);
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

// `keys` has room for the keys of a tile.
template <typename Value>
Tile<Value> tile_at(const Attend& call, int first, int last, uint16_t* keys) {
    const KVShape& shape = call.shape;
    Tile<Value> tile{first, {}, {}, {}, {}};
    for (int t = 0; t < 4; ++t) {
        // Keys that nobody here sees yet may lie in blocks that the request does not have: any 16 that are there do.
        const int position = std::min(first + t * kTile, last / kTile * kTile), offset = position % shape.block_size;
        const uint8_t* block = call.pool + call.table[position / shape.block_size] * shape.block();
        const uint8_t* stored = block + shape.key_tile(call.kv_head, offset);
        tile.values[t] = reinterpret_cast<const Value*>(block + shape.value(call.kv_head, offset));
        if constexpr (kHasScales<Value>) {
            tile.keys[t] = keys + t * kTile * shape.head_dim;
            widen(reinterpret_cast<const int8_t*>(stored), kTile * shape.head_dim, keys + t * kTile * shape.head_dim);
            tile.key_scales[t] = reinterpret_cast<const float*>(block + shape.key_scale(call.kv_head, offset));
            tile.value_scales[t] = reinterpret_cast<const float*>(block + shape.value_scale(call.kv_head, offset));
        } else {
            tile.keys[t] = reinterpret_cast<const uint16_t*>(stored);
        }
    }
    return tile;
}

// An item's scratch.
struct Workplace {
    Sums whole, part;
    uint16_t *q, *keys;

    explicit Workplace(const Attend& call)
        : whole(call.scratch, call.lines(), call.shape.head_dim),
          part(call.scratch + part_bytes(call.lines(), call.shape.head_dim), call.lines(), call.shape.head_dim),
          q(reinterpret_cast<uint16_t*>(call.scratch + 2 * part_bytes(call.lines(), call.shape.head_dim))),
          keys(q + call.lines() * call.shape.head_dim) {}
};

// Lines [first_line, stop_line) over the keys of one part.
template <typename Value>
void meet_part_of(const Attend& call, const Workplace& at, const Sums& sums, int first_line, int stop_line, int part) {
    const int queries = call.queries_per_kv;
    const int first = call.first_position + first_line / queries;
    const int last = call.first_position + (stop_line - 1) / queries;
    for (int line = first_line; line < stop_line; ++line) forget(sums, line, call.shape.head_dim);
    const int seen_from = call.window ? std::max(0, first - call.window + 1) / kKeyTile * kKeyTile : 0;
    const int stop = std::min(last + 1, (part + 1) * kKeyPart);
    for (int key = std::max(seen_from, part * kKeyPart); key < stop; key += kKeyTile) {
        const Tile<Value> tile = tile_at<Value>(call, key, last, at.keys);
        for (int line = first_line; line < stop_line;) {
            const int count = std::min(stop_line - line, kMaxLines);
            const bool seen = call.first_position + (line + count - 1) / queries >= key;
            if (seen) meet_up_to<kMaxLines>(count, call, at.q, sums, line, tile);
            line += count;
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
    const int queries = call.queries_per_kv;
    const KeyParts parts = key_parts(call.first_position + first_line / queries,
                                     call.first_position + (stop_line - 1) / queries, call.window);
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
