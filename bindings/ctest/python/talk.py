"""The same as ../c/talk.c with ctypes. LULL_LIBRARY names the library and
LULL_GOLDEN abi.golden.txt, from which the structs are read."""

import ctypes as c
import os
import re
import sys
import time

FRAME = 16666667
SCALARS = {
    "char": c.c_char, "uint16_t": c.c_uint16, "int32_t": c.c_int32, "uint32_t": c.c_uint32,
    "float": c.c_float, "double": c.c_double, "int64_t": c.c_int64, "uint64_t": c.c_uint64,
}


def read_golden(path):
    """Makes constants, ctypes structs and prototypes of the golden's lines."""
    const, fields, protos = {}, {}, {}
    for line in open(path, encoding="utf-8"):
        if m := re.match(r"(?:constant|enum \w+) (\w+) (-?\d+)$", line):
            const[m[1]] = int(m[2])
        elif m := re.match(r"field (\w+)\.(\w+) offset \d+ size \d+: (const )?(\w+) (\*?)\w+(?:\[(\d+)\])?$", line):
            fields.setdefault(m[1], []).append((m[2], m[4], bool(m[5]), int(m[6] or 0)))
        elif m := re.match(r"function (\w+) (\w+)\((.*)\)$", line):
            protos[m[2]] = (m[1], m[3])
    structs = {}

    def kind(name, pointer):
        if pointer:
            return c.c_char_p if name == "char" else c.c_void_p
        return SCALARS.get(name) or structs[name]

    for name, members in fields.items():
        row = [(f, kind(t, p) * n if n else kind(t, p)) for f, t, p, n in members]
        structs[name] = type(name, (c.Structure,), {"_fields_": row})
    return const, structs, protos


CONST, STRUCTS, PROTOS = read_golden(os.environ["LULL_GOLDEN"])
LIB = c.CDLL(os.environ["LULL_LIBRARY"])
for function, (result, params) in PROTOS.items():
    entry = getattr(LIB, function)
    entry.restype = SCALARS[result]
    entry.argtypes = [
        c.c_void_p if "*" in p else SCALARS.get(p.split()[0]) or STRUCTS[p.split()[0]]
        for p in params.split(", ") if p != "void"
    ]


def check(result, world, what):
    if result == 0:
        return
    text = c.create_string_buffer(1024)
    LIB.lull_last_error(world, text, len(text), None)
    sys.exit(f"{what}: {result}, {text.value.decode()}")


def wait_until(instant):
    time.sleep(max(0, instant - LIB.lull_time_ns()) / 1e9)


class Game:
    def __init__(self, kind):
        none = STRUCTS["lull_world_id"]()
        event = STRUCTS["lull_event"]
        check(LIB.lull_abi_check(CONST["LULL_ABI_VERSION"], c.sizeof(event)), none, "abi")
        define = STRUCTS["lull_world_def"]()
        check(LIB.lull_default_world_def(c.byref(define), c.sizeof(define)), none, "world def")
        if kind != "real":
            define.model_kind = CONST["LULL_MODEL_SCRIPTED"]
        self.world = STRUCTS["lull_world_id"]()
        check(LIB.lull_world_create(c.byref(define), c.byref(self.world)), none, "world")
        who = STRUCTS["lull_npc_def"]()
        check(LIB.lull_default_npc_def(c.byref(who), c.sizeof(who)), none, "npc def")
        who.persona_file, who.greedy = b"blacksmith", 1
        who.reply_tokens_max = 12 if kind == "real" else 0  # one sentence shows it
        self.npc = STRUCTS["lull_npc_id"]()
        check(LIB.lull_npc_create(self.world, c.byref(who), c.byref(self.npc)), self.world, "npc")
        self.events, self.count = (event * 16)(), c.c_int32()
        self.frame, self.costs = 0, []

    def play(self):
        """One frame; returns its events."""
        self.frame += 1
        begin = LIB.lull_time_ns()
        check(LIB.lull_frame_begin(self.world, self.frame, FRAME, begin), self.world, "frame begin")
        t0 = LIB.lull_time_ns()
        wait_until(begin + 2000000)  # the game's own work
        t1 = LIB.lull_time_ns()
        check(LIB.lull_frame_end(self.world, self.frame, begin + FRAME, 0, None), self.world, "frame end")
        size = c.sizeof(self.events[0])
        check(LIB.lull_poll_events(self.world, self.events, size, 16, c.byref(self.count)), self.world, "poll")
        self.costs.append((t0 - begin) + (LIB.lull_time_ns() - t1))
        wait_until(begin + FRAME)  # present: here the model runs
        return self.events[: self.count.value]

    def until(self, kind):
        """Plays frames until an event of that kind comes, and prints text meanwhile."""
        failures = CONST["LULL_EVENT_WORLD_FAILED"], CONST["LULL_EVENT_REPLY_FAILED"]
        over = False
        while not over:
            for e in self.play():
                if e.kind in failures:
                    sys.exit(f"event {e.kind}: {e.result}, {e.text.decode()}")
                if e.kind == CONST["LULL_EVENT_TEXT"]:
                    sys.stdout.write(e.text.decode())
                over = over or e.kind == CONST[kind]


def main():
    sys.stdout.reconfigure(encoding="utf-8")
    game = Game(sys.argv[1] if len(sys.argv) > 1 else "scripted")
    game.until("LULL_EVENT_WORLD_READY")
    for line in sys.argv[2:] or ["Hello, Brenna!", "Où est la mine? \U0001f5fb"]:
        sys.stdout.write(f"player: {line}\nnpc: ")
        check(LIB.lull_npc_say(game.npc, line.encode(), -1, None), game.world, "say")
        game.until("LULL_EVENT_DONE")
        sys.stdout.write("\n")
    check(LIB.lull_world_destroy(game.world), STRUCTS["lull_world_id"](), "destroy")
    costs = sorted(game.costs)
    n = len(costs)
    print(f"frame cost: {n} frames, p50 {costs[n // 2] / 1000:.1f} us, p99 {costs[n * 99 // 100] / 1000:.1f} us")


main()
