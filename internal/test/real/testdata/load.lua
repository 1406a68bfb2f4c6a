-- Does a little of everything, the same in each run: load.lua TIMES
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end

local function failing(n)
  local caught = 0
  for i = 1, n do
    local ok, err = pcall(function()
      if i % 3 == 0 then error({code = i}) end
      if i % 3 == 1 then local x = nil; return x.field end
      return i
    end)
    if not ok then caught = caught + (type(err) == "table" and 2 or 1) end
  end
  return caught
end

local function coroutines(n)
  local sum = 0
  local co = coroutine.wrap(function() for i = 1, n do coroutine.yield(i) end end)
  for _ = 1, n do sum = sum + co() end
  local dead = coroutine.create(function() error("in a coroutine") end)
  return sum, coroutine.resume(dead)
end

local function strings(n)
  local t = {}
  for i = 1, n do t[i] = string.format("%05d %s", i * 7919 % n, ("ab"):rep(i % 5)) end
  local s = table.concat(t, "\n")
  local words = 0
  for _ in s:gmatch("%a+") do words = words + 1 end
  return #s, words, s:gsub("a", "A"):sub(1, 40)
end

local function objects(n)
  local Account = {}
  Account.__index = Account
  Account.__lt = function(a, b) return a.balance < b.balance end
  Account.__gc = function() end
  local all = {}
  for i = 1, n do all[i] = setmetatable({balance = i * 31 % 97}, Account) end
  local most = all[1]
  for _, a in ipairs(all) do if most < a then most = a end end
  return most.balance
end

local function compiling(n)
  local sum = 0
  for i = 1, n do sum = sum + load("local a = " .. i .. "; return a * 2 + #'text'")() end
  return sum, load("syntax error here")
end

for _ = 1, tonumber(arg[1]) do
  print(fib(18))
  print(failing(3000))
  print(coroutines(3000))
  print(strings(3000))
  print(objects(3000))
  print(compiling(300))
end
