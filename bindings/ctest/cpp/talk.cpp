// The same as ../c/talk.c through lull.hpp, without exceptions and RTTI.
#include "lull.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr int64_t frame_ns = 16666667;

void check(const lull::Result &r, const char *what) {
    if (!r.ok()) {
        std::fprintf(stderr, "%s: %d, %s\n", what, static_cast<int>(r.code()), r.text().c_str());
        std::exit(1);
    }
}

void wait_until(int64_t instant_ns) {
    std::this_thread::sleep_for(std::chrono::nanoseconds(instant_ns - lull::time_ns()));
}

struct Game {
    lull::World world;
    uint64_t frame = 0;
    std::vector<int64_t> costs_ns;

    // One frame; every event goes to take.
    template <typename Take> void play(Take take) {
        const int64_t begin = lull::time_ns(), deadline = begin + frame_ns;
        check(world.frame_begin(++frame, frame_ns, begin), "frame begin");
        const int64_t t0 = lull::time_ns();
        wait_until(begin + 2000000); // the game's own work
        const int64_t t1 = lull::time_ns();
        check(world.frame_end(frame, deadline), "frame end");
        check(world.poll(take), "poll");
        costs_ns.push_back((t0 - begin) + (lull::time_ns() - t1));
        wait_until(deadline); // present: here the model runs
    }

    // Plays frames until an event of that kind comes, and prints text meanwhile.
    void until(int32_t kind) {
        for (bool over = false; !over;) {
            play([&](const lull_event &e) {
                if (e.kind == LULL_EVENT_WORLD_FAILED || e.kind == LULL_EVENT_REPLY_FAILED) {
                    std::fprintf(stderr, "event %d: %d, %s\n", static_cast<int>(e.kind), static_cast<int>(e.result),
                                 e.text);
                    std::exit(1);
                }
                if (e.kind == LULL_EVENT_TEXT) {
                    std::fwrite(e.text, 1, lull::text(e).size(), stdout);
                }
                over = over || e.kind == kind;
            });
        }
    }
};

} // namespace

int main(int argc, char **argv) {
    std::vector<std::string> lines(argv + std::min(argc, 2), argv + argc);
    if (lines.empty()) {
        lines = {"Hello, Brenna!", "O\xc3\xb9 est la mine? \xf0\x9f\x97\xbb"};
    }
    check(lull::fits(), "abi");
    Game game;
    lull::WorldDef def;
    const bool real = argc > 1 && std::string(argv[1]) == "real";
    def.model_kind = real ? LULL_MODEL_LLAMA : LULL_MODEL_SCRIPTED;
    check(game.world.create(def), "world");
    lull::NpcDef who;
    who.persona_file = "blacksmith";
    who.greedy = 1;
    who.reply_tokens_max = real ? 12 : 0; // one sentence shows it
    lull::Npc npc;
    check(game.world.create_npc(who, npc), "npc");
    game.until(LULL_EVENT_WORLD_READY);
    for (const std::string &line : lines) {
        std::printf("player: %s\nnpc: ", line.c_str());
        check(npc.say(line), "say");
        game.until(LULL_EVENT_DONE);
        std::printf("\n");
    }
    check(npc.destroy(), "destroy npc");
    check(game.world.destroy(), "destroy");
    std::sort(game.costs_ns.begin(), game.costs_ns.end());
    const std::size_t n = game.costs_ns.size();
    std::printf("frame cost: %zu frames, p50 %.1f us, p99 %.1f us\n", n,
                static_cast<double>(game.costs_ns[n / 2]) / 1000,
                static_cast<double>(game.costs_ns[n * 99 / 100]) / 1000);
}
