-- The same as ../c/talk.c in LuaJIT. LULL_LIBRARY names the library,
-- LULL_CDEF the file that abigen made for LuaJIT. Runs alone, and from LÖVE's
-- main.lua, which draws.
local ffi = require("ffi")
local lull = dofile(os.getenv("LULL_CDEF"))
local C = ffi.load(os.getenv("LULL_LIBRARY"))
pcall(ffi.cdef, "int usleep(unsigned int);")

local FRAME = 16666667
local M = { frame = 0, costs = {} }

local buffer, length = ffi.new("char[1024]"), ffi.new("int32_t[1]")

local function check(result, world, what)
  if result == lull.OK then return end
  C.lull_last_error(world, buffer, 1024, nil)
  io.stderr:write(string.format("%s: %d, %s\n", what, result, ffi.string(buffer)))
  os.exit(1)
end

local function wait_until(instant)
  local rest = tonumber(instant - C.lull_time_ns()) / 1000
  if rest > 0 then ffi.C.usleep(rest) end
end

local events, count = ffi.new("lull_event[16]"), ffi.new("int32_t[1]")

-- One frame; take is called with each event. wait is what presenting is.
function M.play(take, wait)
  M.frame = M.frame + 1
  local start = C.lull_time_ns()
  local deadline = start + FRAME
  check(C.lull_frame_begin(M.world, M.frame, FRAME, start), M.world, "frame begin")
  local t0 = C.lull_time_ns()
  wait_until(start + 2000000) -- the game's own work
  local t1 = C.lull_time_ns()
  check(C.lull_frame_end(M.world, M.frame, deadline, lull.NOW, nil), M.world, "frame end")
  check(C.lull_poll_events(M.world, events, ffi.sizeof("lull_event"), 16, count), M.world, "poll")
  M.costs[#M.costs + 1] = tonumber((t0 - start) + (C.lull_time_ns() - t1)) / 1000
  for i = 0, count[0] - 1 do take(events[i]) end;
  (wait or wait_until)(deadline)
end

function M.text(event) return ffi.string(event.text, event.text_bytes) end

function M.failed(event)
  if event.kind == lull.EVENT_WORLD_FAILED or event.kind == lull.EVENT_REPLY_FAILED then
    io.stderr:write(string.format("event %d: %d, %s\n", event.kind, event.result, ffi.string(event.text)))
    os.exit(1)
  end
end

function M.open(kind)
  local none = ffi.new("lull_world_id")
  check(C.lull_abi_check(lull.ABI_VERSION, ffi.sizeof("lull_event")), none, "abi")
  local def = ffi.new("lull_world_def")
  check(C.lull_default_world_def(def, ffi.sizeof(def)), none, "world def")
  if kind ~= "real" then def.model_kind = lull.MODEL_SCRIPTED end
  local world = ffi.new("lull_world_id[1]")
  check(C.lull_world_create(def, world), none, "world")
  M.world = world[0]
  M.worlds = world -- keeps the memory
  local who = ffi.new("lull_npc_def")
  check(C.lull_default_npc_def(who, ffi.sizeof(who)), none, "npc def")
  local name = "blacksmith"
  who.persona_file, who.persona_file_bytes, who.greedy = name, #name, 1
  who.reply_tokens_max = kind == "real" and 12 or 0 -- one sentence shows it
  M.npcs = ffi.new("lull_npc_id[1]")
  check(C.lull_npc_create(M.world, who, M.npcs), M.world, "npc")
end

function M.say(line) check(C.lull_npc_say(M.npcs[0], line, #line, nil), M.world, "say") end

function M.close()
  check(C.lull_world_destroy(M.world), ffi.new("lull_world_id"), "destroy")
  table.sort(M.costs)
  local n = #M.costs
  io.write(string.format("frame cost: %d frames, p50 %.1f us, p99 %.1f us\n", n,
    M.costs[math.floor(n / 2) + 1], M.costs[math.floor(n * 0.99) + 1] or M.costs[n]))
end

M.lull = lull
M.lines = { "Hello, Brenna!", "O\195\185 est la mine? \240\159\151\187" }

-- Plays frames until an event of that kind comes, and prints text meanwhile.
local function till(kind)
  local over = false
  while not over do
    M.play(function(e)
      M.failed(e)
      if e.kind == lull.EVENT_TEXT then io.write(M.text(e)) end
      over = over or e.kind == kind
    end)
  end
end

if arg and arg[0] and arg[0]:match("talk%.lua$") then
  M.open(arg[1])
  till(lull.EVENT_WORLD_READY)
  local lines = M.lines
  if arg[2] then lines = { unpack(arg, 2) } end
  for _, line in ipairs(lines) do
    io.write("player: ", line, "\nnpc: ")
    M.say(line)
    till(lull.EVENT_DONE)
    io.write("\n")
  end
  M.close()
end

return M
