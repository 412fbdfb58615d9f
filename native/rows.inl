// What every instruction set computes by the same code, over a vector F of kLanes float32: norms, rotation, gates,
// packing of activations, the KV cache and attention. Included once by the unit of an instruction set, inside an
// unnamed namespace of its own (no function here may become the linker's one copy for others), after
//
// simd_*.hpp     F, I (as many int32), kLanes and the operations on them
// products.inl   the products, by format
// kMaxLines      query lines that attention takes together
// kMixVectors    vectors of a value that `mix` adds up at once, for Lines lines: what registers hold
// score<Lines>   scores of Lines query lines against 64 keys: [Lines][64], not scaled; a chain in ascending D for each

constexpr int kTile = 16;  // tokens whose K lies together, in pairs of features: attention.hpp

void pack_bf16(const float* x, int k, int inner, uint8_t* out) {
    auto* at = reinterpret_cast<uint16_t*>(out);
    for (int i = 0; i < inner; i += kLanes) {
        store_bf16(at + i, i + kLanes <= k ? load(x + i) : load_first(x + i, k > i ? k - i : 0));
    }
}

void pack_int8(const float* x, int k, int inner, int group, uint8_t* out) {
    auto* codes = reinterpret_cast<int8_t*>(out);
    auto* scales = reinterpret_cast<float*>(out + inner);
    auto* sums = reinterpret_cast<int32_t*>(scales + inner / group);
    for (int start = 0; start < inner; start += group) {
        F most = zero(), spoilt = zero();
        for (int i = start; i < start + group; i += kLanes) {
            const F v = load_first(x + i, k > i ? k - i : 0);
            most = max(most, abs(v));
            spoilt = fma(v, zero(), spoilt);  // NaN if any is not finite
        }
        const float largest_one = largest(most);  // one too small to divide by counts as 0
        const F factor = set1(largest_one > 1e-30f ? 127.0f / largest_one : 0.0f);
        I total = zero_ints();
        for (int i = start; i < start + group; i += kLanes) {
            const I code = round(mul(load_first(x + i, k > i ? k - i : 0), factor));
            total = add(total, code);
            store_int8(codes + i, code);
        }
        *scales++ = largest_one / 127.0f + sum(spoilt);
        *sums++ = sum(total);
    }
}

// Sum of squares in lanes, then of lanes: one order for a given width.
float mean_square(const float* x, int width) {
    F total = zero();
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) total = fma(load(x + i), load(x + i), total);
    if (i < width) {
        const F v = load_first(x + i, width - i);
        total = fma(v, v, total);
    }
    return sum(total) / static_cast<float>(width);
}

void rms_norm(const float* x, const float* weight, float eps, int width, float* out) {
    const F scale = set1(1.0f / std::sqrt(mean_square(x, width) + eps));
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) store(out + i, mul(mul(load(x + i), scale), load(weight + i)));
    if (i < width) {
        const int n = width - i;
        store_first(out + i, mul(mul(load_first(x + i, n), scale), load_first(weight + i, n)), n);
    }
}

void add_row(const float* x, const float* y, int width, float* out) {
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) store(out + i, add(load(x + i), load(y + i)));
    for (; i < width; ++i) out[i] = x[i] + y[i];
}

void add_rms_norm(float* x, const float* residual, const float* y, const float* weight, float eps, int width,
                  float* out) {
    add_row(residual, y, width, x);
    rms_norm(x, weight, eps, width, out);
}

void rope(float* x, const float* cos, const float* signed_sin, int head_dim) {
    const int half = head_dim / 2;
    int i = 0;
    for (; i + kLanes <= half; i += kLanes) {
        const F a = load(x + i), b = load(x + half + i);
        store(x + i, fma(a, load(cos + i), mul(b, load(signed_sin + i))));
        store(x + half + i, fma(b, load(cos + half + i), mul(a, load(signed_sin + half + i))));
    }
    if (i < half) {
        const int n = half - i;
        const F a = load_first(x + i, n), b = load_first(x + half + i, n);
        store_first(x + i, fma(a, load_first(cos + i, n), mul(b, load_first(signed_sin + i, n))), n);
        store_first(x + half + i,
                    fma(b, load_first(cos + half + i, n), mul(a, load_first(signed_sin + half + i, n))), n);
    }
}

// e^x to 2 ulp; 0 far below the least normal, inf above the largest. Cephes' reduction and polynomial.
inline F exp(F x) {
    x = min(set1(100.0f), max(set1(-110.0f), x));  // in this order a NaN stays one
    const F n = nearest(mul(x, set1(1.44269504088896341f)));
    F r = fnma(n, set1(0.693359375f), x);
    r = fnma(n, set1(-2.12194440e-4f), r);
    F p = set1(1.9875691500e-4f);
    p = fma(p, r, set1(1.3981999507e-3f));
    p = fma(p, r, set1(8.3334519073e-3f));
    p = fma(p, r, set1(4.1665795894e-2f));
    p = fma(p, r, set1(1.6666665459e-1f));
    p = fma(p, r, set1(5.0000001201e-1f));
    p = fma(p, mul(r, r), add(r, set1(1.0f)));
    return times_power_of_two(p, n);
}

inline F silu(F x) { return div(x, add(set1(1.0f), exp(sub(zero(), x)))); }

// tanh(u) = 1 - 2 / (e^2u + 1), so that the tanh form of gelu is x * (1 - 1 / (e^2u + 1)).
inline F gelu(F x) {
    const F cubed = mul(mul(x, x), x);
    const F u2 = mul(set1(2.0f * 0.7978845608028654f), fma(set1(0.044715f), cubed, x));
    const F one = set1(1.0f);
    return mul(x, sub(one, div(one, add(exp(u2), one))));
}

template <F (*Activation)(F)>
void gated(const float* gate, const float* up, int width, float* out) {
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) store(out + i, mul(Activation(load(gate + i)), load(up + i)));
    if (i < width) {
        const int n = width - i;
        store_first(out + i, mul(Activation(load_first(gate + i, n)), load_first(up + i, n)), n);
    }
}

void copy_bf16(const uint16_t* x, float scale, int width, float* out) {
    for (int i = 0; i < width; ++i) {
        const uint32_t bits = static_cast<uint32_t>(x[i]) << 16;
        float value;
        __builtin_memcpy(&value, &bits, sizeof value);
        out[i] = value * scale;
    }
}

void write_kv(const float* k, const float* v, uint16_t* block, int offset, int block_size, int num_kv_heads,
              int head_dim) {
    const KVShape shape{block_size, num_kv_heads, head_dim};
    const int token = offset % kTile;
    for (int head = 0; head < num_kv_heads; ++head) {
        auto* pairs = reinterpret_cast<uint32_t*>(block + shape.key_tile(head, offset - token)) + token;
        uint16_t* value = block + shape.value(head, offset);
        for (int d = 0; d < head_dim; d += kLanes) {
            alignas(64) uint32_t packed[kLanes / 2];
            store_bf16(reinterpret_cast<uint16_t*>(packed), load(k + head * head_dim + d));
            for (int pair = 0; pair < kLanes / 2; ++pair) pairs[(d / 2 + pair) * kTile] = packed[pair];
            store_bf16(value + d, load(v + head * head_dim + d));
        }
    }
}

// sums[line][0 .. kLanes * Vectors) += p[line][key] * v[key] for keys [first_key, stop_key).
template <int Lines, int Vectors>
void mix(const float* p, const uint16_t* const values[4], int64_t at, int head_dim, int first_key, int stop_key,
         float* sums) {
    F acc[Lines][Vectors];
    for (int line = 0; line < Lines; ++line) {
        for (int i = 0; i < Vectors; ++i) acc[line][i] = load(sums + line * head_dim + i * kLanes);
    }
    for (int key = first_key; key < stop_key; ++key) {
        const uint16_t* v = values[key / kTile] + static_cast<int64_t>(key % kTile) * head_dim + at;
        F value[Vectors];
        for (int i = 0; i < Vectors; ++i) value[i] = load_bf16(v + i * kLanes);
        for (int line = 0; line < Lines; ++line) {
            const F weight = set1(p[line * kKeyTile + key]);
            for (int i = 0; i < Vectors; ++i) acc[line][i] = fma(weight, value[i], acc[line][i]);
        }
    }
    for (int line = 0; line < Lines; ++line) {
        for (int i = 0; i < Vectors; ++i) store(sums + line * head_dim + i * kLanes, acc[line][i]);
    }
}

struct Running {
    float most, total;
};

// Scores of one line into weights exp(score - most), and what that does to its running sums. Keys outside [lo, hi) get
// the weight 0; a line that sees none of the tile is left as it was.
void soften(float* scores, int lo, int hi, float scale, Running& running, float* sums, int head_dim) {
    constexpr int kVectors = kKeyTile / kLanes;
    if (hi <= lo) {
        for (int i = 0; i < kKeyTile; i += kLanes) store(scores + i, zero());
        return;
    }
    const uint64_t seen = (hi >= 64 ? ~0ull : (1ull << hi) - 1) & ~((1ull << lo) - 1);
    const F least = set1(-std::numeric_limits<float>::infinity());
    F s[kVectors], most = least;
    for (int t = 0; t < kVectors; ++t) {
        s[t] = select(static_cast<uint32_t>(seen >> (kLanes * t)), mul(load(scores + t * kLanes), set1(scale)), least);
        most = max(most, s[t]);
    }
    const float now = std::max(running.most, largest(most));
    F total = zero();
    for (int t = 0; t < kVectors; ++t) {
        s[t] = exp(sub(s[t], set1(now)));
        total = add(total, s[t]);
        store(scores + t * kLanes, s[t]);
    }
    if (now > running.most) {
        const F keep = exp(set1(running.most - now));
        running.total *= lane0(keep);
        for (int i = 0; i < head_dim; i += kLanes) store(sums + i, mul(load(sums + i), keep));
    }
    running.most = now;
    running.total += sum(total);
}

template <int Lines>
void mix_all(const float* p, const uint16_t* const values[4], int head_dim, int first_key, int stop_key, float* sums) {
    constexpr int kWide = kMixVectors<Lines>;
    int d = 0;
    for (; d + kWide * kLanes <= head_dim; d += kWide * kLanes) {
        mix<Lines, kWide>(p, values, d, head_dim, first_key, stop_key, sums + d);
    }
    for (; d < head_dim; d += kLanes) mix<Lines, 1>(p, values, d, head_dim, first_key, stop_key, sums + d);
}

struct QueryLines {
    const uint16_t* q;
    float* sums;
    Running* running;
};

template <int Count>
void tile_of(const Attend& call, const QueryLines& at, int first_line, int tile) {
    const int head_dim = call.shape.head_dim;
    const uint16_t *keys[4], *values[4];
    const int queries = call.queries_per_kv;
    const int last = call.first_position + (first_line + Count - 1) / queries;
    for (int t = 0; t < 4; ++t) {
        // Keys that nobody here sees yet may lie in blocks that the request does not have: any 16 that are there do.
        const int position = std::min(tile + t * kTile, last / kTile * kTile);
        const uint16_t* block = call.pool + call.table[position / call.shape.block_size] * call.shape.block_elements();
        keys[t] = block + call.shape.key_tile(call.kv_head, position % call.shape.block_size);
        values[t] = block + call.shape.value(call.kv_head, position % call.shape.block_size);
    }
    alignas(64) float scores[Count * kKeyTile];
    score<Count>(at.q + first_line * head_dim, head_dim, keys, scores);
    int first_key = kKeyTile;
    for (int i = 0; i < Count; ++i) {
        const int position = call.first_position + (first_line + i) / queries;
        const int lo = call.window ? std::max(0, position - call.window + 1 - tile) : 0;
        const int hi = std::min(kKeyTile, position + 1 - tile);
        soften(scores + i * kKeyTile, std::min(lo, kKeyTile), hi, call.scale, at.running[first_line + i],
               at.sums + (first_line + i) * head_dim, head_dim);
        first_key = std::min(first_key, lo);
    }
    mix_all<Count>(scores, values, head_dim, first_key, std::min(kKeyTile, last + 1 - tile),
                   at.sums + first_line * head_dim);
}

// tile_of<count>, for a count from 1 to Most.
template <int Most>
void tile_of_up_to(int count, const Attend& call, const QueryLines& at, int first_line, int tile) {
    if constexpr (Most > 1) {
        if (count < Most) return tile_of_up_to<Most - 1>(count, call, at, first_line, tile);
    }
    tile_of<Most>(call, at, first_line, tile);
}

void forget(const QueryLines& at, int line, int head_dim) {
    for (int i = 0; i < head_dim; i += kLanes) store(at.sums + line * head_dim + i, zero());
    at.running[line] = {-std::numeric_limits<float>::infinity(), 0.0f};
}

// Lines [first_line, stop_line) over all keys that any of them sees.
void see(const Attend& call, const QueryLines& at, int first_line, int stop_line) {
    const int queries = call.queries_per_kv;
    const int first = call.first_position + first_line / queries;
    const int last = call.first_position + (stop_line - 1) / queries;
    const int start = call.window ? std::max(0, first - call.window + 1) / kKeyTile * kKeyTile : 0;
    for (int tile = start; tile <= last; tile += kKeyTile) {
        for (int line = first_line; line < stop_line;) {
            const int count = std::min(stop_line - line, kMaxLines);
            const bool seen = call.first_position + (line + count - 1) / queries >= tile;
            if (seen) tile_of_up_to<kMaxLines>(count, call, at, line, tile);
            line += count;
        }
    }
}

// Writes a line's result; whether all of it is finite. 0 has no sign: that of a sum which vanished would tell whether
// keys were added at the weight 0.
bool write_line(const Attend& call, const QueryLines& at, int line) {
    const int head_dim = call.shape.head_dim;
    float* to = call.out + line / call.queries_per_kv * call.out_stride + line % call.queries_per_kv * head_dim;
    const F scale = set1(1.0f / at.running[line].total);
    F spoilt = zero();
    for (int i = 0; i < head_dim; i += kLanes) {
        const F value = add(mul(load(at.sums + line * head_dim + i), scale), zero());
        spoilt = fma(value, zero(), spoilt);  // NaN if any is not finite
        store(to + i, value);
    }
    return sum(spoilt) == 0.0f;
}

void attend(const Attend& call) {
    const int head_dim = call.shape.head_dim, queries = call.queries_per_kv;
    const int lines = call.num_rows * queries;
    auto* sums = reinterpret_cast<float*>(call.scratch);
    auto* running = reinterpret_cast<Running*>(sums + static_cast<int64_t>(lines) * head_dim);
    auto* q = reinterpret_cast<uint16_t*>(running + lines);
    const QueryLines at{q, sums, running};
    for (int line = 0; line < lines; ++line) {
        const float* from = call.q + line / queries * call.q_stride + line % queries * head_dim;
        pack_bf16(from, head_dim, head_dim, reinterpret_cast<uint8_t*>(q + line * head_dim));
        forget(at, line, head_dim);
    }
    see(call, at, 0, lines);
    for (int line = 0; line < lines; ++line) {
        if (write_line(call, at, line)) continue;
        forget(at, line, head_dim);  // alone it mixes the keys that it sees and no others
        see(call, at, line, line + 1);
        write_line(call, at, line);
    }
}

constexpr Isa table(const char* name) {
    return {
        .name = name,
        .pack_bf16 = pack_bf16,
        .pack_int8 = pack_int8,
        .product = product,
        .add_rms_norm = add_rms_norm,
        .rms_norm = rms_norm,
        .rope = rope,
        .add = add_row,
        .silu_mul = gated<silu>,
        .gelu_mul = gated<gelu>,
        .copy_bf16 = copy_bf16,
        .write_kv = write_kv,
        .attend = attend,
    };
}
