// lull for C++17, header only, without exceptions and without RTTI: worlds and
// characters that end themselves, results that can't be overlooked, text as
// std::string. lull.h says what everything means.
//
//     lull::World world;
//     if (auto e = world.create(lull::WorldDef{}); !e.ok()) { log(e.text()); }
//     lull::Npc smith;
//     if (auto e = world.create_npc(def, smith); !e.ok()) { ... }
//     smith.say("Good morning!");
//     each frame: world.frame_begin(...); ...; world.frame_end(...);
//                 world.poll([&](const lull_event &e) { ... });
#ifndef LULL_HPP
#define LULL_HPP

#include "lull.h"

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace lull {

// Result is what a call answered: a number of enum lull_result, and the text
// where it failed.
class [[nodiscard]] Result {
public:
    Result() = default;
    Result(int32_t code, lull_world_id world) : code_(code) {
        if (code < 0) {
            read_text(world);
        }
    }

    bool ok() const { return code_ == LULL_OK; }
    int32_t code() const { return code_; }
    const std::string &text() const { return text_; }
    // For calls whose failure is no concern.
    void ignore() const {}

private:
    void read_text(lull_world_id world) {
        // A call that found no world left its text with none.
        if (code_ == LULL_ERROR_STALE_ID) {
            world = lull_world_id{0, 0};
        }
        std::array<char, 1024> buffer{};
        int32_t length = 0;
        const int32_t got =
            lull_last_error(world, buffer.data(), static_cast<int32_t>(buffer.size()), &length);
        if (got == LULL_OK || got == LULL_ERROR_BUFFER_TOO_SMALL) {
            text_ = buffer.data();
        }
    }

    int32_t code_ = LULL_OK;
    std::string text_;
};

// text_of reads a text whose length is not known beforehand. get takes
// (char *buffer, int32_t capacity, int32_t *length) and returns a result.
template <typename Get> std::string text_of(Get get) {
    std::string text(128, '\0');
    int32_t length = 0;
    int32_t got = get(&text[0], static_cast<int32_t>(text.size()), &length);
    if (got == LULL_ERROR_BUFFER_TOO_SMALL) {
        text.resize(static_cast<std::size_t>(length) + 1);
        got = get(&text[0], static_cast<int32_t>(text.size()), &length);
    }
    text.resize(got == LULL_OK ? static_cast<std::size_t>(length) : 0);
    return text;
}

// WorldDef is lull_world_def with its defaults.
struct WorldDef : lull_world_def {
    WorldDef() : lull_world_def() { lull_default_world_def(this, sizeof(lull_world_def)); }
};

// size is a length as lull takes it, which refuses what is beyond its limits.
inline int32_t size(std::string_view text) {
    return text.size() > INT32_MAX ? INT32_MAX : static_cast<int32_t>(text.size());
}

// NpcDef is lull_npc_def with its defaults.
struct NpcDef : lull_npc_def {
    NpcDef() : lull_npc_def() { lull_default_npc_def(this, sizeof(lull_npc_def)); }
};

// ParameterDef is lull_parameter_def with its defaults.
struct ParameterDef : lull_parameter_def {
    ParameterDef() : lull_parameter_def() { lull_default_parameter_def(this, sizeof(lull_parameter_def)); }
};

// QuestDef is lull_quest_def with its defaults.
struct QuestDef : lull_quest_def {
    QuestDef() : lull_quest_def() { lull_default_quest_def(this, sizeof(lull_quest_def)); }
};

// MemoryDef is lull_memory_def with its defaults.
struct MemoryDef : lull_memory_def {
    MemoryDef() : lull_memory_def() { lull_default_memory_def(this, sizeof(lull_memory_def)); }
};

inline int64_t time_ns() { return lull_time_ns(); }

inline std::string version() {
    return text_of([](char *b, int32_t n, int32_t *l) { return lull_version(b, n, l); });
}

// Fits reports whether header and library belong together. Ask it first.
inline Result fits() {
    return Result(lull_abi_check(LULL_ABI_VERSION, static_cast<int32_t>(sizeof(lull_event))), lull_world_id{0, 0});
}

// Npc is a character. It ends with the object; moving hands it on.
class Npc {
public:
    Npc() = default;
    Npc(lull_npc_id id, lull_world_id world) : id_(id), world_(world) {}
    Npc(const Npc &) = delete;
    Npc &operator=(const Npc &) = delete;
    Npc(Npc &&other) noexcept { swap(other); }
    Npc &operator=(Npc &&other) noexcept {
        swap(other);
        return *this;
    }
    ~Npc() { destroy().ignore(); }

    lull_npc_id id() const { return id_; }
    bool valid() const { return lull_npc_is_valid(id_) == 1; }
    bool is(lull_npc_id id) const { return id.index1 == id_.index1 && id.generation == id_.generation; }

    Result destroy() {
        if (id_.generation == 0) {
            return Result();
        }
        const lull_npc_id gone = std::exchange(id_, lull_npc_id{0, 0, 0});
        return result(lull_npc_destroy(gone));
    }

    std::string name() const {
        return text_of([this](char *b, int32_t n, int32_t *l) { return lull_npc_name(id_, b, n, l); });
    }
    std::string greeting() const {
        return text_of([this](char *b, int32_t n, int32_t *l) { return lull_npc_greeting(id_, b, n, l); });
    }
    Result say(std::string_view line, uint64_t *reply = nullptr) {
        return result(lull_npc_say(id_, line.data(), size(line), reply));
    }
    Result cue(std::string_view why, uint64_t *reply = nullptr) {
        return result(lull_npc_cue(id_, why.data(), size(why), reply));
    }
    Result tell(std::string_view speaker, std::string_view text) {
        return result(lull_npc_tell(id_, speaker.data(), size(speaker), text.data(), size(text)));
    }
    Result interrupt() { return result(lull_npc_interrupt(id_)); }
    Result resume(uint64_t *reply = nullptr) { return result(lull_npc_resume(id_, reply)); }
    Result bark(std::string_view situation) {
        return result(lull_npc_bark(id_, situation.data(), size(situation)));
    }
    Result warm_up() { return result(lull_npc_warm_up(id_)); }
    Result part() { return result(lull_npc_part(id_)); }
    Result set_distance(float distance) { return result(lull_npc_set_distance(id_, distance)); }
    bool busy() const { return lull_npc_is_busy(id_) == 1; }

    int32_t line_count() const {
        int32_t count = 0;
        return lull_npc_line_count(id_, &count) == LULL_OK ? count : 0;
    }
    std::string line(int32_t index, int32_t *kind = nullptr) const {
        return text_of([&](char *b, int32_t n, int32_t *l) { return lull_npc_line(id_, index, kind, b, n, l); });
    }
    std::string line_speaker(int32_t index) const {
        return text_of([&](char *b, int32_t n, int32_t *l) { return lull_npc_line_speaker(id_, index, b, n, l); });
    }
    std::string explain() const {
        return text_of([this](char *b, int32_t n, int32_t *l) { return lull_npc_explain(id_, b, n, l); });
    }

    Result clear_actions() { return result(lull_npc_clear_actions(id_)); }
    Result add_action(std::string_view name, std::string_view description) {
        return result(lull_npc_add_action(id_, name.data(), size(name), description.data(), size(description)));
    }
    Result add_parameter(std::string_view action, const lull_parameter_def &def) {
        return result(lull_npc_add_parameter(id_, action.data(), size(action), &def));
    }
    // One target a line, nearest first.
    Result set_targets(std::string_view kind, std::string_view targets) {
        return result(lull_npc_set_targets(id_, kind.data(), size(kind), targets.data(), size(targets)));
    }

    Result set_fact(std::string_view key, std::string_view text, int64_t from_ns = 0, int64_t until_ns = 0) {
        return result(lull_npc_set_fact(id_, key.data(), size(key), text.data(), size(text), from_ns, until_ns));
    }
    Result set_quest(const lull_quest_def &def) { return result(lull_npc_set_quest(id_, &def)); }
    Result quest_state(std::string_view id, int32_t &state) const {
        return result(lull_npc_quest_state(id_, id.data(), size(id), &state));
    }
    Result remember(const lull_memory_def &def) { return result(lull_npc_remember(id_, &def)); }

private:
    Result result(int32_t code) const { return Result(code, world_); }
    void swap(Npc &other) noexcept {
        std::swap(id_, other.id_);
        std::swap(world_, other.world_);
    }

    lull_npc_id id_{0, 0, 0};
    lull_world_id world_{0, 0};
};

// An action that an NPC wants to do, read from the event that names it.
struct Action {
    struct Value {
        lull_action_value value{};
        std::string text;
    };
    uint64_t reply = 0;
    std::string name;
    std::vector<Value> values;
};

// World is a model and the characters that speak through it. It ends with the
// object, after LULL_DESTROY_MS_MAX at most.
class World {
public:
    World() = default;
    World(const World &) = delete;
    World &operator=(const World &) = delete;
    World(World &&other) noexcept : id_(std::exchange(other.id_, lull_world_id{0, 0})) {}
    World &operator=(World &&other) noexcept {
        std::swap(id_, other.id_);
        return *this;
    }
    ~World() { destroy().ignore(); }

    lull_world_id id() const { return id_; }
    bool valid() const { return lull_world_is_valid(id_) == 1; }

    Result create(const lull_world_def &def) {
        if (Result r = destroy(); !r.ok()) {
            return r;
        }
        return Result(lull_world_create(&def, &id_), lull_world_id{0, 0});
    }
    Result destroy() {
        if (id_.generation == 0) {
            return Result();
        }
        return Result(lull_world_destroy(std::exchange(id_, lull_world_id{0, 0})), lull_world_id{0, 0});
    }
    Result create_npc(const lull_npc_def &def, Npc &npc) {
        lull_npc_id made{0, 0, 0};
        Result r = result(lull_npc_create(id_, &def, &made));
        npc = Npc(made, id_);
        return r;
    }

    lull_world_status status() const {
        lull_world_status s{};
        s.struct_size = sizeof s;
        lull_world_get_status(id_, &s);
        return s;
    }
    lull_statistics statistics() const {
        lull_statistics s{};
        s.struct_size = sizeof s;
        lull_world_get_statistics(id_, &s);
        return s;
    }
    std::string model_name() const {
        return text_of([this](char *b, int32_t n, int32_t *l) { return lull_world_model_name(id_, b, n, l); });
    }
    Result cancel_load() { return result(lull_world_cancel_load(id_)); }
    Result set_phase(lull_phase phase) { return result(lull_world_set_phase(id_, phase)); }
    Result set_host_signals(const lull_host_signals &s) { return result(lull_world_set_host_signals(id_, &s)); }

    Result frame_begin(uint64_t frame, int64_t target_ns, int64_t now_ns = LULL_NOW) {
        return result(lull_frame_begin(id_, frame, target_ns, now_ns));
    }
    Result frame_end(uint64_t frame, int64_t deadline_ns = 0, int64_t now_ns = LULL_NOW,
                     lull_decision *decision = nullptr) {
        return result(lull_frame_end(id_, frame, deadline_ns, now_ns, decision));
    }
    Result frame_set_timings(uint64_t frame, const lull_frame_timings &t) {
        return result(lull_frame_set_timings(id_, frame, &t));
    }
    Result frame_add_sample(const lull_frame_sample &s, lull_decision *decision = nullptr) {
        return result(lull_frame_add_sample(id_, &s, decision));
    }

    Result decision(lull_decision &out) const {
        out.struct_size = sizeof out;
        return result(lull_world_get_decision(id_, &out));
    }

    // Gives each event to take, which is called with a const lull_event &.
    template <typename Take> Result poll(Take take) {
        std::array<lull_event, 16> events;
        for (;;) {
            int32_t count = 0;
            const int32_t capacity = static_cast<int32_t>(events.size());
            const int32_t got = lull_poll_events(id_, events.data(), sizeof events[0], capacity, &count);
            for (int32_t i = 0; i < count; i++) {
                take(static_cast<const lull_event &>(events[static_cast<std::size_t>(i)]));
            }
            if (got != LULL_OK || count < capacity) {
                return result(got);
            }
        }
    }

    // Reads the action of an LULL_EVENT_ACTION. Then accept or refuse it.
    Result action(const lull_event &e, Action &out) const {
        int32_t count = 0;
        int32_t got = lull_action_value_count(id_, e.reply, &count);
        out.reply = e.reply;
        out.name = e.text;
        out.values.assign(static_cast<std::size_t>(got == LULL_OK ? count : 0), Action::Value());
        for (int32_t i = 0; got == LULL_OK && i < count; i++) {
            Action::Value &v = out.values[static_cast<std::size_t>(i)];
            v.value.struct_size = sizeof v.value;
            got = lull_action_get_value(id_, e.reply, i, &v.value);
            v.text = text_of(
                [&](char *b, int32_t n, int32_t *l) { return lull_action_value_text(id_, e.reply, i, b, n, l); });
        }
        return result(got);
    }
    Result accept(uint64_t reply) { return result(lull_action_accept(id_, reply)); }
    Result refuse(uint64_t reply, std::string_view reason) {
        return result(lull_action_refuse(id_, reply, reason.data(), size(reason)));
    }
    // Answers an LULL_EVENT_JUDGE. instead is for LULL_VERDICT_REPLACE.
    Result judge(const lull_event &e, lull_verdict verdict, std::string_view instead = {}) {
        return result(lull_sentence_judge(id_, e.sentence, verdict, instead.data(), size(instead)));
    }
    Result set_fact(std::string_view key, std::string_view text, int64_t from_ns = 0, int64_t until_ns = 0) {
        return result(lull_world_set_fact(id_, key.data(), size(key), text.data(), size(text), from_ns, until_ns));
    }
    Result gather(const std::vector<lull_npc_id> &npcs) {
        return result(lull_npcs_gather(npcs.data(), static_cast<int32_t>(npcs.size())));
    }

    Result save(std::vector<std::uint8_t> &out) const {
        int64_t length = 0;
        int32_t got = lull_world_save(id_, nullptr, 0, &length);
        if (got == LULL_ERROR_BUFFER_TOO_SMALL) {
            out.resize(static_cast<std::size_t>(length));
            got = lull_world_save(id_, out.data(), length, &length);
        }
        return result(got);
    }
    Result load(const std::vector<std::uint8_t> &data) {
        return result(lull_world_load(id_, data.data(), static_cast<int64_t>(data.size())));
    }
    Result save_file(std::string_view path) const {
        return result(lull_world_save_file(id_, path.data(), size(path)));
    }
    Result load_file(std::string_view path) { return result(lull_world_load_file(id_, path.data(), size(path))); }
    Result save_memories(std::string_view path) {
        return result(lull_world_save_memories(id_, path.data(), size(path)));
    }
    Result load_memories(std::string_view path) {
        return result(lull_world_load_memories(id_, path.data(), size(path)));
    }
    Result set_game_time(int64_t game_time_ns) { return result(lull_world_set_game_time(id_, game_time_ns)); }

    // Takes the oldest line of the log; false where there is none.
    bool poll_log(int32_t &level, std::string &text) {
        int32_t got = LULL_OK;
        text = text_of([&](char *b, int32_t n, int32_t *l) { return got = lull_poll_log(id_, &level, b, n, l); });
        return got == LULL_OK;
    }

private:
    Result result(int32_t code) const { return Result(code, id_); }

    lull_world_id id_{0, 0};
};

// The text of an event.
inline std::string_view text(const lull_event &e) {
    return std::string_view(e.text, static_cast<std::size_t>(e.text_bytes));
}

} // namespace lull

#endif
