# Answers each line by what SQLite makes of it in a query.
sqlite3 db :memory:
db eval {CREATE TABLE seen(i INTEGER PRIMARY KEY, t TEXT)}
set made 0
while {[gets stdin line] >= 0} {
	puts [db eval {SELECT $line * 2, count(*) FROM seen}]
	flush stdout
}
