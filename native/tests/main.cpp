// The native code without Python, for sanitizers to watch: native_tests [rounds].

#include "check.hpp"

namespace dayzero::tests {

std::vector<int32_t> flat_step(const std::vector<Request>& requests, const std::vector<int32_t>& tokens,
                               const std::vector<int32_t>& sample_at, int block_size) {
    size_t stride = 0;
    for (const Request& request : requests) stride = std::max(stride, request.table.size());
    const int groups = stride > 0;
    std::vector<int32_t> flat = {static_cast<int32_t>(tokens.size()), static_cast<int32_t>(sample_at.size()),
                                 static_cast<int32_t>(requests.size()), block_size, groups};
    if (groups) flat.push_back(static_cast<int32_t>(stride));
    flat.insert(flat.end(), tokens.begin(), tokens.end());
    flat.insert(flat.end(), sample_at.begin(), sample_at.end());
    int start = 0;
    flat.push_back(start);
    for (const Request& request : requests) flat.push_back(start += request.rows);
    for (const Request& request : requests) flat.push_back(request.first_position);
    for (const Request& request : requests) {
        flat.insert(flat.end(), request.table.begin(), request.table.end());
        flat.resize(flat.size() + stride - request.table.size());
    }
    flat.shrink_to_fit();  // so that a step which reads on is seen
    return flat;
}

std::vector<int32_t> plain_step(int rows) {
    return flat_step({{0, rows, {}}}, std::vector<int32_t>(static_cast<size_t>(rows)), {}, 16);
}

void fill(Buffer& buffer, int rows, Random& random) {
    for (int64_t i = 0; i < static_cast<int64_t>(rows) * buffer.width; ++i) buffer.row(0)[i] = random.number();
}

}  // namespace dayzero::tests

int main(int argc, char** argv) {
    using namespace dayzero::tests;
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
    if (instruction_sets().empty()) {
        std::puts("this processor can run no native kernel");
        return 0;
    }
    const struct {
        const char* name;
        void (*run)(int);
    } tests[] = {{"threads", test_threads},
                 {"step", test_step},
                 {"linear", test_linear},
                 {"tiles", test_tiles},
                 {"attention", test_attention},
                 {"program", test_program},
                 {"vocabulary", test_vocabulary}};
    for (const auto& test : tests) {
        test.run(rounds);
        std::printf("%s: %d rounds\n", test.name, rounds);
    }
    return 0;
}
