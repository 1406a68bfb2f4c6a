//go:build linux && amd64

package real

import "regexp"

var seconds = regexp.MustCompile(`\d+\.\d{3}s`)

// programs are the programs to record.
var programs = []program{
	{
		name:   "lua",
		source: "lua5.4",
		// Run the commands of Debian's configure script, and compile without libtool.
		script: `cd src
			echo '#define DEB_HOST_MULTIARCH "x86_64-linux-gnu"' > lua5.4-deb-multiarch.h
			ls l*.c | grep -v luac.c | xargs -n 1 -P 2 $CC $CFLAGS -DLUA_USE_LINUX "-Dluai_makeseed(L)=1" -c
			$CC $CFLAGS -Wl,-E -o ../lua l*.o -lm -ldl`,
		loads: []load{
			{
				name:   "script",
				quick:  true,
				script: `"$@" "$SRC/lua" "$DATA/load.lua" 1`,
				exact:  []string{"luaV_execute", "luaD_throw", "luaB_pcall", "str_rep", "luaC_step", "auxresume"},
				random: []string{"luaS_newlstr"}, // behind a cache by address
			},
			{
				name:   "cost",
				cost:   true,
				script: `"$@" "$SRC/lua" "$DATA/load.lua" $((4 * TIMES))`,
			},
			{
				name:   "lines",
				quick:  true,
				script: `exec "$@" "$SRC/lua" "$DATA/serve.lua"`,
				drive:  driveLines(6000, "str_rep"),
			},
		},
	},
	{
		name:   "sqlite",
		source: "sqlite3",
		needs:  []string{"tclsh"},
		files:  []string{"/usr/include/tcl8.6/tcl.h", "/usr/include/zlib.h"},
		script: `./configure -q --with-tcl=/usr/lib/tcl8.6 --disable-readline
			make -s sqlite3.c
			make -s -j2 speedtest1 testfixture`,
		loads: []load{
			{
				name:   "speedtest1",
				script: `"$@" "$SRC/speedtest1" --size 2 --verify test.db`,
				varies: seconds,
				exact:  []string{"sqlite3VdbeExec", "sqlite3BtreeInsert", "pcache1Fetch", "pthreadMutexEnter"},
			},
			{
				name:   "lines",
				script: `exec "$@" "$SRC/testfixture" "$DATA/serve.tcl"`,
				drive:  driveLines(1000, "tclSqlFunc"),
			},
			{
				name: "tests",
				script: `for test in select1 insert trans index join like savepoint fkey1 trigger1 wal vacuum rollback collate1; do
						"$@" "$SRC/testfixture" "$SRC/test/$test.test"
					done > said
					grep -vE '^(SQLite|Time:|Page-cache|All memory|Memory|Maximum|Current|Highwater)' said`,
				varies: regexp.MustCompile(`\d+ (micro)?seconds?|\d+\.\d+s|[0-9.]+ (us|ms)`),
			},
			{
				name:   "cost",
				cost:   true,
				script: `"$@" "$SRC/speedtest1" --size $TIMES --memdb`,
				varies: seconds,
			},
		},
	},
	{
		name:   "redis",
		source: "redis",
		needs:  []string{"tclsh"},
		script: `make -s -j2 CC=$CC OPTIMIZATION= DEBUG= CFLAGS="$CFLAGS" LDFLAGS="$CFLAGS" MALLOC=libc USE_SYSTEMD=no`,
		loads: []load{
			{
				name:   "server",
				script: redisServer,
				drive:  driveRedis,
			},
			{
				name: "tests",
				script: `cp -r "$SRC"/{tests,runtest,redis.conf,sentinel.conf} .
					ln -s "$SRC/src" src
					"$@" ./runtest --clients 1 --baseport $PORT --portcount 2000 --skipunit unit/oom-score-adj --tags -slow \
						--single unit/type/hash --single unit/type/incr --single unit/expire --single unit/multi \
						--single unit/auth --single unit/other --single integration/rdb | grep -aE '(ok|err|exception|timeout).{0,5}[]]: |passed' | sed -E 's/ [(][0-9]+ (ms|seconds)[)]$//'`,
			},
			{
				name: "benchmark",
				cost: true,
				script: `"$@" "$SRC/src/redis-server" --port $PORT --save "" --logfile log &
					until "$SRC/src/redis-cli" -p $PORT ping > ping 2>&1 && grep -q PONG ping; do sleep 0.05; done
					"$SRC/src/redis-benchmark" -p $PORT -n $((5000 * TIMES)) -c 20 -P 4 -t set,get,incr,lpush,lpop,sadd,hset,zadd,mset --csv > benchmark
					"$SRC/src/redis-cli" -p $PORT info commandstats | grep -aoE 'cmdstat_(set|get|incr|lpush|lpop|sadd|hset|zadd|mset):calls=[0-9]+' | sort
					"$SRC/src/redis-cli" -p $PORT shutdown nosave
					wait`,
			},
		},
	},
	{
		name:   "memcached",
		source: "memcached",
		files:  []string{"/usr/include/event2/event.h", "/usr/include/seccomp.h"},
		// The patched sources are newer than the generated files, so keep make from running
		// autotools.
		script: `./configure -q --enable-seccomp
			make -s -j2 AUTOCONF=: AUTOMAKE=: ACLOCAL=: AUTOHEADER=: memcached`,
		loads: []load{
			{
				name:   "server",
				script: `exec "$@" "$SRC/memcached" -l 127.0.0.1 -p $PORT -t 2 -u nobody`,
				cost:   true,
				drive:  driveMemcached,
			},
			{
				name:   "seccomp",
				script: `exec "$@" "$SRC/memcached" -l 127.0.0.1 -p $PORT -t 2 -u nobody -o drop_privileges`,
				drive:  driveMemcached,
			},
			{
				name:   "daemon",
				script: `exec "$@" "$SRC/memcached" -l 127.0.0.1 -p $PORT -t 2 -u nobody -d -P "$PWD/pid"`,
				drive:  driveMemcached,
			},
		},
	},
	{
		name:   "nginx",
		source: "nginx",
		script: `./configure --with-cc="$CC" --with-cc-opt="$CFLAGS" --with-ld-opt="$CFLAGS" \
				--without-http_rewrite_module --without-http_gzip_module
			make -s -j2`,
		loads: []load{
			{
				name: "server",
				script: `sed "s/PORT/$PORT/" "$DATA/nginx.conf" > nginx.conf
					mkdir logs
					cp "$DATA/load.lua" .
					exec "$@" "$SRC/objs/nginx" -p "$PWD" -c nginx.conf`,
				drive: driveNginx,
				cost:  true,
			},
		},
	},
	{
		name:   "haproxy",
		source: "haproxy",
		script: `make -s -j2 TARGET=linux-glibc USE_CRYPT_H= USE_LIBCRYPT= CC="$CC" CPU_CFLAGS= DEBUG_CFLAGS="$CFLAGS" LDFLAGS="$CFLAGS" haproxy`,
		loads: []load{
			{
				// The master forks a worker, and executes itself before and after each reload.
				name: "master",
				script: `until [[ -e backend ]]; do sleep 0.01; done
					sed "s/FRONT/$PORT/; s/BACK/$(cat backend)/" "$DATA/haproxy.cfg" > haproxy.cfg
					exec "$@" "$SRC/haproxy" -W -S unix@master.sock -f haproxy.cfg`,
				drive: driveHaproxy,
				cost:  true,
			},
		},
	},
	{
		name:   "postgresql",
		source: "postgresql-15",
		needs:  []string{"unshare"},
		files:  []string{"/usr/include/zlib.h"},
		script: `./configure -q --without-readline --prefix="$PWD/installed" --enable-debug
			make -s -j2 all
			make -s install
			make -s -C src/test/regress all`,
		loads: []load{
			{
				name:   "server",
				script: postgresServer + `exec "${user[@]}" "$@" "$SRC/installed/bin/postgres" -D data`,
				drive:  drivePostgres,
			},
			{
				name: "regress",
				script: postgresServer + `"${user[@]}" "$@" "$SRC/installed/bin/postgres" -D data &
					until "$SRC/installed/bin/pg_isready" -q -h "$PWD" -p $PORT; do sleep 0.05; done
					mkdir -p out/testtablespace
					cp -r "$SRC/src/test/regress/expected" "$SRC/src/test/regress/sql" "$SRC/src/test/regress/data" out/
					status=0
					"$SRC/src/test/regress/pg_regress" --bindir="$SRC/installed/bin" --dlpath="$SRC/src/test/regress" --inputdir=out --outputdir=out \
						--host="$PWD" --port=$PORT --user=tester test_setup boolean char varchar text int2 int4 int8 \
						float8 bit numeric uuid enum strings date time timestamp interval regex insert insert_conflict case plpgsql prepare > said || status=$?
					grep -aoE '^(test [a-z0-9_]+ +\.\.\. [a-z]+|.*tests? (passed|failed).*)' said
					cat out/regression.diffs 2>/dev/null || true
					kill -INT "$("$SRC/installed/bin/psql" -h "$PWD" -p $PORT -U tester -Atc "select 1" postgres >/dev/null; head -1 data/postmaster.pid)"
					wait || true
					exit $status`,
			},
			{
				name: "pgbench",
				cost: true,
				script: postgresServer + `"${user[@]}" "$@" "$SRC/installed/bin/postgres" -D data &
					until "$SRC/installed/bin/pg_isready" -q -h "$PWD" -p $PORT; do sleep 0.05; done
					bench=("$SRC/installed/bin/pgbench" -h "$PWD" -p $PORT -U tester)
					"${bench[@]}" -q -i -s 1 postgres 2> init
					"${bench[@]}" -n -c 4 -t $((25 * TIMES)) --random-seed=7 postgres > bench 2>&1
					"${bench[@]}" -n -c 2 -t $((25 * TIMES)) -S -M prepared --random-seed=7 postgres > bench 2>&1
					"$SRC/installed/bin/psql" -h "$PWD" -p $PORT -U tester -At postgres -c "select count(*), sum(abalance) from pgbench_accounts" \
						-c "select count(*), sum(delta) from pgbench_history" -c "select sum(tbalance) from pgbench_tellers"
					kill -INT "$(head -1 data/postmaster.pid)"
					wait`,
			},
		},
	},
	{
		name:   "zstd",
		source: "libzstd",
		script: `make -s -j2 -C programs CC="$CC" CFLAGS="$CFLAGS" HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 zstd`,
		loads: []load{
			{
				name: "files",
				script: `seq 1 $((2000000 * (TIMES > 10 ? TIMES : 10) / 10)) > numbers
					for level in -1 -3 -T2; do "$@" "$SRC/programs/zstd" -q $level numbers -o "numbers$level.zst"; done
					for f in *.zst; do "$@" "$SRC/programs/zstd" -q -d "$f" -o "$f.out"; done
					sha256sum *.zst *.out`,
				// Which thread compresses which part is random.
				exact:     []string{"ZSTD_decompressBlock_internal", "ZSTD_compressBlock_fast", "FIO_compressFilename"},
				scheduled: true,
				cost:      true,
			},
		},
	},
	{
		name:   "leveldb",
		source: "leveldb",
		needs:  []string{"cmake"},
		files:  []string{"/usr/include/gtest/gtest.h", "/usr/include/gmock/gmock.h", "/usr/include/benchmark/benchmark.h"},
		script: `cmake -S . -B build -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_C_COMPILER="$CC" -DCMAKE_BUILD_TYPE=None \
				-DCMAKE_CXX_FLAGS="$CFLAGS" -DCMAKE_C_FLAGS="$CFLAGS" -DBUILD_SHARED_LIBS=ON -DLEVELDB_BUILD_BENCHMARKS=OFF
			make -C build -j2
			# The benchmark uses what the shared object hides.
			$CXX $CFLAGS -std=c++14 -DLEVELDB_PLATFORM_POSIX=1 -I. -Iinclude -Ibuild/include -o build/db_bench \
				{benchmarks/db_bench,util/histogram,util/testutil}.cc $(find build/CMakeFiles/leveldb.dir -name '*.o') -pthread`,
		loads: []load{
			{
				name: "tests",
				script: `export TEST_TMPDIR=$PWD/tests; mkdir tests
					for test in c env fault_injection issue200 no_destructor status; do "$@" "$SRC/build/${test}_test"; done`,
				varies: regexp.MustCompile(`\(\d+ ms( total)?\)|seed=?\d*`),
			},
			{
				name: "cost",
				cost: true,
				script: `"$@" "$SRC/build/db_bench" --db="$PWD/db" --num=$((10000 * TIMES)) \
					--benchmarks=fillseq,readseq,overwrite,readrandom > said 2> progress
					grep -oE '^[a-z]+ +:|[0-9]+ of [0-9]+ found' said`,
			},
		},
	},
	{
		name:   "yaml-cpp",
		source: "yaml-cpp",
		needs:  []string{"cmake"},
		files:  []string{"/usr/include/gtest/gtest.h", "/usr/include/gmock/gmock.h"},
		script: `cmake -S . -B build -DCMAKE_CXX_COMPILER="$CXX" -DCMAKE_BUILD_TYPE=None -DCMAKE_CXX_FLAGS="$CFLAGS" \
				-DYAML_BUILD_SHARED_LIBS=ON -DYAML_CPP_BUILD_TESTS=OFF -DYAML_CPP_BUILD_TOOLS=OFF
			make -C build -j2
			ls test/main.cpp test/*_test.cpp test/node/*_test.cpp test/integration/{error_messages,load_node,node_spec,encoding}_test.cpp |
				xargs -P 2 -I{} sh -c "$CXX $CFLAGS -std=c++14 -Iinclude -Isrc -Itest -Itest/integration -c {} -o build/\$(basename {}).o"
			$CXX $CFLAGS -o build/tests build/*.cpp.o -Lbuild -lyaml-cpp -lgmock -lgtest -pthread -Wl,-rpath,"$PWD/build"`,
		loads: []load{
			{
				name:   "tests",
				script: `"$@" "$SRC/build/tests"`,
				varies: regexp.MustCompile(`\(\d+ ms( total)?\)`),
				exact:  []string{"_ZN4YAML7Scanner13ScanNextTokenEv"},
			},
			{
				name:   "cost",
				cost:   true,
				script: `"$@" "$SRC/build/tests" --gtest_repeat=$(((TIMES + 1) / 2))`,
				varies: regexp.MustCompile(`\(\d+ ms( total)?\)`),
			},
		},
	},
}

const redisServer = `exec "$@" "$SRC/src/redis-server" --port $PORT --save "" --enable-debug-command yes`

// PostgreSQL does not run as root. In a user namespace, root is another user.
const postgresServer = `user=()
	if [[ $(id -u) == 0 ]]; then user=(unshare --user --map-user=1000 --map-group=1000); fi
	"${user[@]}" "$SRC/installed/bin/initdb" -D data -U tester -A trust -N --no-locale -E UTF8 > initdb 2>&1
	cat >> data/postgresql.conf <<EOF
port = $PORT
listen_addresses = '127.0.0.1'
unix_socket_directories = '$PWD'
fsync = off
track_functions = all
logging_collector = off
log_destination = stderr
log_min_messages = fatal
autovacuum = off
EOF
	exec 2> server.log
	`
