# Answers each line by what SQLite makes of it in a query, which calls a function.
sqlite3 db :memory:
db function answer {apply {line {return "$line [expr {$line * $line}]"}}}
while {[gets stdin line] >= 0} {
	puts [db eval {SELECT answer($line)}]
	flush stdout
}
