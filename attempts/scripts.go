package attempts

// What runs inside Redis. Each script touches one key, so it runs on a single server, behind Sentinel and on a Cluster; it may
// run twice, late or out of order without harm; and it leaves no key without an expiry. Redis 5 or later.
//
// A key is a hash: a field per failed offset (see value), "owner" with the mark, and "guard" with the owner that found
// somebody else's mark. Its expiry outlives the longest wait, and a mark lives as long after the last write.

import (
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// retention is how long a key outlives its last write. It has to be longer than MaxWait; how much longer decides how
// long a partition may run without one failure and still show, after a crash, that its owner did not leave cleanly.
const retention = 30 * 24 * time.Hour

// claimScript sets the owner's mark and reads the partition.
//
//	KEYS[1]  the partition's hash
//	ARGV[1]  the owner's token
//	returns  {the store's clock in ms, 1 where a foreign mark was found, the hash as field, value, …}
var claimScript = script(`
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local mark = redis.call('HMGET', KEYS[1], 'owner', 'guard')
local owner, guard = mark[1], mark[2]
if owner and owner ~= ARGV[1] then
  guard = ARGV[1]
  redis.call('HSET', KEYS[1], 'guard', guard)
end
redis.call('HSET', KEYS[1], 'owner', ARGV[1])
redis.call('PEXPIRE', KEYS[1], $RETENTION)
local foreign = 0
if guard == ARGV[1] then foreign = 1 end
return {now, foreign, redis.call('HGETALL', KEYS[1])}
`)

// saveScript writes an entry, absolutely. Which of two entries stands is the rule of Entry.replaces and kept.merge. A
// note keeps in "was" what it replaced, so that unnoteScript can put it back, once.
//
//	KEYS[1]  the partition's hash
//	ARGV[1]  the record's offset
//	ARGV[2]  the entry, as encode makes it
//	returns  {the store's clock in ms, the value that stands}
var saveScript = script(readEntry + `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local own = cjson.decode(ARGV[2])
own.at = t[1] * 1000 + math.ceil(t[2] / 1000)
local old = read(redis.call('HGET', KEYS[1], ARGV[1]), own.id)
local stands, was = own, ''
if old then
  local taken = old.was
  old.was = nil
  was = cjson.encode(old)
  local same = own.attempts == old.attempts and own.noted == old.noted
  if same and own.wait <= old.wait then
    own.wait, own.at = old.wait, old.at
  end
  if own.first == 0 or (old.first > 0 and old.first <= own.first) then
    own.first, own.firstError = old.first, old.firstError
  end
  local replaces
  if own.attempts ~= old.attempts then replaces = own.attempts > old.attempts
  elseif own.noted ~= old.noted then replaces = old.noted
  else replaces = own.verdict ~= '' and old.verdict == '' end
  if not replaces then
    stands = old
    stands.was = taken
    stands.first, stands.firstError = own.first, own.firstError
    if same then stands.wait, stands.at = own.wait, own.at end
  end
end
if stands == own and own.noted then own.was = was end
local text = cjson.encode(stands)
redis.call('HSET', KEYS[1], ARGV[1], text)
redis.call('PEXPIRE', KEYS[1], $RETENTION)
return {now, text}
`)

// unnoteScript takes a note back, once.
//
//	KEYS[1]  the partition's hash
//	ARGV[1]  the record's offset
//	ARGV[2]  the record's identity
//	returns  1 where there was a note to take back
var unnoteScript = script(readEntry + `
local e = read(redis.call('HGET', KEYS[1], ARGV[1]), ARGV[2])
if not e or not e.noted or not e.was then return 0 end
if e.was == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], e.was)
end
redis.call('PEXPIRE', KEYS[1], $RETENTION)
return 1
`)

// forgetScript removes the entries below an offset, and with the first commit the guard. Offsets are compared as text,
// since a number of Lua is exact to 2^53 only.
//
//	KEYS[1]  the partition's hash
//	ARGV[1]  the committed offset
//	returns  how many entries went
var forgetScript = script(`
local below, gone = ARGV[1], 0
for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
  if string.match(field, '^%d+$') and (#field < #below or (#field == #below and field < below)) then
    gone = gone + redis.call('HDEL', KEYS[1], field)
  end
end
redis.call('HDEL', KEYS[1], 'guard')
redis.call('PEXPIRE', KEYS[1], $RETENTION)
return gone
`)

// releaseScript removes the owner's mark, if it is the owner's.
//
//	KEYS[1]  the partition's hash
//	ARGV[1]  the owner's token
//	returns  1 where it was
var releaseScript = script(`
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
redis.call('HDEL', KEYS[1], 'owner', 'guard')
redis.call('PEXPIRE', KEYS[1], $RETENTION)
return 1
`)

// readEntry is the Lua twin of decode: the entry that text holds for the record id, with the fields that we know and no
// others, or nil where nobody here can have written it.
const readEntry = `
local kinds = {[''] = true, permanent = true, panic = true, exhausted = true, crash = true, skipped = true}
local most = {attempts = $MAX_ATTEMPTS, deaths = $MAX_ATTEMPTS, wait = $MAX_WAIT, at = $LAST_INSTANT, first = $LAST_INSTANT}
local texts = {'firstError', 'lastError', 'class', 'stack'}
local function read(text, id)
  local ok, o = pcall(cjson.decode, text)
  if not ok or type(o) ~= 'table' or o.id ~= id or type(o.noted) ~= 'boolean' then return nil end
  local e = {id = id, noted = o.noted, verdict = o.verdict}
  for name, limit in pairs(most) do
    local x = o[name]
    if type(x) ~= 'number' or not (x >= 0 and x <= limit) or x ~= math.floor(x) then return nil end
    e[name] = x
  end
  for _, name in ipairs(texts) do
    if type(o[name]) ~= 'string' then return nil end
    e[name] = o[name]
  end
  if e.attempts < 1 or type(e.verdict) ~= 'string' or not kinds[e.verdict] or (e.noted and e.verdict ~= '') then return nil end
  if type(o.was) == 'string' then e.was = o.was end
  return e
end
`

// script fills in the limits, so that each of them stands in one place.
func script(source string) *redis.Script {
	ms := func(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }
	return redis.NewScript(strings.NewReplacer(
		"$RETENTION", ms(retention),
		"$MAX_WAIT", ms(MaxWait),
		"$MAX_ATTEMPTS", strconv.Itoa(MaxAttempts),
		"$LAST_INSTANT", strconv.Itoa(lastInstant),
	).Replace(source))
}
