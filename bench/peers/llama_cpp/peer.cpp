// llama.cpp as a peer: JSON lines on stdin and stdout (../protocol.py says which), by llama.h alone.
//
// In its favour: one context for each number of sequences, of just their size, each sequence with its own KV stream;
// the likeliest token by one pass over the logits, without a sampler's list of candidates. A sequence keeps the KV of
// its last prompt, and the next one computes only what differs, as llama.cpp's server does for a slot.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "llama.h"

using nlohmann::json;
using Tokens = std::vector<llama_token>;

namespace {

constexpr uint32_t kContextTokens = 2048;  // of a lone sequence
constexpr uint32_t kSharedTokens = 512;    // of each of several
constexpr int32_t kBatchTokens = 2048;

void log_errors(ggml_log_level level, const char* text, void*) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        std::fputs(text, stderr);
    }
}

llama_token likeliest(const float* logits, int32_t vocab_size) {
    return static_cast<llama_token>(std::max_element(logits, logits + vocab_size) - logits);
}

// Some sequences that are computed together, with what each has in its KV.
class Sequences {
public:
    Sequences(llama_model* model, size_t count, int threads) : cached_(count), latest_(count) {
        llama_context_params params = llama_context_default_params();
        params.n_seq_max = static_cast<uint32_t>(count);
        params.n_ctx = count == 1 ? kContextTokens : kSharedTokens * params.n_seq_max;
        params.n_batch = kBatchTokens;
        params.n_threads = threads;
        params.n_threads_batch = threads;
        context_ = llama_init_from_model(model, params);
        if (context_ == nullptr) {
            throw std::runtime_error("no context");
        }
        vocab_size_ = llama_vocab_n_tokens(llama_model_get_vocab(model));
        batch_ = llama_batch_init(kBatchTokens, 0, 1);
    }

    ~Sequences() {
        llama_batch_free(batch_);
        llama_free(context_);
    }

    Sequences(const Sequences&) = delete;
    Sequences& operator=(const Sequences&) = delete;

    void generate(const std::vector<Tokens>& prompts, int output_tokens) {
        for (size_t s = 0; s < prompts.size(); ++s) {
            prefill(static_cast<llama_seq_id>(s), prompts[s]);
        }
        compute();
        for (int produced = 1; produced < output_tokens; ++produced) {
            for (size_t s = 0; s < prompts.size(); ++s) {
                const auto position = static_cast<llama_pos>(prompts[s].size()) + produced - 1;
                add(latest_[s], position, static_cast<llama_seq_id>(s), true);
            }
            compute();
        }
    }

    // Continue the first sequence at `position`, and write the logits after each of at most kBatchTokens tokens.
    void score(const Tokens& tokens, llama_pos position, const std::string& path) {
        cached_[0].clear();
        llama_memory_seq_rm(llama_get_memory(context_), 0, position, -1);
        for (const llama_token token : tokens) {
            add(token, position++, 0, true);
        }
        compute();
        std::ofstream rows(path, std::ios::binary);
        for (size_t i = 0; i < tokens.size(); ++i) {
            const float* logits = llama_get_logits_ith(context_, static_cast<int32_t>(i));
            rows.write(reinterpret_cast<const char*>(logits), static_cast<std::streamsize>(vocab_size_ * sizeof(float)));
        }
        if (!rows.flush()) {
            throw std::runtime_error("cannot write " + path);
        }
    }

private:
    void prefill(llama_seq_id sequence, const Tokens& prompt) {
        const Tokens& cached = cached_[sequence];
        const size_t limit = std::min(cached.size(), prompt.size() - 1);  // the last token has to give logits
        size_t hit = 0;
        while (hit < limit && cached[hit] == prompt[hit]) {
            ++hit;
        }
        llama_memory_seq_rm(llama_get_memory(context_), sequence, static_cast<llama_pos>(hit), -1);
        for (size_t i = hit; i < prompt.size(); ++i) {
            add(prompt[i], static_cast<llama_pos>(i), sequence, i + 1 == prompt.size());
        }
        cached_[sequence] = prompt;
    }

    void add(llama_token token, llama_pos position, llama_seq_id sequence, bool wants_logits) {
        if (batch_.n_tokens == kBatchTokens) {
            compute();
        }
        const int32_t i = batch_.n_tokens++;
        batch_.token[i] = token;
        batch_.pos[i] = position;
        batch_.n_seq_id[i] = 1;
        batch_.seq_id[i][0] = sequence;
        batch_.logits[i] = static_cast<int8_t>(wants_logits);
    }

    // Compute what has been added, and take the next token of each row that gives logits.
    void compute() {
        if (llama_decode(context_, batch_) != 0) {
            throw std::runtime_error("llama_decode failed");
        }
        for (int32_t i = 0; i < batch_.n_tokens; ++i) {
            if (batch_.logits[i] != 0) {
                latest_[batch_.seq_id[i][0]] = likeliest(llama_get_logits_ith(context_, i), vocab_size_);
            }
        }
        batch_.n_tokens = 0;
    }

    llama_context* context_ = nullptr;
    llama_batch batch_{};
    int32_t vocab_size_ = 0;
    std::vector<Tokens> cached_;
    Tokens latest_;
};

class Peer {
public:
    json load(const json& request) {
        threads_ = request.at("threads");
        model_ = llama_model_load_from_file(request.at("model").get<std::string>().c_str(), llama_model_default_params());
        if (model_ == nullptr) {
            throw std::runtime_error("no such model");
        }
        return {{"version", llama_version()}, {"has_prefix_cache", true}};
    }

    json generate(const json& request) {
        const auto prompts = request.at("prompts").get<std::vector<Tokens>>();
        const int output_tokens = request.at("output_tokens");
        Sequences& sequences = together(prompts.size());
        const auto start = std::chrono::steady_clock::now();
        sequences.generate(prompts, output_tokens);
        const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
        return {{"seconds", seconds.count()}};
    }

    json score(const json& request) {
        together(1).score(request.at("tokens").get<Tokens>(), request.at("position"), request.at("rows"));
        return json::object();
    }

private:
    Sequences& together(size_t count) {
        return sequences_.try_emplace(count, model_, count, threads_).first->second;
    }

    llama_model* model_ = nullptr;
    int threads_ = 1;
    std::map<size_t, Sequences> sequences_;  // by how many
};

json answer(Peer& peer, const json& request) {
    const std::string op = request.at("op");
    if (op == "load") {
        return peer.load(request);
    }
    if (op == "generate") {
        return peer.generate(request);
    }
    if (op == "score") {
        return peer.score(request);
    }
    throw std::runtime_error("no such op: " + op);
}

}  // namespace

int main() {
    llama_log_set(log_errors, nullptr);
    llama_backend_init();
    Peer peer;
    for (std::string line; std::getline(std::cin, line);) {
        json reply;
        try {
            reply = answer(peer, json::parse(line));
        } catch (const std::exception& error) {
            reply = {{"error", error.what()}};
        }
        std::cout << reply.dump() << std::endl;
    }
    // The end of stdin is the end of the process, which frees the model faster than its destructors would.
    std::fflush(stdout);
    std::_Exit(0);
}
