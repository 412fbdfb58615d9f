// AVX-512 with BF16 and VNNI: Intel from Cooper Lake and Sapphire Rapids on, AMD from Zen 4 on.
//
// Products: 12 rows x 32 features of float32 sums stay in registers while K goes by, each feature in a lane of its own,
// so a sum is one chain in ascending K at any number of rows. A panel (32 x K) is read once for every 12 rows.

#include "attention.hpp"
#include "isa.hpp"
#include "linear_avx512.hpp"
#include "simd_avx512.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace dayzero::avx512 {

namespace {

void pack_bf16(const float* x, int k, int inner, uint8_t* out) {
    auto* at = reinterpret_cast<uint16_t*>(out);
    for (int i = 0; i < inner; i += kLanes) {
        const F v = i + kLanes <= k ? load(x + i) : load_first(x + i, k > i ? k - i : 0);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(at + i), to_bf16(v));
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

void add(const float* x, const float* y, int width, float* out) {
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) store(out + i, dayzero::avx512::add(load(x + i), load(y + i)));
    for (; i < width; ++i) out[i] = x[i] + y[i];
}

void add_rms_norm(float* x, const float* residual, const float* y, const float* weight, float eps, int width,
                  float* out) {
    add(residual, y, width, x);
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

inline F silu(F x) { return div(x, dayzero::avx512::add(set1(1.0f), exp(sub(zero(), x)))); }

// tanh(u) = 1 - 2 / (e^2u + 1), so that the tanh form of gelu is x * (1 - 1 / (e^2u + 1)).
inline F gelu(F x) {
    const F cubed = mul(mul(x, x), x);
    const F u2 = mul(set1(2.0f * 0.7978845608028654f), fma(set1(0.044715f), cubed, x));
    const F one = set1(1.0f);
    return mul(x, sub(one, div(one, dayzero::avx512::add(exp(u2), one))));
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
    const int lane = offset % kLanes;
    for (int head = 0; head < num_kv_heads; ++head) {
        auto* pairs = reinterpret_cast<uint32_t*>(block + shape.key_tile(head, offset - lane)) + lane;
        uint16_t* value = block + shape.value(head, offset);
        for (int d = 0; d < head_dim; d += kLanes) {
            alignas(32) uint32_t packed[8];
            _mm256_store_si256(reinterpret_cast<__m256i*>(packed), to_bf16(load(k + head * head_dim + d)));
            for (int pair = 0; pair < 8; ++pair) pairs[(d / 2 + pair) * kLanes] = packed[pair];
            _mm256_storeu_si256(reinterpret_cast<__m256i*>(value + d), to_bf16(load(v + head * head_dim + d)));
        }
    }
}

// Scores of `Lines` query lines against 64 keys: [Lines][64], not scaled.
template <int Lines>
void score(const uint16_t* q, int head_dim, const uint16_t* const keys[4], float* out) {
    F sums[Lines][4];
    for (auto& line : sums) {
        for (F& s : line) s = zero();
    }
    const int pairs = head_dim / 2;
    for (int pair = 0; pair < pairs; ++pair) {
        __m512i k[4];
        for (int t = 0; t < 4; ++t) k[t] = _mm512_loadu_si512(keys[t] + pair * 2 * kLanes);
        for (int line = 0; line < Lines; ++line) {
            int32_t two;
            __builtin_memcpy(&two, q + line * head_dim + 2 * pair, 4);
            const __m512bh b = reinterpret_cast<__m512bh>(_mm512_set1_epi32(two));
            for (int t = 0; t < 4; ++t) {
                sums[line][t] = _mm512_dpbf16_ps(sums[line][t], reinterpret_cast<__m512bh>(k[t]), b);
            }
        }
    }
    for (int line = 0; line < Lines; ++line) {
        for (int t = 0; t < 4; ++t) store(out + line * kKeyTile + t * kLanes, sums[line][t]);
    }
}

// sums[line][0 .. 16 * Vectors) += p[line][key] * v[key] for keys [0, num_keys).
template <int Lines, int Vectors>
void mix(const float* p, const uint16_t* const values[4], int64_t at, int head_dim, int num_keys, float* sums) {
    F acc[Lines][Vectors];
    for (int line = 0; line < Lines; ++line) {
        for (int i = 0; i < Vectors; ++i) acc[line][i] = load(sums + line * head_dim + i * kLanes);
    }
    for (int key = 0; key < num_keys; ++key) {
        const uint16_t* v = values[key / kLanes] + static_cast<int64_t>(key % kLanes) * head_dim + at;
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
    if (hi <= lo) {
        for (int i = 0; i < kKeyTile; i += kLanes) store(scores + i, zero());
        return;
    }
    const F least = set1(-std::numeric_limits<float>::infinity());
    F s[4], most = least;
    for (int t = 0; t < 4; ++t) {
        const uint64_t seen = ((hi >= 64 ? ~0ull : (1ull << hi) - 1) & ~((1ull << lo) - 1)) >> (16 * t);
        s[t] = _mm512_mask_mul_ps(least, static_cast<__mmask16>(seen), load(scores + t * kLanes), set1(scale));
        most = max(most, s[t]);
    }
    const float now = std::max(running.most, largest(most));
    F total = zero();
    for (int t = 0; t < 4; ++t) {
        s[t] = exp(sub(s[t], set1(now)));
        total = dayzero::avx512::add(total, s[t]);
        store(scores + t * kLanes, s[t]);
    }
    if (now > running.most) {
        const F keep = exp(set1(running.most - now));
        running.total *= _mm512_cvtss_f32(keep);
        for (int i = 0; i < head_dim; i += kLanes) store(sums + i, mul(load(sums + i), keep));
    }
    running.most = now;
    running.total += sum(total);
}

template <int Lines>
void mix_all(const float* p, const uint16_t* const values[4], int head_dim, int num_keys, float* sums) {
    int d = 0;
    for (; d + 64 <= head_dim; d += 64) mix<Lines, 4>(p, values, d, head_dim, num_keys, sums + d);
    for (; d < head_dim; d += kLanes) mix<Lines, 1>(p, values, d, head_dim, num_keys, sums + d);
}

struct Lines {
    const uint16_t* q;
    float* sums;
    Running* running;
};

template <int Count>
void tile_of(const Attend& call, const Lines& at, int first_line, int tile) {
    const int head_dim = call.shape.head_dim;
    const uint16_t *keys[4], *values[4];
    const int queries = call.queries_per_kv;
    const int last = call.first_position + (first_line + Count - 1) / queries;
    for (int t = 0; t < 4; ++t) {
        // Keys that nobody here sees yet may lie in blocks that the request does not have: any 16 that are there do.
        const int position = std::min(tile + t * kLanes, last / kLanes * kLanes);
        const uint16_t* block = call.pool + call.table[position / call.shape.block_size] * call.shape.block_elements();
        keys[t] = block + call.shape.key_tile(call.kv_head, position % call.shape.block_size);
        values[t] = block + call.shape.value(call.kv_head, position % call.shape.block_size);
    }
    alignas(64) float scores[Count * kKeyTile];
    score<Count>(at.q + first_line * head_dim, head_dim, keys, scores);
    for (int i = 0; i < Count; ++i) {
        const int position = call.first_position + (first_line + i) / queries;
        const int lo = call.window ? std::max(0, position - call.window + 1 - tile) : 0;
        const int hi = std::min(kKeyTile, position + 1 - tile);
        soften(scores + i * kKeyTile, std::min(lo, kKeyTile), hi, call.scale, at.running[first_line + i],
               at.sums + (first_line + i) * head_dim, head_dim);
    }
    mix_all<Count>(scores, values, head_dim, std::min(kKeyTile, last + 1 - tile), at.sums + first_line * head_dim);
}

void attend(const Attend& call) {
    const int head_dim = call.shape.head_dim, queries = call.queries_per_kv;
    const int lines = call.num_rows * queries;
    auto* sums = reinterpret_cast<float*>(call.scratch);
    auto* running = reinterpret_cast<Running*>(sums + static_cast<int64_t>(lines) * head_dim);
    auto* q = reinterpret_cast<uint16_t*>(running + lines);
    for (int line = 0; line < lines; ++line) {
        const float* from = call.q + line / queries * call.q_stride + line % queries * head_dim;
        pack_bf16(from, head_dim, head_dim, reinterpret_cast<uint8_t*>(q + line * head_dim));
        for (int i = 0; i < head_dim; i += kLanes) store(sums + line * head_dim + i, zero());
        running[line] = {-std::numeric_limits<float>::infinity(), 0.0f};
    }
    const Lines at{q, sums, running};
    const int last = call.first_position + call.num_rows - 1;
    const int start = call.window ? std::max(0, call.first_position - call.window + 1) / kKeyTile * kKeyTile : 0;
    for (int tile = start; tile <= last; tile += kKeyTile) {
        for (int line = 0; line < lines;) {
            const int count = std::min(lines - line, 6);
            const bool seen = call.first_position + (line + count - 1) / queries >= tile;
            switch (seen ? count : 0) {
                case 0: break;
                case 1: tile_of<1>(call, at, line, tile); break;
                case 2: tile_of<2>(call, at, line, tile); break;
                case 3: tile_of<3>(call, at, line, tile); break;
                case 4: tile_of<4>(call, at, line, tile); break;
                case 5: tile_of<5>(call, at, line, tile); break;
                default: tile_of<6>(call, at, line, tile); break;
            }
            line += count;
        }
    }
    for (int line = 0; line < lines; ++line) {
        float* to = call.out + line / queries * call.out_stride + line % queries * head_dim;
        const F scale = set1(1.0f / running[line].total);
        for (int i = 0; i < head_dim; i += kLanes) store(to + i, mul(load(sums + line * head_dim + i), scale));
    }
}

int argmax(const float* x, int width) {
    F most = set1(-std::numeric_limits<float>::infinity());
    __mmask16 unordered = 0;
    int i = 0;
    for (; i + kLanes <= width; i += kLanes) {
        const F v = load(x + i);
        unordered |= _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
        most = max(most, v);
    }
    float best = largest(most);
    bool nan = unordered != 0;
    for (; i < width; ++i) {
        nan |= x[i] != x[i];
        best = std::max(best, x[i]);
    }
    if (nan || std::isinf(best)) return -1;
    const F wanted = set1(best);
    for (i = 0; i + kLanes <= width; i += kLanes) {
        const __mmask16 found = _mm512_cmp_ps_mask(load(x + i), wanted, _CMP_EQ_OQ);
        if (found) return i + __builtin_ctz(found);
    }
    while (x[i] != best) ++i;
    return i;
}

}  // namespace
}  // namespace dayzero::avx512

namespace dayzero {

const Isa* isa_avx512() {
    using namespace avx512;
    static const Isa isa = {
        .name = "avx512",
        .lanes = kLanes,
        .pack_bf16 = pack_bf16,
        .pack_int8 = pack_int8,
        .linear = {linear_bf16, linear_int4, linear_int4_min, linear_int8, linear_int8_min, linear_int8_channel,
                   linear_nvfp4},
        .add_rms_norm = add_rms_norm,
        .rms_norm = rms_norm,
        .rope = rope,
        .add = add,
        .silu_mul = gated<silu>,
        .gelu_mul = gated<gelu>,
        .copy_bf16 = copy_bf16,
        .write_kv = write_kv,
        .attend = attend,
        .argmax = argmax,
    };
    return &isa;
}

}  // namespace dayzero
