// Functions carry their own instruction set as an attribute, so that this unit needs no flags; `peak_ops_per_s` is told
// which of them the processor has.

#include "roofline.hpp"

#include <immintrin.h>

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "tiles.hpp"

namespace dayzero {

namespace {

using Clock = std::chrono::steady_clock;

constexpr int64_t kLine = 64, kAheadBytes = 4096;  // as far as the products look ahead
constexpr int kSums = 12;         // of each loop: enough for two units of six cycles' latency
constexpr int kRounds = 20000;    // about 50 us: long beside the start of a run, short beside a turn of the scheduler

double elapsed_s(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// One 16-byte load of each line brings all of it; SSE2 is there on every x86-64.
void read_share(const uint8_t* from, const uint8_t* stop) {
    __m128i seen = _mm_setzero_si128();
    for (; from < stop; from += kLine) {
        _mm_prefetch(reinterpret_cast<const char*>(from + kAheadBytes), _MM_HINT_T0);
        seen = _mm_or_si128(seen, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    }
    __asm__ volatile("" ::"x"(seen));
}

// Each loop hides its sums from the compiler where it begins, which would see that they are equal and keep one.
#define AVX512 __attribute__((target("avx512f,avx512bw,avx512vl,avx512bf16,avx512vnni")))
#define AVX2 __attribute__((target("avx2,fma")))

AVX512 void fp32_avx512() {
    __m512 sums[kSums] = {};
    __m512 x = _mm512_set1_ps(1.0f);
    for (auto& sum : sums) __asm__ volatile("" : "+v"(sum));
    for (int round = 0; round < kRounds; ++round) {
        __asm__ volatile("" : "+v"(x));
        for (auto& sum : sums) sum = _mm512_fmadd_ps(x, x, sum);
    }
    for (auto& sum : sums) __asm__ volatile("" ::"v"(sum));
}

AVX512 void bf16_avx512() {
    __m512 sums[kSums] = {};
    __m512i x = _mm512_set1_epi16(0x3f80);
    for (auto& sum : sums) __asm__ volatile("" : "+v"(sum));
    for (int round = 0; round < kRounds; ++round) {
        __asm__ volatile("" : "+v"(x));
        for (auto& sum : sums) sum = _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(x), reinterpret_cast<__m512bh>(x));
    }
    for (auto& sum : sums) __asm__ volatile("" ::"v"(sum));
}

AVX512 void int8_avx512() {
    __m512i sums[kSums] = {};
    __m512i x = _mm512_set1_epi8(1);
    for (auto& sum : sums) __asm__ volatile("" : "+v"(sum));
    for (int round = 0; round < kRounds; ++round) {
        __asm__ volatile("" : "+v"(x));
        for (auto& sum : sums) sum = _mm512_dpbusd_epi32(sum, x, x);
    }
    for (auto& sum : sums) __asm__ volatile("" ::"v"(sum));
}

AVX2 void fp32_avx2() {
    __m256 sums[kSums] = {};
    __m256 x = _mm256_set1_ps(1.0f);
    for (auto& sum : sums) __asm__ volatile("" : "+x"(sum));
    for (int round = 0; round < kRounds; ++round) {
        __asm__ volatile("" : "+x"(x));
        for (auto& sum : sums) sum = _mm256_fmadd_ps(x, x, sum);
    }
    for (auto& sum : sums) __asm__ volatile("" ::"x"(sum));
}

// Codes of 8 bits met as 16: the sum of four unsigned products may not fit what a product of bytes leaves.
AVX2 void int8_avx2() {
    __m256i sums[kSums] = {};
    __m256i x = _mm256_set1_epi16(1);
    for (auto& sum : sums) __asm__ volatile("" : "+x"(sum));
    for (int round = 0; round < kRounds; ++round) {
        __asm__ volatile("" : "+x"(x));
        for (auto& sum : sums) sum = _mm256_add_epi32(sum, _mm256_madd_epi16(x, sum));  // else one product for all
    }
    for (auto& sum : sums) __asm__ volatile("" ::"x"(sum));
}

// Into six tiles of sums in turn, twice a round.
template <class Add>
void multiply_tiles(Add&& add) {
    TileShapes shapes;
    for (int tile = 0; tile < kTiles; ++tile) shapes.set(tile, kTileRows, kTileBytes);
    HardwareTiles tiles(shapes);
    uint8_t numbers[kTileRows * kTileBytes];
    std::memset(numbers, 0x3f, sizeof numbers);  // 63, or 0.74609375 in bfloat16
    tiles.load(Tile<6>(), numbers, kTileBytes);
    tiles.load(Tile<7>(), numbers, kTileBytes);
    [&]<int... i>(std::integer_sequence<int, i...>) {
        for (int round = 0; round < kRounds; ++round) (add(tiles, Tile<i % 6>()), ...);
    }(std::make_integer_sequence<int, kSums>());
}

void bf16_amx() {
    multiply_tiles([](HardwareTiles& tiles, auto sums) { tiles.add_bf16(sums, Tile<6>(), Tile<7>()); });
}

void int8_amx() {
    multiply_tiles([](HardwareTiles& tiles, auto sums) { tiles.add_int8(sums, Tile<6>(), Tile<7>()); });
}

struct Loop {
    const char *isa, *arithmetic;
    void (*run)();
    int multiply_adds;  // of one instruction
};

constexpr Loop kLoops[] = {
    {"amx", "fp32", fp32_avx512, 16},    {"amx", "bf16", bf16_amx, 8192},     {"amx", "int8", int8_amx, 16384},
    {"avx512", "fp32", fp32_avx512, 16}, {"avx512", "bf16", bf16_avx512, 32}, {"avx512", "int8", int8_avx512, 64},
    {"avx2", "fp32", fp32_avx2, 8},      {"avx2", "bf16", fp32_avx2, 8},      {"avx2", "int8", int8_avx2, 16},
};

}  // namespace

double read_bytes_per_s(ThreadPool& pool, const uint8_t* from, int64_t bytes) {
    const int64_t lines = bytes / kLine, threads = pool.size();
    if (lines < 1 || bytes % kLine) throw std::invalid_argument("whole lines of 64 bytes are read");
    const auto start = Clock::now();
    pool.run([=](int thread) {
        read_share(from + lines * thread / threads * kLine, from + lines * (thread + 1) / threads * kLine);
    });
    return static_cast<double>(bytes) / elapsed_s(start);
}

double peak_ops_per_s(ThreadPool& pool, const std::string& isa, const std::string& arithmetic) {
    for (const Loop& loop : kLoops) {
        if (isa != loop.isa || arithmetic != loop.arithmetic) continue;
        const auto start = Clock::now();
        pool.run([&loop](int) { loop.run(); });
        return 2.0 * loop.multiply_adds * kSums * kRounds * pool.size() / elapsed_s(start);
    }
    throw std::invalid_argument("no loop for " + arithmetic + " with " + isa);
}

}  // namespace dayzero
