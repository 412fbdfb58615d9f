// The Python face of the native code: raw addresses and numbers in, nothing converted. The caller keeps alive what it
// gives an address of, and `dayzero.kernels.native` is the only caller.

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "linear.hpp"
#include "ops.hpp"
#include "program.hpp"
#include "roofline.hpp"
#include "threads.hpp"
#include "vocabulary.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace dayzero {

namespace {

template <typename T>
T* at(uintptr_t address) {
    return reinterpret_cast<T*>(address);
}

struct InstructionSet {
    const char* name;
    const char* (*missing)();
    const Isa* (*isa)();
};
constexpr InstructionSet kInstructionSets[] = {
    {"amx", missing_for_amx, isa_amx},
    {"avx512", missing_for_avx512, isa_avx512},
    {"avx2", missing_for_avx2, isa_avx2},
    {"amx-model", missing_for_avx512, isa_amx_model},
};

const InstructionSet* found(const std::string& name) {
    for (const auto& set : kInstructionSets) {
        if (name == set.name) return &set;
    }
    return nullptr;
}

// Empty if the code is there and this processor can run it.
std::string missing(const std::string& name) {
    const InstructionSet* set = found(name);
    const char* lacking = set ? set->missing() : "code that is not there";
    return lacking ? lacking : "";
}

const Isa& isa_named(const std::string& name) {
    const std::string lacking = missing(name);
    if (!lacking.empty()) throw std::invalid_argument("instruction set " + name + " needs " + lacking);
    return *found(name)->isa();
}

}  // namespace

NB_MODULE(_native, m) {
    nb::enum_<Rows>(m, "Rows").value("TOKENS", Rows::kTokens).value("SAMPLES", Rows::kSamples);

    nb::enum_<Low>(m, "Low").value("MIDDLE", Low::kMiddle).value("ZERO", Low::kZero).value("MINIMUM", Low::kMinimum);

    nb::enum_<KVFormat>(m, "KVFormat").value("BF16", KVFormat::kBf16).value("INT8", KVFormat::kInt8);

    nb::class_<ThreadPool>(m, "ThreadPool")
        .def(nb::init<int, int>(), "num_threads"_a, "spin_us"_a)
        .def_prop_ro("size", &ThreadPool::size);

    // Packing lets other threads of Python run: a loader packs several weights at once.
    nb::class_<Weight>(m, "Weight")
        .def_static(
            "bf16", [](uintptr_t rows, int features, int inner) { return Weight::bf16(at<uint16_t>(rows), features, inner); },
            "rows"_a, "features"_a, "inner"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_static(
            "grouped",
            [](int bits, int group, Low low, uintptr_t codes, uintptr_t scales, uintptr_t lows,
               uintptr_t order, int features, int inner, bool rotated) {
                return Weight::grouped(bits, group, low, at<uint8_t>(codes), at<uint16_t>(scales), at<uint16_t>(lows),
                                       at<int32_t>(order), features, inner, rotated);
            },
            "bits"_a, "group"_a, "low"_a, "codes"_a, "scales"_a, "lows"_a, "order"_a, "features"_a, "inner"_a,
            "rotated"_a,
            nb::call_guard<nb::gil_scoped_release>())
        .def_static(
            "two_level",
            [](int bits, uintptr_t codes, uintptr_t scales, uintptr_t super_scales, uintptr_t minima,
               uintptr_t super_minima, int features, int inner) {
                return Weight::two_level(bits, at<uint8_t>(codes), at<int8_t>(scales), at<uint16_t>(super_scales),
                                         at<uint8_t>(minima), at<uint16_t>(super_minima), features, inner);
            },
            "bits"_a, "codes"_a, "scales"_a, "super_scales"_a, "minima"_a, "super_minima"_a, "features"_a, "inner"_a,
            nb::call_guard<nb::gil_scoped_release>())
        .def_static(
            "per_channel",
            [](uintptr_t codes, uintptr_t scales, int features, int inner) {
                return Weight::per_channel(at<uint8_t>(codes), at<float>(scales), features, inner);
            },
            "codes"_a, "scales"_a, "features"_a, "inner"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_static(
            "nvfp4",
            [](uintptr_t codes, uintptr_t scales, float global, int features, int inner) {
                return Weight::nvfp4(at<uint8_t>(codes), at<uint8_t>(scales), global, features, inner);
            },
            "codes"_a, "scales"_a, "global_scale"_a, "features"_a, "inner"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_static(
            "mxfp4",
            [](uintptr_t codes, uintptr_t scales, int features, int inner) {
                return Weight::mxfp4(at<uint8_t>(codes), at<uint8_t>(scales), features, inner);
            },
            "codes"_a, "scales"_a, "features"_a, "inner"_a, nb::call_guard<nb::gil_scoped_release>())
        .def_prop_ro("features", [](const Weight& w) { return w.features; })
        .def_prop_ro("inner", [](const Weight& w) { return w.inner; })
        .def_prop_ro("bytes", &Weight::bytes);

    nb::class_<KVPool>(m, "KVPool")
        .def(
            "__init__",
            [](KVPool* pool, uintptr_t blocks, int num_blocks, KVFormat format, int block_size, int num_kv_heads,
               int head_dim, int group) {
                const KVShape shape{block_size, num_kv_heads, head_dim, format};
                new (pool) KVPool{at<uint8_t>(blocks), num_blocks, shape, group};
            },
            "blocks"_a, "num_blocks"_a, "format"_a, "block_size"_a, "num_kv_heads"_a, "head_dim"_a, "group"_a);

    nb::class_<Program>(m, "Program")
        .def("__init__",
             [](Program* p, ThreadPool& pool, const std::string& isa, bool poisoned) {
                 new (p) Program(pool, isa_named(isa), poisoned);
             },
             "pool"_a, "isa"_a, "poisoned"_a = false, nb::keep_alive<1, 2>())
        .def("buffer", &Program::add_buffer, "width"_a)
        .def("address", [](Program& p, int id) { return reinterpret_cast<uintptr_t>(p.buffer(id).row(0)); }, "buffer"_a)
        .def_prop_ro("num_ops", &Program::num_ops)
        .def("read", [](Program& p, uintptr_t flat, int64_t length) { p.read(at<int32_t>(flat), length); }, "flat"_a, "length"_a)
        .def(
            "feed", [](Program& p, int buffer, uintptr_t from, int rows) { p.feed(buffer, at<float>(from), rows); },
            "buffer"_a, "address"_a, "rows"_a)
        .def("rows_not_finite", &Program::rows_not_finite, "buffer"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("run", &Program::run, nb::call_guard<nb::gil_scoped_release>())
        .def("run_op", &Program::run_op, "index"_a, nb::call_guard<nb::gil_scoped_release>())
        .def("run_timed", &Program::run_timed, nb::call_guard<nb::gil_scoped_release>())
        .def(
            "embedding",
            [](Program& p, int out, uintptr_t table, int64_t num_rows, float scale) {
                add_embedding(p, out, at<uint16_t>(table), num_rows, scale);
            },
            "out"_a, "table"_a, "num_rows"_a, "scale"_a)
        .def(
            "add_rms_norm",
            [](Program& p, int x, int y, uintptr_t weight, float eps, int sum, int out, Rows rows) {
                add_add_rms_norm(p, x, y, at<float>(weight), eps, sum, out, rows);
            },
            "x"_a, "y"_a, "weight"_a, "eps"_a, "sum"_a, "out"_a, "rows"_a)
        .def(
            "rms_norm",
            [](Program& p, int x, uintptr_t weight, float eps, int out, Rows rows) {
                add_rms_norm(p, x, at<float>(weight), eps, out, rows);
            },
            "x"_a, "weight"_a, "eps"_a, "out"_a, "rows"_a)
        .def("add", &add_add, "x"_a, "y"_a, "out"_a)
        .def("take_samples", &add_take_samples, "x"_a, "out"_a)
        .def(
            "linear",
            [](Program& p, int x, const Weight& weight, uintptr_t bias, int out, int first, Rows rows) {
                add_linear(p, x, weight, at<float>(bias), out, first, rows);
            },
            "x"_a, "weight"_a, "bias"_a, "out"_a, "first"_a, "rows"_a, nb::keep_alive<1, 3>())
        .def("gated", &add_gated, "gate_up"_a, "out"_a, "gelu"_a)
        .def(
            "rope_and_write_kv",
            [](Program& p, int qkv, uintptr_t q_norm, uintptr_t k_norm, float eps, uintptr_t cos, uintptr_t signed_sin,
               int num_positions, int num_heads, const KVPool& pool) {
                add_rope_and_write_kv(p, qkv, {at<float>(q_norm), at<float>(k_norm), eps}, at<float>(cos),
                                      at<float>(signed_sin), num_positions, num_heads, pool);
            },
            "qkv"_a, "q_norm"_a, "k_norm"_a, "eps"_a, "cos"_a, "signed_sin"_a, "num_positions"_a, "num_heads"_a,
            "pool"_a)
        .def(
            "attention",
            [](Program& p, int qkv, int out, float scale, int window, int num_heads, const KVPool& pool, uintptr_t biases) {
                add_attention(p, qkv, out, scale, window, num_heads, pool, at<float>(biases));
            },
            "qkv"_a, "out"_a, "scale"_a, "window"_a, "num_heads"_a, "pool"_a, "biases"_a);

    m.attr("NOT_FINITE") = kNotFinite;
    m.attr("DOUBTFUL") = kDoubtful;
    m.attr("DRAWN") = kDrawn;
    nb::class_<Answers>(m, "Answers")
        .def_ro("tokens", &Answers::tokens)
        .def_ro("logprobs", &Answers::logprobs)
        .def_ro("ranks", &Answers::ranks)
        .def_ro("top_ids", &Answers::top_ids)
        .def_ro("top_logprobs", &Answers::top_logprobs);
    nb::class_<Vocabulary>(m, "Vocabulary")
        .def("__init__",
             [](Vocabulary* v, ThreadPool& pool, const std::string& isa, bool poisoned) {
                 new (v) Vocabulary(pool, isa_named(isa), poisoned);
             },
             "pool"_a, "isa"_a, "poisoned"_a = false, nb::keep_alive<1, 2>())
        .def(
            "answer",
            [](Vocabulary& v, uintptr_t logits, int size, nb::bytes asked) {
                const int rows = static_cast<int>(asked.size() / sizeof(Asked));
                const auto* from = reinterpret_cast<const Asked*>(asked.c_str());
                nb::gil_scoped_release released;
                return v.answer(at<float>(logits), size, from, rows);
            },
            "logits"_a, "size"_a, "asked"_a);

    m.def("missing", &missing, "isa"_a);
    m.def(
        "read_bytes_per_s",
        [](ThreadPool& pool, uintptr_t from, int64_t bytes) { return read_bytes_per_s(pool, at<uint8_t>(from), bytes); },
        "pool"_a, "address"_a, "bytes"_a, nb::call_guard<nb::gil_scoped_release>());
    m.def(
        "peak_ops_per_s",
        [](ThreadPool& pool, const std::string& isa, const std::string& arithmetic) {
            return peak_ops_per_s(pool, isa_named(isa).name, arithmetic);
        },
        "pool"_a, "isa"_a, "arithmetic"_a, nb::call_guard<nb::gil_scoped_release>());
}

}  // namespace dayzero
