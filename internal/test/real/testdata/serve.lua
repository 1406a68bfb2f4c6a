-- Answers each line by a string that is repeated.
for line in io.lines() do
  io.write(("x"):rep(tonumber(line) % 10), " ", line, "\n")
  io.flush()
end
