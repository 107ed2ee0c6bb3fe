-- ../lua/talk.lua in LÖVE: the same conversation, drawn. LULL_TALK names that
-- file, since LÖVE reads only its own folder by itself.
local game
local lines, at, said, ready, done = nil, 0, "", false, false

function love.load(arg)
  game = dofile(os.getenv("LULL_TALK"))
  lines = #arg > 1 and { unpack(arg, 2) } or game.lines
  game.open(arg[1])
end

local function take(e)
  game.failed(e)
  if e.kind == game.lull.EVENT_WORLD_READY then ready = true end
  if e.kind == game.lull.EVENT_TEXT then
    said = said .. game.text(e)
    io.write(game.text(e))
  end
  if e.kind == game.lull.EVENT_DONE then
    io.write("\n")
    ready = true
  end
end

function love.update()
  game.play(take, function() end) -- present waits, after draw
  if ready then
    ready, at = false, at + 1
    if at > #lines then
      game.close()
      done = true
      love.event.quit()
      return
    end
    said = ""
    io.write("player: ", lines[at], "\nnpc: ")
    game.say(lines[at])
  end
end

function love.draw()
  if not done and lines[at] then
    love.graphics.printf(lines[at] .. "\n\n" .. said, 10, 10, 460)
  end
end
