-- A small window without sound.
function love.conf(t)
  t.window.title = "lull"
  t.window.width, t.window.height = 480, 120
  t.modules.audio, t.modules.sound, t.modules.physics = false, false, false
end
